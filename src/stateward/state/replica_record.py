"""What a process writes of itself into the store, and what others read there. No I/O.

One entity for each process that has the store open, of the kind `heartbeat`. Its document is
written anew with each beat, it is due when three beats are missing, and it expires a day after
the last: so the store's own clock says who lives, and the dead vanish by themselves. What it has
measured over time is kept with it: see `signal_record`.
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
from stateward.ops import (
    Commit,
    Entity,
    Found,
    List,
    Listed,
    Op,
    Outcome,
    Put,
    SetHead,
    Write,
)
from stateward.records import ReplicaCounts, ReplicaInfo, moment

RETAIN = 86_400.0  # seconds that what a process has said is kept after its last beat
SHOWN = 3600.0  # seconds that it is shown among the others
MISSED = 3  # beats after which it is gone
LISTED = 1000  # at most, those that live first
CLOSED = "closed"


class Beat(Struct, frozen=True):
    """The document. Fields that another release adds are passed over, and those it lacks empty."""

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
    """It lives, and this is what it says."""
    head = SetHead(status="", due_in=MISSED * beat.every, retain=RETAIN)
    return Commit(entity, op, (Put(HEARTBEAT, _encode(beat).decode()), *measured, head))


def closing(entity: Entity, op: str, beat: Beat, measured: tuple[Write, ...] = ()) -> Commit:
    """The same for the last time."""
    head = SetHead(status=CLOSED, due=0, retain=RETAIN)
    return Commit(entity, op, (Put(HEARTBEAT, _encode(beat).decode()), *measured, head))


def listings(namespace: str) -> tuple[Op, ...]:
    """All processes, and those that have missed beats: what `replicas_in` reads."""
    every = List(namespace, HEARTBEAT, recent=True, documents=(HEARTBEAT,), limit=LISTED)
    return every, List(namespace, HEARTBEAT, due=True, reverse=True, limit=LISTED)


def replicas_in(outcomes: Sequence[Outcome], now: float) -> list[ReplicaInfo]:
    """Those that live first, then those heard of last; the dead for an hour.

    Only for that hour `now` is the reader's clock: who lives is told by the store's.
    """
    every, overdue = outcomes
    assert isinstance(every, Listed)
    assert isinstance(overdue, Listed)
    missed = {found.entity: found.head.updated for found in overdue.entities}
    each = [_info(found, missed.get(found.entity)) for found in every.entities]
    infos = [it for it in each if it.alive or it.beat_at.timestamp() > now - SHOWN]
    return sorted(infos, key=lambda it: (not it.alive, -it.beat_at.timestamp(), it.id))


def _info(found: Found, overdue_since: float | None) -> ReplicaInfo:
    head = found.head
    beat = _beat(found)
    gone = overdue_since == head.updated  # else it has beaten between the two looks
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
    except (KeyError, msgspec.MsgspecError):  # of a release that writes it otherwise
        return Beat()


class Pulse:
    """What a process says of its counters with each beat."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._before: dict[str, list[int]] = {}

    def counts(self, metrics: Metrics, kept: int, alarms: tuple[str, ...]) -> ReplicaCounts:
        """Since the start; the latencies are since the last time this was asked."""
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
