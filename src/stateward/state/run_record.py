"""The log of a workflow: steps, signals, waits and checkpoints, indexed for a replay. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from stateward.codec import decode, encode
from stateward.ops import Entry, Value
from stateward.state.value_delta import Frozen, apply, difference, freeze, thaw

LARGE = 1024  # bytes from which a value is stored as a difference, if that is shorter
# A snapshot is put after this many entries (less than a page), or after this many bytes of
# checkpoints, if they are also this many times as large as the last checkpoint.
SNAPSHOT_ENTRIES, SNAPSHOT_BYTES, SNAPSHOT_SIZES = 150, 64 * 1024, 4


class Parked(BaseException):
    """Raised to leave the block of a workflow that waits; `Workflow.__aexit__` handles it."""


class StepEntry(Struct, gc=False):
    """An entry that begins with `step`: its value, its failure, or a difference.

    `new` is the difference to the value of the step `since`; "" is the checkpoint before it.
    """

    step: str
    value: Raw = Raw()
    failed: dict[str, Any] | None = None
    since: str | None = None
    new: Raw = Raw()


class CheckpointEntry(Struct):
    """An entry that begins with `checkpoint`: its number, and its value or a difference."""

    checkpoint: int
    value: Raw = Raw()
    new: Raw = Raw()


class Snapshot(Struct):
    """The sum of all entries up to a version: the newest checkpoint, and signals not taken."""

    version: int
    checkpoint: int
    value: Raw
    signals: list[tuple[int, str, Any, float]]  # not taken yet


_step_entry, _checkpoint_entry = Decoder(StepEntry), Decoder(CheckpointEntry)
_snapshot = Decoder(Snapshot)
_UNDATED = 0.0  # the time of an entry that was read as text
_STEP = '{"step":'
_VALUE = len('{"value":')


class RunRecord:
    """The entries of a workflow since its last checkpoint, by the call that each answers.

    Values of steps are decoded on demand.
    """

    def __init__(self, snapshot: Value | None = None) -> None:
        self.version = 0
        self.steps: dict[str, Raw | StepEntry] = {}
        self.failures: dict[str, dict[str, Any]] = {}  # of steps after which the run continued
        self.waits: dict[str, dict[str, Any]] = {}
        self.started: dict[str, float] = {}  # when a wait or sleep was first parked
        self.ends: dict[str, float] = {}  # of sleeps until a given time
        self.signals: list[tuple[int, str, Any, float]] = []  # number, name, value, time
        self.taken: set[int] = set()
        self.notices: dict[str, int] = {}  # by ended child: the number of the latest entry about it
        self.retried = 0  # the number of the last entry of a retry; 0: none
        self.checkpoints = 0
        self.checkpoint: Frozen = b"null"  # the value of the last one
        self.mark = ""  # its prefix in the ids of later calls
        self._started_at: dict[str, int] = {}  # by wait: the number of its entry, if read as text
        self._latest: dict[str, tuple[str, Frozen | None]] = {}  # by name: the last large result
        self._snapshotted = 0  # the version of the snapshot
        self._unsnapshotted = 0  # bytes of checkpoints since
        if snapshot is None:
            return
        start = _snapshot.decode(snapshot.json)
        # A snapshot of more entries than the log had was copied from another workflow.
        if start.version <= snapshot.log:
            self.version = self._snapshotted = start.version
            self.signals = start.signals
            self._be_at(start.checkpoint, freeze(start.value))

    def add(self, entry: Entry) -> None:
        """Add the next entry; entries come in order, each once."""
        self._add(entry.seq, entry.body, entry.at)

    def add_lines(self, lines: str, count: int) -> None:
        """Add the next `count` entries as text, without their times; see `undated`."""
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
            self.started[record["begun"]] = at
            if at == _UNDATED:
                self._started_at[record["begun"]] = seq
            if "end" in record:
                self.ends[record["begun"]] = record["end"]
        elif "child" in record:
            self.notices[record["child"]] = seq
        elif "retried" in record:
            self.retried = seq
            for id_ in record["retried"]:
                for answers in (
                    self.failures,
                    self.waits,
                    self.started,
                    self.ends,
                    self._started_at,
                ):
                    answers.pop(id_, None)

    def _add_steps(self, entries: Iterable[StepEntry]) -> None:
        steps = self.steps
        for step in entries:
            if step.failed is not None:
                self.failures[step.step] = step.failed
            else:
                steps[step.step] = step.value if step.since is None else step

    def undated(self) -> list[int]:
        """Return the numbers of open waits and signals that were read without their times."""
        signals = {seq for seq, _, _, at in self.signals if at == _UNDATED} - self.taken
        waits = {seq for id_, seq in self._started_at.items() if id_ not in self.waits}
        return sorted(signals | waits)

    def date(self, times: Mapping[int, float]) -> None:
        """Add the times of entries that were read as text."""
        self.signals = [(seq, *signal, times.get(seq, at)) for seq, *signal, at in self.signals]
        for id_, seq in self._started_at.items():
            self.started[id_] = times.get(seq, self.started[id_])

    # --- values of steps --------------------------------------------------------------------

    def value(self, id_: str) -> Any:
        """Return the result of a recorded step."""
        step = self.steps[id_]
        if isinstance(step, StepEntry):
            return decode(thaw(self._parts(id_, _name(id_))))
        if len(step) >= LARGE:
            self._latest[_name(id_)] = id_, None
        return decode(step)

    def step_body(self, id_: str, result: str) -> tuple[str, Frozen | None]:
        """Return the entry of a step with this result, {"value":…}, and the parts of a large one.

        A value that repeats most of the last large one of that name, or of the last checkpoint, is
        stored as a difference.
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
        """Note a step that is recorded now. Its value was returned, and is not needed again."""
        self.steps[id_] = Raw()
        if parts is not None:
            self._latest[_name(id_)] = id_, parts

    def _parts(self, id_: str, name: str) -> Frozen:
        """Return the parts of a step's value; those of the checkpoint if the id is ""."""
        latest, base = self._latest.get(name, ("", None))
        news: list[Raw] = []
        at = id_
        while at and (at != latest or base is None):
            step = self.steps[at]
            if not isinstance(step, StepEntry):
                base = freeze(step)
                break
            news.append(step.new)
            at = step.since or ""
        parts = self.checkpoint if not at or base is None else base
        for new in reversed(news):
            parts = apply(parts, new)
        if id_:
            self._latest[name] = id_, parts
        return parts

    # --- checkpoints ------------------------------------------------------------------------

    def checkpoint_body(self, text: str) -> tuple[str, Frozen]:
        """Return the entry of a checkpoint with {"value":…}, and its parts."""
        begin = f'{{"checkpoint":{self.checkpoints + 1},'
        now = freeze(text[_VALUE:-1].encode())
        new = difference(self.checkpoint, now).decode()
        return (begin + text[1:] if 2 * len(new) > len(text) else f'{begin}"new":{new}}}'), now

    def passed(self, parts: Frozen, size: int) -> None:
        """Note a recorded checkpoint, and forget all entries before it."""
        self._be_at(self.checkpoints + 1, parts)
        self._unsnapshotted += size
        self._forget()

    def snapshot_due(self, version: int) -> bool:
        """Whether a resume would have to read much without a new snapshot."""
        entries = version - self._snapshotted
        if entries >= SNAPSHOT_ENTRIES:
            return True
        return self._unsnapshotted >= SNAPSHOT_BYTES and (
            self._unsnapshotted >= SNAPSHOT_SIZES * len(thaw(self.checkpoint))
        )

    def snapshot(self) -> str:
        """Return a snapshot, which a resume reads instead of the entries up to this version."""
        self._snapshotted, self._unsnapshotted = self.version, 0
        value, signals = thaw(self.checkpoint).decode(), encode(self.signals, "the signals")
        numbers = f'"version":{self.version},"checkpoint":{self.checkpoints}'
        return f'{{{numbers},"signals":{signals},"value":{value}}}'

    def _add_checkpoint(self, body: str) -> None:
        entry = _checkpoint_entry.decode(body)
        if entry.checkpoint <= self.checkpoints:  # the snapshot belongs to a later checkpoint
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
        for answers in (self.steps, self.failures, self.waits, self.started, self.ends):
            answers.clear()
        self._started_at.clear()
        self._latest.clear()

    @property
    def untaken(self) -> list[str]:
        """The names of signals that were not taken."""
        late = self.waits  # an answer named by its wait: its sender knows that it came too late
        return [
            name for seq, name, _, _ in self.signals if seq not in self.taken and name not in late
        ]

    def signal(self, name: str, until: float | None = None) -> tuple[int, Any] | None:
        """Return the oldest signal of this name that was not taken, if it came in time.

        The oldest by number: a newer one never goes first, even if a clock that was set back makes
        only the newer one appear to be in time.
        """
        for seq, sent, value, at in self.signals:
            if sent == name and seq not in self.taken:
                return (seq, value) if until is None or at <= until else None
        return None

    def answer(self, wait: str, name: str, until: float | None) -> tuple[int, Any] | None:
        """Return the answer to a wait: to its own question, or else a signal of that name."""
        return self.signal(wait, until) or self.signal(name, until)


def entry_parts(entry: Entry) -> tuple[str, str | None, Any]:
    """Return the type of an entry (step, signal, wait …), the name in it, and its value."""
    record = decode(entry.body)
    what, name = next(iter(record.items()))
    rest = {key: value for key, value in record.items() if key != what}
    value = rest["value"] if rest.keys() == {"value"} else rest or None
    return (what, None, name) if isinstance(name, dict | list) else (what, name, value)


def _name(id_: str) -> str:
    return id_.rpartition("#")[0]


def is_parked(error: BaseException | None) -> bool:
    """Whether the block was left because the workflow waits, perhaps from a group of tasks."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_parked(each) for each in error.exceptions)
    return isinstance(error, Parked)
