"""What is recorded of a workflow: its steps, signals and waits, and how it is begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from msgspec import Raw, Struct
from msgspec.json import Decoder

from stateward.codec import check_id, decode, encode
from stateward.errors import InvalidInput, StepFailed
from stateward.ops import Delete, Entry, Found, Put, Value
from stateward.records import Awaited, WorkflowInfo, moment
from stateward.state.value_delta import Frozen, apply, difference, freeze, thaw
from stateward.state.work import ENDS, error_record

ACTIVE, COMPLETED, FAILED, CANCELLED = "active", "completed", "failed", "cancelled"
META, STATE, STEP, ERROR, DEATHS = "meta", "state", "step", "error", "deaths"
SNAPSHOT = "snapshot"  # derived from the log: without it, the log is read from its beginning
RESULT, WAITS, TROUBLE = "result", "waits", "trouble"
READING = (META, STATE, STEP, ERROR)
TELLING = (*READING, WAITS, TROUBLE, DEATHS)  # all that `workflow_info` can tell of
DEATHS_FORGIVEN = 10  # drivers in a row that may die in a workflow; one more, and it has failed
# Put by whoever takes it and deleted by whoever gives it back, so that its version says how many
# have taken it in a row and not given it back.
SOMEBODY_DRIVES, NOBODY_DRIVES = Put(DEATHS, "{}"), Delete(DEATHS)

LARGE = 1024  # bytes of a value from which on it is asked what is new in it
# A snapshot is put when so many entries have come since the last one (less than a page), or so many
# bytes of checkpoints, at least, that are so many times as large as the last of them.
SNAPSHOT_ENTRIES, SNAPSHOT_BYTES, SNAPSHOT_SIZES = 150, 64 * 1024, 4

Machine = Mapping[str, tuple[str, ...] | list[str]]


class Cut(NamedTuple):
    """A step that was cancelled."""

    before: int  # how often the driver had been cancelled when the step began
    tasks: Set[object]  # all that there were when it was cancelled


class Parked(BaseException):
    """Leaves the block of a workflow that waits; the workflow's own exit takes it in."""


class StepEntry(Struct, gc=False):
    """An entry that begins with `step`: its value, how it `failed`, or what of it is new.

    What is new is told of the value of another step; "" is what the checkpoint before it holds.
    """

    step: str
    value: Raw = Raw()
    failed: dict[str, Any] | None = None
    since: str | None = None
    new: Raw = Raw()


class CheckpointEntry(Struct):
    """An entry that begins with `checkpoint`: its number, and its value or what of it is new."""

    checkpoint: int
    value: Raw = Raw()
    new: Raw = Raw()


class Snapshot(Struct):
    """What there is to know of the entries up to a version: the newest checkpoint, and signals."""

    version: int
    checkpoint: int
    value: Raw
    signals: list[tuple[int, str, Any, float]]  # those that nobody had taken


_step_entry, _checkpoint_entry = Decoder(StepEntry), Decoder(CheckpointEntry)
_snapshot = Decoder(Snapshot)
_UNDATED = 0.0  # the time of an entry that was read without it
_STEP = '{"step":'
_VALUE = len('{"value":')


