"""What is recorded of a workflow: its steps, signals and waits, and how it is begun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from stateward.codec import check_id, decode, encode
from stateward.errors import InvalidInput, StepFailed
from stateward.ops import Delete, Entry, Found, Put
from stateward.records import WorkflowInfo, moment
from stateward.state.work import ENDS, error_record

ACTIVE, COMPLETED, FAILED = "active", "completed", "failed"
META, STATE, STEP, ERROR, DEATHS = "meta", "state", "step", "error", "deaths"
READING = (META, STATE, STEP, ERROR)
DEATHS_FORGIVEN = 10  # drivers in a row that may die in a workflow; one more, and it has failed
# Put by whoever takes it and deleted by whoever gives it back, so that its version says how many
# have taken it in a row and not given it back.
SOMEBODY_DRIVES, NOBODY_DRIVES = Put(DEATHS, "{}"), Delete(DEATHS)

Machine = Mapping[str, tuple[str, ...] | list[str]]


class Cut(NamedTuple):
    """A step that was cancelled."""

    before: int  # how often the driver had been cancelled when the step began
    tasks: Set[object]  # all that there were when it was cancelled


class Parked(BaseException):
    """Leaves the block of a workflow that waits; the workflow's own exit takes it in."""


class RunRecord:
    """What a workflow has recorded, by what it answers."""

    def __init__(self) -> None:
        self.version = 0
        self.steps: dict[str, Any] = {}
        self.failures: dict[str, dict[str, Any]] = {}  # steps that failed, and the run went on
        self.waits: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, float] = {}  # when a wait or sleep was first parked
        self.ends: dict[str, float] = {}  # of a sleep until a given time
        self.signals: list[tuple[int, str, Any, float]] = []  # number, name, value, time
        self.taken: set[int] = set()

    def add(self, entry: Entry) -> None:
        """Take in the next entry; entries come in order, each once."""
        self.version = entry.seq
        record = decode(entry.body)
        if "step" in record and "failed" in record:
            self.failures[record["step"]] = record["failed"]
        elif "step" in record:
            self.steps[record["step"]] = record["value"]
        elif "signal" in record:
            self.signals.append((entry.seq, record["signal"], record["value"], entry.at))
        elif "wait" in record:
            self.waits[record["wait"]] = record
            self.taken.add(record.get("taken", 0))
        elif "begun" in record:
            self.begun[record["begun"]] = entry.at
            if "end" in record:
                self.ends[record["begun"]] = record["end"]

    def signal(self, name: str, until: float | None = None) -> tuple[int, Any] | None:
        """The oldest signal of this name that nobody has taken, if it came in time.

        By its number: a newer one is not taken before it, though a clock that was set back says
        that only the newer came in time.
        """
        for seq, said, value, at in self.signals:
            if said == name and seq not in self.taken:
                return (seq, value) if until is None or at <= until else None
        return None


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


def workflow_info(found: Found, cursor: str = "") -> WorkflowInfo:
    """A workflow as listed."""
    documents = found.documents
    step = decode(documents[STEP].json)["at"] if STEP in documents else None
    error = decode(documents[ERROR].json) if ERROR in documents else None
    return WorkflowInfo(
        found.entity.id,
        decode(documents[META].json)["kind"] if META in documents else "",
        found.head.owner or None,
        found.head.status,
        step,
        decode(documents[STATE].json) if STATE in documents else {},
        moment(found.head.updated),
        f"{error['type']}: {error['message']}" if error else None,
        cursor,
    )
