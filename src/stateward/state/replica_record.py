"""Heartbeats: the record that each process keeps of itself in the store. No I/O.

Each process that has the store open has one entity of the kind `heartbeat`. Its document is
rewritten with each beat; the entity is due when three beats are missing, and expires a day after
the last one. So the store's own clock decides which processes are alive, and records of dead ones
vanish by themselves. `signal_record` adds measurements over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from stateward.kinds import HEARTBEAT
from stateward.observe import catalogue as metric
from stateward.observe.counters import Counters
from stateward.observe.metrics import DURATIONS, Metrics, add_up, quantile
from stateward.observe.recorder import READS
from stateward.ops import Commit, Entity, Found, List, Listed, Op, Outcome, Put, SetHead, Write
from stateward.records import ReplicaCounts, ReplicaInfo, moment

RETAIN = 86_400.0  # seconds from the last beat until the record expires
SHOWN = 3600.0  # seconds from the last beat until it is no longer listed
MISSED = 3  # missing beats after which a process counts as gone
LISTED = 1000  # at most
CLOSED = "closed"


class Beat(Struct, frozen=True):
    """The document. Fields added by another release are ignored; missing ones are empty."""

    host: str = ""
    pid: int = 0
    version: str = ""
    engine: str = ""
    replica: str | None = None
    every: float = 0.0
    started: float = 0.0
    counts: ReplicaCounts = ReplicaCounts()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Beat, strict=False).decode


def beating(entity: Entity, op: str, beat: Beat, measured: tuple[Write, ...] = ()) -> Commit:
    """Return the commit of a heartbeat."""
    head = SetHead(status="", due_in=MISSED * beat.every, retain=RETAIN)
    return Commit(entity, op, (Put(HEARTBEAT, _encode(beat).decode()), *measured, head))


def closing(entity: Entity, op: str, beat: Beat, measured: tuple[Write, ...] = ()) -> Commit:
    """Return the commit of the last heartbeat, when the store is closed."""
    head = SetHead(status=CLOSED, due=0, retain=RETAIN)
    return Commit(entity, op, (Put(HEARTBEAT, _encode(beat).decode()), *measured, head))


def listings(namespace: str) -> tuple[Op, ...]:
    """Return the listings that `replicas_in` reads: all processes, and those that missed beats."""
    every = List(namespace, HEARTBEAT, recent=True, documents=(HEARTBEAT,), limit=LISTED)
    return every, List(namespace, HEARTBEAT, due=True, reverse=True, limit=LISTED)


def replicas_in(outcomes: Sequence[Outcome], now: float) -> list[ReplicaInfo]:
    """Return living processes first, then the others, latest beat first; the dead for an hour.

    The reader's clock, `now`, counts for that hour alone: the store's decides who is alive.
    """
    every, overdue = outcomes
    assert isinstance(every, Listed)
    assert isinstance(overdue, Listed)
    missed = {entity.entity: entity.head.updated for entity in overdue.entities}
    infos = [_info(entity, missed.get(entity.entity)) for entity in every.entities]
    shown = [info for info in infos if info.alive or info.beat_at.timestamp() > now - SHOWN]
    return sorted(shown, key=lambda info: (not info.alive, -info.beat_at.timestamp(), info.id))


def _info(found: Found, overdue_since: float | None) -> ReplicaInfo:
    head = found.head
    beat = _beat(found)
    gone = overdue_since == head.updated  # else it has sent a beat between the two reads
    return ReplicaInfo(
        id=found.entity.id,
        status="closed" if head.status == CLOSED else "gone" if gone else "alive",
        host=beat.host,
        pid=beat.pid,
        version=beat.version,
        namespace=found.entity.namespace,
        engine=beat.engine,
        replica=beat.replica,
        every=beat.every,
        started_at=moment(beat.started),
        beat_at=moment(head.updated),
        counts=beat.counts,
    )


def _beat(found: Found) -> Beat:
    try:
        return _decode(found.documents[HEARTBEAT].json)
    except (KeyError, msgspec.MsgspecError):  # written by another release
        return Beat()


class Pulse:
    """Counters of a process as they are sent with each beat."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._before: dict[str, list[int]] = {}

    def counts(self, metrics: Metrics, kept: int, alarms: tuple[str, ...]) -> ReplicaCounts:
        """Return the counts since the start, and the latencies since the previous call."""
        counters = self._counters
        answered = metrics.family(metric.OPERATIONS.name).samples
        reads = [s.value for s in answered if s.labels["operation"] in READS]
        took = metrics.family(metric.DURATION.name).distributions
        writes = add_up([d for d in took if d.labels["operation"] not in READS], {})
        lookups = metrics.distribution(metric.LOOKUP_LATENCY.name)
        return ReplicaCounts(
            reads=int(sum(reads)),
            writes=int(sum(s.value for s in answered) - sum(reads)),
            failures=int(metrics.value(metric.ERRORS.name)),
            conflicts=int(metrics.value(metric.OPERATIONS.name, outcome="conflict")),
            suppressed=counters.suppressed,
            spilled=counters.spilled,
            dropped=counters.dropped,
            lost=counters.lost,
            kept=kept,
            context_breaks=sum(counters.context_breaks.copy().values()),
            cache_hits=counters.cache_hits,
            cache_misses=counters.cache_misses,
            alarms=alarms,
            **self._latencies("read", lookups.counts),
            **self._latencies("write", writes.counts),
        )

    def _latencies(self, of: str, counts: list[int]) -> dict[str, Any]:
        before = self._before.get(of, [0] * len(counts))
        self._before[of] = counts
        new = [now - then for now, then in zip(counts, before, strict=True)]
        return {f"{of}_p{n}": quantile(DURATIONS, new, n / 100) for n in (50, 99)}