class RunRecord:
    """What a workflow has recorded since its last checkpoint, by what it answers.

    Values of steps are decoded when they are asked for.
    """

    def __init__(self, snapshot: Value | None = None) -> None:
        self.version = 0
        self.steps: dict[str, Raw | StepEntry] = {}
        self.failures: dict[str, dict[str, Any]] = {}  # steps that failed, and the run went on
        self.waits: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, float] = {}  # when a wait or sleep was first parked
        self.ends: dict[str, float] = {}  # of a sleep until a given time
        self.signals: list[tuple[int, str, Any, float]] = []  # number, name, value, time
        self.taken: set[int] = set()
        self.told: dict[str, int] = {}  # children that have come to their end, and when: its number
        self.retried = 0  # the entry that took it up again after it had failed; 0: none
        self.checkpoints = 0
        self.checkpoint: Frozen = b"null"  # what the last one holds
        self.mark = ""  # of that checkpoint, in the ids of what comes after it
        self._begun_at: dict[str, int] = {}  # by wait: the number of the entry, if not its time
        self._latest: dict[str, tuple[str, Frozen | None]] = {}  # by name: the last large result
        self._snapshotted = 0  # the version of the snapshot
        self._unsnapshotted = 0  # bytes of checkpoints since
        kept = None if snapshot is None else _snapshot.decode(snapshot.json)
        # One that says more than the log held when it was put was copied from another workflow.
        if snapshot is not None and kept is not None and kept.version <= snapshot.log:
            self.version = self._snapshotted = kept.version
            self.signals = kept.signals
            self._be_at(kept.checkpoint, freeze(kept.value))

    def add(self, entry: Entry) -> None:
        """Take in the next entry; entries come in order, each once."""
        self._add(entry.seq, entry.body, entry.at)

    def add_lines(self, lines: str, count: int) -> None:
        """The same for so many entries by their text; see `undated`."""
        if lines.startswith(_STEP) and lines.count(f"\n{_STEP}") == count - 1:
            self._add_steps(_step_entry.decode_lines(lines))
            self.version += count
        else:
            for number, line in enumerate(lines.split("\n"), self.version + 1):
                self._add(number, line, _UNDATED)

    def _add(self, seq: int, body: str, at: float) -> None:
        self.version = seq
        if body.startswith(_STEP):
            self._add_steps((_step_entry.decode(body),))
            return
        if body.startswith('{"checkpoint":'):
            self._add_checkpoint(body)
            return
        record = decode(body)
        if "step" in record:
            self.steps[record["step"]] = Raw(encode(record["value"], "the step").encode())
        elif "signal" in record:
            self.signals.append((seq, record["signal"], record["value"], at))
        elif "wait" in record:
            self.waits[record["wait"]] = record
            self.taken.add(record.get("taken", 0))
        elif "begun" in record:
            self.begun[record["begun"]] = at
            if at == _UNDATED:
                self._begun_at[record["begun"]] = seq
            if "end" in record:
                self.ends[record["begun"]] = record["end"]
        elif "child" in record:
            self.told[record["child"]] = seq
        elif "retried" in record:
            self.retried = seq
            for id_ in record["retried"]:
                for answers in (self.failures, self.waits, self.begun, self.ends, self._begun_at):
                    answers.pop(id_, None)

    def _add_steps(self, entries: Iterable[StepEntry]) -> None:
        steps = self.steps
        for step in entries:
            if step.failed is not None:
                self.failures[step.step] = step.failed
            else:
                steps[step.step] = step.value if step.since is None else step

    def undated(self) -> list[int]:
        """Numbers of entries whose time was not read, and matters: of what is still open."""
        signals = {seq for seq, _, _, at in self.signals if at == _UNDATED} - self.taken
        waits = {seq for id_, seq in self._begun_at.items() if id_ not in self.waits}
        return sorted(signals | waits)

    def date(self, times: Mapping[int, float]) -> None:
        """Take in the times of entries that were read without them."""
        self.signals = [(seq, *said, times.get(seq, at)) for seq, *said, at in self.signals]
        for id_, seq in self._begun_at.items():
            self.begun[id_] = times.get(seq, self.begun[id_])

    # --- values of steps --------------------------------------------------------------------

    def value(self, id_: str) -> Any:
        """What a recorded step gave."""
        step = self.steps[id_]
        if isinstance(step, StepEntry):
            return decode(thaw(self._parts(id_, _name(id_))))
        if len(step) >= LARGE:
            self._latest[_name(id_)] = id_, None
        return decode(step)

    def step_body(self, id_: str, result: str) -> tuple[str, Frozen | None]:
        """The entry of a step with this result, {"value":…}, and the parts of a large one.

        A value that is mostly the last large one of that name, or what the last checkpoint holds,
        is stored by what is new in it.
        """
        begin = f'{{"step":{encode(id_, "the step")},'
        if len(result) < LARGE:
            return begin + result[1:], None
        now = freeze(result[_VALUE:-1].encode())
        since, _ = self._latest.get(_name(id_), ("", None))
        new = difference(self._parts(since, _name(id_)), now).decode()
        if 2 * len(new) > len(result):
            return begin + result[1:], now
        return f'{begin}"since":{encode(since, "the step")},"new":{new}}}', now

    def stepped(self, id_: str, parts: Frozen | None = None) -> None:
        """This step is recorded now. Its value was given, and is not asked for again."""
        self.steps[id_] = Raw()
        if parts is not None:
            self._latest[_name(id_)] = id_, parts

    def _parts(self, id_: str, name: str) -> Frozen:
        """The parts of the value of a step of that name; of the checkpoint's, if the id is ""."""
        latest, known = self._latest.get(name, ("", None))
        news: list[Raw] = []
        at = id_
        while at and (at != latest or known is None):
            step = self.steps[at]
            if not isinstance(step, StepEntry):
                known = freeze(step)
                break
            news.append(step.new)
            at = step.since or ""
        parts = self.checkpoint if not at or known is None else known
        for new in reversed(news):
            parts = apply(parts, new)
        if id_:
            self._latest[name] = id_, parts
        return parts

    # --- checkpoints ------------------------------------------------------------------------

    def checkpoint_body(self, text: str) -> tuple[str, Frozen]:
        """The entry of a checkpoint that holds {"value":…}, and its parts."""
        begin = f'{{"checkpoint":{self.checkpoints + 1},'
        now = freeze(text[_VALUE:-1].encode())
        new = difference(self.checkpoint, now).decode()
        return (begin + text[1:] if 2 * len(new) > len(text) else f'{begin}"new":{new}}}'), now

    def passed(self, parts: Frozen, size: int) -> None:
        """A checkpoint is recorded: what came before it is not asked for again."""
        self._be_at(self.checkpoints + 1, parts)
        self._unsnapshotted += size
        self._forget()

    def snapshot_due(self, version: int) -> bool:
        """Whether a resume would have to read much."""
        entries = version - self._snapshotted
        if entries >= SNAPSHOT_ENTRIES:
            return True
        return self._unsnapshotted >= SNAPSHOT_BYTES and (
            self._unsnapshotted >= SNAPSHOT_SIZES * len(thaw(self.checkpoint))
        )

    def snapshot(self) -> str:
        """What a resume reads instead of the entries up to this version."""
        self._snapshotted, self._unsnapshotted = self.version, 0
        value, signals = thaw(self.checkpoint).decode(), encode(self.signals, "the signals")
        numbers = f'"version":{self.version},"checkpoint":{self.checkpoints}'
        return f'{{{numbers},"signals":{signals},"value":{value}}}'

    def _add_checkpoint(self, body: str) -> None:
        entry = _checkpoint_entry.decode(body)
        if entry.checkpoint <= self.checkpoints:  # the snapshot is of a later one
            self._forget()
        else:
            whole = len(entry.value) > 0
            parts = freeze(entry.value) if whole else apply(self.checkpoint, entry.new)
            self.passed(parts, len(body))

    def _be_at(self, checkpoint: int, parts: Frozen) -> None:
        self.checkpoints, self.checkpoint, self.mark = checkpoint, parts, f"{checkpoint}."

    def _forget(self) -> None:
        self.signals = [signal for signal in self.signals if signal[0] not in self.taken]
        self.taken.clear()
        for answers in (self.steps, self.failures, self.waits, self.begun, self.ends):
            answers.clear()
        self._begun_at.clear()
        self._latest.clear()

    @property
    def untaken(self) -> list[str]:
        """The names of signals that nobody has taken."""
        return [name for seq, name, _, _ in self.signals if seq not in self.taken]

    def signal(self, name: str, until: float | None = None) -> tuple[int, Any] | None:
        """The oldest signal of this name that nobody has taken, if it came in time.

        By its number: a newer one is not taken before it, though a clock that was set back says
        that only the newer came in time.
        """
        for seq, said, value, at in self.signals:
            if said == name and seq not in self.taken:
                return (seq, value) if until is None or at <= until else None
        return None

    def answer(self, wait: str, name: str, until: float | None) -> tuple[int, Any] | None:
        """What has come for a wait: an answer to its very question, or a signal of that name."""
        return self.signal(wait, until) or self.signal(name, until)


