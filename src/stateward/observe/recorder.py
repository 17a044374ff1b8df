"""What is noted of every operation on one engine. No I/O, and a microsecond or two.

Labels are the kinds of state (bounded here, whoever invents them), the operations and outcomes of
`ops.py`, and the names of our own errors. An id, a name or a namespace is never one.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from stateward.errors import StatewardError, StoreUnavailable
from stateward.observe.logs import WRITES_LOG, log_failure, log_going_back, log_refusal, log_write
from stateward.observe.metrics import (
    DURATIONS,
    SIZES,
    Distribution,
    Histogram,
    Labels,
    distribution,
)
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Delete,
    Drop,
    Duplicate,
    Entity,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    List,
    Listed,
    NotYours,
    Op,
    Outcome,
    Put,
    Release,
    Renew,
    Replace,
    SetHead,
    Swept,
    Trim,
)

KINDS = 24  # kinds of state that get series of their own; further ones share "other"
REMEMBERED = 4096  # entities whose number of commits is remembered, in each of two generations
LOGGED_A_SECOND = 20  # failed reads
GENERATION = 1800.0  # seconds; far below the day for which a store remembers what was deleted

OUTCOMES: dict[type, str] = {
    Conflict: "conflict",
    Duplicate: "duplicate",
    KeyReused: "key_reused",
    Held: "held",
    Fenced: "fenced",
    NotYours: "not_yours",
}
OK = "ok"
PROBLEMS = ("backwards", "reset", "fenced", "unknown")
READS = ("load", "get", "head", "list")

_WRITES: dict[type, str] = {
    Append: "append",
    Put: "put",
    Delete: "delete",
    Trim: "trim",
    Replace: "replace",
    Acquire: "acquire",
    Renew: "renew",
    Release: "release",
    SetHead: "set",
    Drop: "drop",
}
_ORDINARY = frozenset((Applied, Fetched, Listed, Swept))

Key = tuple[Any, ...]
Tracing = Callable[[str, Sequence[Op]], AbstractContextManager[Any]]


class Series:
    """All that is counted for one kind of state and one operation.

    A count and the outcome that it belongs to change together. Otherwise what is computed from
    both could shrink for a moment, which to Prometheus is a restart.
    """

    __slots__ = ("_errors", "_refused", "duration", "kind", "operation")

    def __init__(self, kind: str, operation: str) -> None:
        self.kind = kind
        self.operation = operation
        self.duration = Histogram(DURATIONS)
        self._refused: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def refused(self, outcome: str, seconds: float) -> None:
        with self.duration.lock:
            self.duration.add_locked(seconds)
            self._refused[outcome] += 1

    def failed(self, error: str, seconds: float) -> None:
        with self.duration.lock:
            self.duration.add_locked(seconds)
            self._errors[error] += 1

    def read(self, labels: Labels) -> SeriesReading:
        with self.duration.lock:
            counts, total = list(self.duration.counts), self.duration.total
            refused, errors = dict(self._refused), dict(self._errors)
        answered = sum(counts) - sum(errors.values())
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

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.tracing: Tracing | None = None
        self.read_batches = Histogram(SIZES)
        self.write_batches = Histogram(SIZES)
        self.consistency: Counter[str] = Counter()
        self.takeovers: Counter[str] = Counter()
        self._series: dict[tuple[str, str], Series] = {}
        self._by_key: dict[Key, Series] = {}
        self._kinds: set[str] = set()
        self._commits: dict[Entity, int] = {}
        self._older: dict[Entity, int] = {}
        self._rotated = 0.0
        self._leases: dict[Entity, tuple[int, float]] = {}  # token and end of leases seen
        self._lock = threading.Lock()  # over the two counters that have no series
        self._logging_since = 0.0
        self._logged = self._not_logged = 0

    @property
    def series(self) -> list[Series]:
        return list(self._series.values())

    # --- called for every operation -------------------------------------------------

    def known(self, ops: Sequence[Op]) -> Sequence[int]:
        """How many commits these entities are known to have, before they are asked."""
        if len(ops) == 1:
            return (self._known(ops[0]),)
        return [self._known(op) for op in ops]

    def _known(self, op: Op) -> int:
        if type(op) is Fetch or type(op) is Commit:
            entity = op.entity
            return self._commits.get(entity) or self._older.get(entity, 0)
        return 0

    def answered(
        self,
        ops: Sequence[Op],
        outcomes: Sequence[Outcome],
        known: Sequence[int],
        seconds: float,
        now: float,
    ) -> None:
        """The engine answered all of these, after so many seconds."""
        if len(ops) == 1:
            self._note(ops[0], outcomes[0], known[0], seconds)
        else:
            for op, outcome, before in zip(ops, outcomes, known, strict=True):
                self._note(op, outcome, before, seconds)
        if len(self._commits) > REMEMBERED or now - self._rotated > GENERATION:
            self._rotate(now)

    def _note(self, op: Op, outcome: Outcome, before: int, seconds: float) -> None:
        series = self._of(op)
        if type(outcome) not in _ORDINARY:
            self._refused(op, series, outcome, seconds)
            return
        series.duration.add(seconds)
        if type(op) is Commit:
            if type(outcome) is Applied:
                self._commits[op.entity] = before + 1
                if outcome.lease is not None and type(op.writes[0]) is Acquire:
                    self._granted(op.entity, outcome)
                if WRITES_LOG.isEnabledFor(logging.DEBUG):
                    log_write(op, series.operation, outcome, seconds)
        elif type(op) is Fetch:
            if type(outcome) is Fetched:
                self._fetched(op.entity, outcome, before)
        elif type(outcome) is Listed and type(op) is List and op.due:
            for found in outcome.entities:
                self._see(found.entity, found.head)

    def _fetched(self, entity: Entity, fetched: Fetched, before: int) -> None:
        head = fetched.head
        if head.commits > before:
            self._commits[entity] = head.commits
        elif head.commits < before and head.exists:
            self._went_back(entity, head, before)
        if fetched.reset:
            self._count("reset")

    def failed(self, ops: Sequence[Op], error: BaseException, seconds: float, now: float) -> None:
        """The engine failed, or the caller did not wait for the answer."""
        name = type(error).__name__ if isinstance(error, StatewardError) else _foreign(error)
        unknown = isinstance(error, StoreUnavailable) and error.applied == "unknown"
        for op in ops:
            series = self._of(op)
            series.failed(name, seconds)
            if unknown and type(op) is Commit:
                self._count("unknown")
            unlogged = 0 if type(op) is Commit else self._unlogged(now)
            if unlogged is not None:
                log_failure(op, series.operation, error, name, seconds, unlogged)

    def _unlogged(self, now: float) -> int | None:
        """How many failed reads were not logged since the last one; None: nor is this one.

        In an outage every read of every user fails; the log must not become the next outage.
        """
        if now - self._logging_since >= 1.0:
            self._logging_since, self._logged = now, 0
        if self._logged >= LOGGED_A_SECOND:
            self._not_logged += 1
            return None
        self._logged += 1
        left_out, self._not_logged = self._not_logged, 0
        return left_out

    # --- what is rare ---------------------------------------------------------------

    def _of(self, op: Op) -> Series:
        key: Key
        if type(op) is Commit:
            writes = op.writes
            key = (op.entity[1], type(writes[0]), len(writes) > 1, not op.checks)
        elif type(op) is Fetch:
            key = (op.entity[1], op.log is None, not (op.documents or op.all_documents))
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
        name = OUTCOMES.get(type(outcome), "other")
        series.refused(name, seconds)
        if type(op) is not Commit:
            return
        if type(outcome) is Fenced:
            self._count("fenced")
        head = getattr(outcome, "head", None)
        if head is not None:
            self._see(op.entity, head)
        log_refusal(op, series.operation, name, outcome, seconds)

    def _see(self, entity: Entity, head: Head) -> None:
        """Remember somebody's lease, so that it is known whether the next one takes it over."""
        if head.lease is not None:
            if len(self._leases) >= REMEMBERED:
                self._leases.clear()
            self._leases[entity] = (head.lease.token, head.lease.until)

    def _granted(self, entity: Entity, applied: Applied) -> None:
        seen = self._leases.pop(entity, None)
        lease = applied.lease
        assert lease is not None
        if seen is not None and seen[0] != lease.token and lease.granted >= seen[1]:
            with self._lock:
                self.takeovers[entity.kind if entity.kind in self._kinds else "other"] += 1

    def _went_back(self, entity: Entity, head: Head, before: int) -> None:
        """The store shows less than it has shown: an old replica, a failover, a restore."""
        self._count("backwards")
        self._commits[entity] = head.commits  # said once; from here on it may only grow again
        log_going_back(entity, head, before)

    def _count(self, problem: str) -> None:
        with self._lock:
            self.consistency[problem] += 1

    def _rotate(self, now: float) -> None:
        self._rotated = now
        self._older, self._commits = self._commits, {}


def operation_of(op: Op) -> str:
    """What people call it."""
    if type(op) is Commit:
        first = type(op.writes[0])
        if len(op.writes) > 1:
            return "acquire" if first is Acquire else "commit"
        if first is Put and op.checks:
            return "update"
        return _WRITES[first]
    if type(op) is Fetch:
        if op.log is not None:
            return "load"
        return "get" if op.documents or op.all_documents else "head"
    return "list" if type(op) is List else "sweep"


def _foreign(error: BaseException) -> str:
    """Errors that are not ours have no bounded set of names."""
    return "Exception" if isinstance(error, Exception) else "Cancelled"
