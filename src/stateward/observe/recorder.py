"""The record of every operation on one engine. No I/O, and a microsecond or two.

Labels are the kinds of state (bounded here, as users invent them), the operations and outcomes of
`ops.py`, and the names of our own errors. An id or a name is never a label, and a namespace only
where a store has several tenants: see `tenants.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from stateward.errors import StatewardError, StoreUnavailable
from stateward.observe.concerned import Concerned
from stateward.observe.consistency import ENTITIES, GENERATION, Consistency
from stateward.observe.logs import WRITES_LOG, Sparing, log_failure, log_refusal, log_write
from stateward.observe.metrics import (
    DURATIONS,
    SIZES,
    Distribution,
    Histogram,
    Labels,
    distribution,
)
from stateward.observe.tenants import Tenants
from stateward.ops import (
    NOWHERE,
    Acquire,
    Append,
    Applied,
    Commit,
    Delete,
    Fenced,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Op,
    Outcome,
    Put,
    SetHead,
    Swept,
    Write,
)

KINDS = 24  # kinds of state that get their own series; further ones share "other"

# By the name of the outcome's type: the last two are answers of the layer that suppresses failures.
OUTCOMES = {
    "Conflict": "conflict",
    "Duplicate": "duplicate",
    "KeyReused": "key_reused",
    "Held": "held",
    "Fenced": "fenced",
    "NotYours": "not_yours",
    "Spilled": "spilled",
    "Dropped": "dropped",
}
SUPPRESSED = ("spilled", "dropped")
OK = "ok"
READS = ("load", "get", "head", "list")

Key = tuple[Any, ...]
Tracing = Callable[[str, Sequence[Op]], AbstractContextManager[Any]]


class Series:
    """The counts of one kind of state and one operation.

    A count and the outcome that it belongs to change together. Otherwise what is computed from
    both could shrink for a moment, which to Prometheus is a restart.
    """

    __slots__ = ("_errors", "_refused", "_spared", "duration", "kind", "operation")

    def __init__(self, kind: str, operation: str) -> None:
        self.kind = kind
        self.operation = operation
        self.duration = Histogram(DURATIONS)
        self._refused: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._spared: Counter[str] = Counter()  # errors behind an answer all the same

    def refused(self, outcome: str, seconds: float, spared: str | None = None) -> None:
        with self.duration.lock:
            self.duration.add_locked(seconds)
            self._refused[outcome] += 1
            if spared is not None:
                self._spared[spared] += 1

    def failed(self, error: str, seconds: float) -> None:
        with self.duration.lock:
            self.duration.add_locked(seconds)
            self._errors[error] += 1

    def read(self, labels: Labels) -> SeriesReading:
        with self.duration.lock:
            counts, total = self.duration.counted_locked()
            refused, errors = dict(self._refused), self._errors + self._spared
            answered = sum(counts) - sum(self._errors.values())
        took = distribution(labels, DURATIONS, counts, total)
        return SeriesReading(took, answered, refused, errors)


class SeriesReading(NamedTuple):
    """A series at one moment: how long it took, and what became of it."""

    took: Distribution
    answered: int  # the refused ones included
    refused: dict[str, int]
    errors: dict[str, int]


class Recorder:
    """The operations of one engine, counted and timed, and what they say about its consistency."""

    def __init__(
        self, engine: str, tenants: Tenants | None = None, concerned: Concerned | None = None
    ) -> None:
        self.engine = engine
        self._tenants = tenants or Tenants()
        self._concerned = concerned or Concerned()
        self.consistency = Consistency(self._concerned)
        self.tracing: Tracing | None = None
        self.read_batches = Histogram(SIZES)
        self.write_batches = Histogram(SIZES)
        self._series: dict[tuple[str, str], Series] = {}
        self._by_key: dict[Key, Series] = {}
        self._kinds: set[str] = set()
        self._failed_reads, self._failed_writes = Sparing(), Sparing()

    @property
    def series(self) -> list[Series]:
        return list(self._series.values())

    # --- called for every operation -------------------------------------------------

    def answered(
        self,
        ops: Sequence[Op],
        outcomes: Sequence[Outcome],
        commits: Sequence[int],
        seconds: float,
        now: float,
    ) -> None:
        """Count answered operations; `commits` is from `Consistency.commits_of` before the call."""
        consistency, tenants = self.consistency, self._tenants
        for op, outcome, before in zip(ops, outcomes, commits, strict=True):
            series = self._of(op)
            if tenants.active:
                tenants.answered(op, outcome)
            kind = type(outcome)
            if kind is Fetched:
                series.duration.add(seconds)
                # What there is no less and no more of than before has nothing to tell.
                if outcome.head.commits != before or outcome.reset:  # type: ignore[union-attr]
                    consistency.fetched(op.entity, outcome, before)  # type: ignore[union-attr,arg-type]
            elif kind is Applied:
                series.duration.add(seconds)
                consistency.commits[op.entity] = before + 1  # type: ignore[union-attr]
                if outcome.lease is not None:  # type: ignore[union-attr]
                    self._leased(op, series, outcome)  # type: ignore[arg-type]
                if WRITES_LOG.isEnabledFor(logging.DEBUG):
                    log_write(op, series.operation, outcome, seconds)  # type: ignore[arg-type]
            elif kind is Listed:
                series.duration.add(seconds)
                if op.due:  # type: ignore[union-attr]
                    for listed in outcome.entities:  # type: ignore[union-attr]
                        consistency.see(listed.entity, listed.head)
            elif kind is Swept:
                series.duration.add(seconds)
            else:
                self._refused(op, series, outcome, seconds)
        if now - consistency.rotated > GENERATION or len(consistency.commits) > ENTITIES:
            consistency.rotate(now)

    def _leased(self, op: Commit, series: Series, applied: Applied) -> None:
        if type(op.writes[0]) is Acquire:
            self.consistency.granted(op.entity, applied, series.kind)

    def failed(self, ops: Sequence[Op], error: BaseException, seconds: float, now: float) -> None:
        """Count operations whose engine failed, or whose caller did not wait for the answer."""
        name = _name(error)
        unknown = isinstance(error, StoreUnavailable) and error.applied == "unknown"
        operations = []
        for op in ops:
            series = self._of(op)
            series.failed(name, seconds)
            operations.append(series.operation)
            if unknown and type(op) is Commit:
                self.consistency.count("unknown")
        if isinstance(error, Exception):  # else the caller went away: no failure of the store
            self._tenants.failed(ops)
            for op in ops:
                if isinstance(op, Commit | Fetch):
                    self._concerned.note("failures", op.entity)
            sparing = self._failed_writes if type(ops[0]) is Commit else self._failed_reads
            unlogged = sparing.unlogged(now)
            if unlogged is not None:
                log_failure(ops, operations, error, name, seconds, unlogged)

    # --- what is rare ---------------------------------------------------------------

    def _of(self, op: Op) -> Series:
        key: Key
        if type(op) is Fetch:
            what = Log if op.log is not None else bool(op.documents or op.all_documents)
            key = (op.entity[1], what)
        elif type(op) is Commit:
            writes = op.writes
            key = (op.entity[1], type(writes[0]), len(writes) > 1, not op.checks)
        elif type(op) is List:
            key = (op.kind if op.within is None else op.within.kind, List)
        else:
            key = ("store", type(op))
        series = self._by_key.get(key)
        return series if series is not None else self._new(key, op)

    def _new(self, key: Key, op: Op) -> Series:
        kind = key[0] or "any"
        if kind not in self._kinds:
            if len(self._kinds) >= KINDS:
                kind = "other"  # and the key is not kept: keys of unknown kinds have no end
            else:
                self._kinds.add(kind)
        operation = operation_of(op)
        series = self._series.setdefault((kind, operation), Series(kind, operation))
        if kind != "other":
            self._by_key[key] = series
        return series

    def _refused(self, op: Op, series: Series, outcome: Outcome, seconds: float) -> None:
        if type(op) is Commit and NOWHERE in op.checks:  # asked, and answered
            series.duration.add(seconds)
            return
        name = OUTCOMES.get(type(outcome).__name__, "other")
        if name in SUPPRESSED:
            self._suppressed(op, series, name, outcome, seconds)
            return
        series.refused(name, seconds)
        if type(op) is not Commit:
            return
        if type(outcome) is Fenced:
            self.consistency.count("fenced")
            self._concerned.note("fenced", op.entity)
        elif name == "conflict":
            self._concerned.note("conflicts", op.entity)
        head = getattr(outcome, "head", None)
        if head is not None:
            self.consistency.see(op.entity, head)
        log_refusal(op, series.operation, name, outcome, seconds)

    def _suppressed(self, op: Op, series: Series, name: str, outcome: Any, seconds: float) -> None:
        """Count a failure that was not raised; the layer that suppressed it has logged it."""
        error: StoreUnavailable = outcome.error
        series.refused(name, seconds, spared=_name(error))
        assert type(op) is Commit
        for event in ("failures", "suppressed", *(("dropped",) if name == "dropped" else ())):
            self._concerned.note(event, op.entity)
        if error.applied == "unknown":
            self.consistency.count("unknown")


def operation_of(op: Op) -> str:
    """Return the name of an operation in words that people use."""
    if type(op) is Commit:
        first = type(op.writes[0])
        if NOWHERE in op.checks:
            return "find"
        if len(op.writes) > 1 and not _is_recorded(op.writes):
            return "acquire" if first is Acquire else "commit"
        if first is Put and op.checks:
            return "update"
        return name_of(first)
    if type(op) is Fetch:
        if op.log is not None:
            return "load"
        return "get" if op.documents or op.all_documents else "head"
    return "list" if type(op) is List else "sweep"


def _is_recorded(writes: tuple[Write, ...]) -> bool:
    """Return whether the writes are a document and the record of it in its history."""
    return len(writes) == 2 and type(writes[0]) in (Put, Delete) and type(writes[1]) is Append


def name_of(write: type) -> str:
    return "set" if write is SetHead else write.__name__.lower()


def _name(error: BaseException) -> str:
    """Return the name that an error is counted by: only our own have a bounded set of names."""
    if isinstance(error, StatewardError):
        return type(error).__name__
    return "Exception" if isinstance(error, Exception) else "Cancelled"