def entry_parts(entry: Entry) -> tuple[str, str | None, Any]:
    """What an entry is of, e.g. a step, a signal or a wait; its name; and what it says."""
    said = decode(entry.body)
    what, name = next(iter(said.items()))
    rest = {key: value for key, value in said.items() if key != what}
    value = rest["value"] if rest.keys() == {"value"} else rest or None
    return (what, None, name) if isinstance(name, dict | list) else (what, name, value)


def _name(id_: str) -> str:
    return id_.rpartition("#")[0]


def step_failure(id: str, error: BaseException, *, cut_short: bool = False) -> str:
    """A step that failed, or was `cut_short` by whoever ran it, as it is recorded."""
    failed = failure_of(error) | ({"cut_short": True} if cut_short else {})
    return encode({"step": id, "failed": failed}, "the failure")


def failure_of(error: BaseException) -> dict[str, Any]:
    """With the classes that an `except` could name, and, of a group, all that is in it."""
    classes = [f"{c.__module__}:{c.__qualname__}" for c in type(error).__mro__]
    classes = classes[: classes.index("builtins:BaseException") + 1]
    record = error_record(error) | {"classes": classes}
    if isinstance(error, BaseExceptionGroup):
        parts = [failure_of(each) for each in error.exceptions]
        return record | {"message": error.message, "parts": parts}
    if isinstance(error, KeyError) and len(error.args) == 1:  # it says the repr of what it has
        return record | {"message": str(error.args[0])[:2000]}
    return record


def raised_again(record: Mapping[str, Any]) -> BaseException:
    """The exception of a step that failed before: of its class, or the nearest that is loaded.

    Only classes of exceptions that this process has loaded are considered, and none of their own
    code is run: what is stored must not decide what is executed.
    """
    if "parts" in record:
        parts = [raised_again(part) for part in record["parts"]]
        return BaseExceptionGroup(record["message"], parts)  # of exceptions: an ExceptionGroup
    loaded = {f"{c.__module__}:{c.__qualname__}": c for c in _subclasses(BaseException)}
    for name in record["classes"]:
        if name in loaded and not issubclass(loaded[name], ENDS):
            try:
                error = loaded[name].__new__(loaded[name])
                error.args = (record["message"],)
                str(error)
            except Exception:  # a class that needs more than a text: the next one will do
                continue
            return error
    return StepFailed(f"{record['type']}: {record['message']}")


def _subclasses(of: type[BaseException]) -> Iterator[type[BaseException]]:
    yield of
    for each in of.__subclasses__():
        yield from _subclasses(each)


def is_parked(error: BaseException | None) -> bool:
    """Whether the block was left because the workflow waits, be it from a group of tasks."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_parked(each) for each in error.exceptions)
    return isinstance(error, Parked)


def check_machine(machine: Machine | None) -> dict[str, tuple[str, ...]]:
    """A declared machine: every state and where it leads; the first is where it begins."""
    if machine is None:
        return {}
    states = {check_id(at, "a step"): tuple(ways) for at, ways in machine.items()}
    for at, ways in states.items():
        for way in ways:
            if way not in states:
                raise InvalidInput(f"the machine leads from {at!r} to {way!r}, which it lacks")
    return states


def workflow_info(found: Found, cursor: str = "", now: float | None = None) -> WorkflowInfo:
    """A workflow as listed. Of what was read by `TELLING`, at about `now`, it tells all."""
    documents = found.documents
    step = decode(documents[STEP].json)["at"] if STEP in documents else None
    error = decode(documents[ERROR].json) if ERROR in documents else None
    trouble = decode(documents[TROUBLE].json) if TROUBLE in documents else error or {}
    return WorkflowInfo(
        found.entity.id,
        decode(documents[META].json)["kind"] if META in documents else "",
        found.head.owner or None,
        found.head.status,
        step,
        decode(documents[STATE].json) if STATE in documents else {},
        moment(found.head.updated),
        error_text(error) if error else None,
        cursor,
        () if now is None else _awaited(found, now),
        found.head.lease.holder if found.head.lease is not None else None,
        error_text(trouble) if trouble else None,
        trouble.get("step"),
        trouble.get("attempt", 0),
    )


def error_text(error: Mapping[str, Any]) -> str:
    """A recorded error in words."""
    return f"{error['type']}: {error['message']}"


def _awaited(found: Found, now: float) -> tuple[Awaited, ...]:
    head, documents = found.head, found.documents
    if head.status != ACTIVE or (head.lease is not None and now < head.lease.until):
        return ()
    if head.lease is not None:
        return (Awaited("driver", "", moment(head.lease.until)),)
    if WAITS not in documents or DEATHS in documents or (head.due and head.due <= head.updated):
        return (Awaited("driver", "", moment(head.updated)),)
    return tuple(
        Awaited(
            wait["what"],
            wait["name"],
            moment(wait["since"]),
            None if wait["until"] is None else moment(wait["until"]),
        )
        for wait in decode(documents[WAITS].json)["waits"]
    )
