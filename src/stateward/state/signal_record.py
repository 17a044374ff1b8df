"""Readings that processes take between heartbeats, how they are stored, and their sums. No I/O.

A process takes a reading every ten seconds. Readings of the last minutes are a document of the
heartbeat's entity, rewritten with each beat; every five minutes they become one entry of its log,
which holds a day of them. So a beat is still one commit, and a process that dies leaves all
readings it has sent.
"""

from __future__ import annotations

import math
import zlib
from base64 import b64decode, b64encode
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Self

import msgspec
from msgspec import Struct

from stateward.codec import check_span
from stateward.errors import InvalidInput
from stateward.kinds import SIGNALS
from stateward.observe import catalogue as metric
from stateward.observe.concerned import EVENTS
from stateward.observe.counters import Counters
from stateward.observe.metrics import DURATIONS, Metrics, quantile
from stateward.ops import Append, Entity, Fetched, Put, Trim, Write
from stateward.records import Concern, ReplicaCounts, SignalPoint, Signals, moment

RESOLUTION = 10.0  # seconds of a reading, at least
STRETCH = 300.0  # seconds after which readings become an entry of the log
DAY = 86_400.0
STRETCHES = int(DAY / STRETCH)  # entries of the log
NAMED = 20  # entities listed per event in a stretch
SHOWN = 5  # and in a point
MOST_POINTS = 360  # unless `step` asks for more
LARGEST = 1 << 18  # bytes that a stretch can have
COUNTED = (
    *("writes", "failures", "conflicts", "fenced", "went_back", "suppressed", "dropped"),
    *("lost", "late", "context_breaks", "cache_hits", "cache_misses"),
)

Named = tuple[str, str, str]


class Reading(Struct, omit_defaults=True):
    """Measurements of the seconds before `at`; `lookups` is bucket, count, bucket, count …"""

    at: float
    lookups: list[int] = []
    counts: dict[str, int] = {}  # as `SignalPoint` calls them
    kept: int = 0
    breaker_open: bool = False
    storage_bytes: int | None = None
    concerned: dict[str, list[Named]] = {}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Reading], strict=False).decode


# --- a process --------------------------------------------------------------------------


class Gauge(Struct, frozen=True):
    """The current state of a process."""

    at: float
    kept: int
    breaker_open: bool


class Meter:
    """Turns counters into readings: each has the difference to the one before."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._before: dict[str, int] = {}
        self._took: list[int] = []

    def read(
        self,
        metrics: Metrics,
        counts: ReplicaCounts,
        now: Gauge,
        concerned: dict[str, list[Entity]],
    ) -> Reading:
        so_far: dict[str, int] = {name: getattr(counts, name, 0) for name in COUNTED}
        so_far |= {
            "fenced": int(metrics.value(metric.CONSISTENCY.name, problem="fenced")),
            "went_back": int(metrics.value(metric.CONSISTENCY.name, problem="backwards")),
            "late": self._counters.late,
        }
        new = {name: count - self._before.get(name, 0) for name, count in so_far.items()}
        took = metrics.distribution(metric.LOOKUP_LATENCY.name).counts
        lookups = [
            now - then for now, then in zip(took, self._took or [0] * len(took), strict=True)
        ]
        self._before, self._took = so_far, took
        sizes = metrics.family(metric.STORAGE_BYTES.name).samples
        return Reading(
            at=now.at,
            lookups=_sparse(lookups),
            counts={name: count for name, count in new.items() if count > 0},
            kept=now.kept,
            breaker_open=now.breaker_open,
            storage_bytes=int(sum(sample.value for sample in sizes)) if sizes else None,
            concerned={event: list(map(_named, them)) for event, them in concerned.items()},
        )


class Readings:
    """Readings of a process that are not in the log of its heartbeats yet."""

    def __init__(self) -> None:
        self._lately: list[Reading] = []
        self._gathered: deque[str] = deque(maxlen=STRETCHES)  # not stored yet, as entries
        self._version = 0  # of the log

    def add(self, reading: Reading) -> bool:
        """Add a reading; returns whether it is the first of a stretch."""
        lately = self._lately
        if lately and reading.at - lately[-1].at < 0.9 * RESOLUTION:
            lately[-1] = _joined(lately[-1], reading)
            return False
        if lately and not 0 <= reading.at - lately[0].at < STRETCH:
            self._gathered.append(entry_of(lately))
            self._lately = lately = []
        lately.append(reading)
        _forget_older(lately)
        return len(lately) == 1

    def writes(self) -> tuple[Write, ...]:
        """Return the writes that a heartbeat adds to store the readings."""
        latest = Put(SIGNALS, _encode(self._lately).decode())
        if not self._gathered:
            return (latest,)
        over = self._version + len(self._gathered) - STRETCHES
        trim = (Trim(min(over, self._version)),) if self._version and over > 0 else ()
        return latest, Append(tuple(self._gathered)), *trim

    def stored(self, version: int) -> None:
        """Forget what the last `writes` returned: it is stored, and the log has this version."""
        self._gathered.clear()
        self._version = version


def entry_of(readings: Sequence[Reading]) -> str:
    """Return a stretch as an entry of the log."""
    packed = zlib.compress(_encode(readings))
    return f'"{b64encode(packed).decode()}"'


def _named(entity: Entity) -> Named:
    return entity.namespace, entity.kind, entity.id


def _sparse(counts: Sequence[int]) -> list[int]:
    return [part for at, count in enumerate(counts) if count > 0 for part in (at, count)]


def _joined(first: Reading, then: Reading) -> Reading:
    """Return two readings as one, at the time of the first."""
    lookups: Counter[int] = Counter()
    for each in (first, then):
        lookups.update(dict(zip(each.lookups[::2], each.lookups[1::2], strict=False)))
    counts = Counter(first.counts) + Counter(then.counts)
    concerned = {
        event: list(dict.fromkeys(first.concerned.get(event, []) + then.concerned.get(event, [])))
        for event in {*first.concerned, *then.concerned}
    }
    return Reading(
        at=first.at,
        lookups=[part for at in sorted(lookups) for part in (at, lookups[at])],
        counts=dict(counts),
        kept=max(first.kept, then.kept),
        breaker_open=first.breaker_open or then.breaker_open,
        storage_bytes=first.storage_bytes if then.storage_bytes is None else then.storage_bytes,
        concerned={event: them[-NAMED:] for event, them in concerned.items()},
    )


def _forget_older(readings: list[Reading]) -> None:
    """Drop all but the newest entities of each event."""
    for event in readings[-1].concerned:
        room = NAMED
        for reading in reversed(readings):
            them = reading.concerned.get(event)
            if them:
                reading.concerned[event] = them[-room:] if room > 0 else []
                room -= len(them)


# --- all of them ------------------------------------------------------------------------


def readings_in(fetched: Fetched) -> list[Reading]:
    """Return all readings of one process; skips those of another release that cannot be parsed."""
    # A beat whose answer was lost is sent again, so a stretch may be there twice.
    bodies = dict.fromkeys(fetched.lines.split("\n") if fetched.count else ())
    stretches = [_unpacked(body) for body in bodies]
    latest = fetched.documents.get(SIGNALS)
    if latest is not None:
        stretches.append(_read(latest.json.encode()))
    return [reading for stretch in stretches for reading in stretch]


def _unpacked(body: str) -> list[Reading]:
    try:
        packed = b64decode(msgspec.json.decode(body, type=str))
        return _read(zlib.decompressobj().decompress(packed, LARGEST))
    except (msgspec.MsgspecError, ValueError, zlib.error):
        return []


def _read(data: bytes) -> list[Reading]:
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


class SignalSpan(Struct, frozen=True):
    """How far to look back, and the length of a point, in seconds."""

    since: float
    step: float

    @classmethod
    def of(cls, since: float | timedelta, step: float | None) -> Self:
        """Check the arguments; the default step keeps the number of points below `MOST_POINTS`."""
        back = check_span(since.total_seconds() if isinstance(since, timedelta) else since, "since")
        if not 0 < back <= DAY:
            raise InvalidInput("since= is how long to look back: above 0 s, and at most a day")
        if step is None:
            step = RESOLUTION * max(1, math.ceil(back / RESOLUTION / MOST_POINTS))
        elif check_span(step, "step") < RESOLUTION:
            raise InvalidInput(f"step= is at least {RESOLUTION:g} s: that is how often is measured")
        return cls(back, step)


class _Sum:
    """The sums from which a point, or the total, is made."""

    def __init__(self) -> None:
        self.lookups = [0] * (len(DURATIONS) + 1)
        self.counts: Counter[str] = Counter()
        self.kept: dict[str, int] = {}  # by process: the most
        self.open: set[str] = set()
        self.storage: tuple[float, int | None] = (0.0, None)  # when, and how large
        self.concerned: dict[str, dict[Concern, float]] = {}

    def add(self, replica: str, reading: Reading, namespace: str) -> None:
        for at, count in zip(reading.lookups[::2], reading.lookups[1::2], strict=False):
            self.lookups[min(max(at, 0), len(DURATIONS))] += count
        for name, count in reading.counts.items():
            self.counts[name] += count
        if reading.kept >= self.kept.get(replica, 0):
            self.kept[replica] = reading.kept
        if reading.breaker_open:
            self.open.add(replica)
        if reading.storage_bytes is not None and reading.at >= self.storage[0]:
            self.storage = (reading.at, reading.storage_bytes)
        for event, them in reading.concerned.items():
            for its, kind, id in them:
                if its == namespace:
                    self._concern(event, Concern(kind, id), reading.at)

    def join(self, other: _Sum) -> None:
        """Add another sum to this one."""
        self.lookups = [a + b for a, b in zip(self.lookups, other.lookups, strict=True)]
        self.counts.update(other.counts)
        for replica, spilled in other.kept.items():
            self.kept[replica] = max(spilled, self.kept.get(replica, 0))
        self.open |= other.open
        self.storage = max(self.storage, other.storage, key=lambda latest: latest[0])
        for event, them in other.concerned.items():
            for concern, at in them.items():
                self._concern(event, concern, at)

    def _concern(self, event: str, concern: Concern, at: float) -> None:
        concerns = self.concerned.setdefault(event, {})
        concerns[concern] = max(at, concerns.get(concern, 0.0))

    def point(self, at: float, seconds: float) -> SignalPoint:
        counted: dict[str, Any] = {name: self.counts[name] for name in COUNTED}
        newest = {
            event: tuple(sorted(self.concerned[event], key=self.concerned[event].__getitem__))
            for event in EVENTS
            if self.concerned.get(event)
        }
        return SignalPoint(
            at=moment(at),
            seconds=seconds,
            replicas=len(self.kept),
            lookups=sum(self.lookups),
            lookup_p50=quantile(DURATIONS, self.lookups, 0.5),
            lookup_p95=quantile(DURATIONS, self.lookups, 0.95),
            lookup_p99=quantile(DURATIONS, self.lookups, 0.99),
            kept=sum(self.kept.values()),
            breakers_open=len(self.open),
            storage_bytes=self.storage[1],
            concerned={event: them[: -SHOWN - 1 : -1] for event, them in newest.items()},
            **counted,
        )


def merged(
    processes: Iterable[tuple[str, Fetched]], namespace: str, span: SignalSpan, until: float
) -> Signals:
    """Merge the readings of all processes; lists entities of events in this namespace alone."""
    since, step = until - span.since, span.step
    sums: dict[int, _Sum] = {}
    for replica, fetched in processes:
        for reading in readings_in(fetched):
            if since <= reading.at <= until:
                at = int(reading.at // step)
                if at not in sums:
                    sums[at] = _Sum()
                sums[at].add(replica, reading, namespace)
    total = _Sum()
    for each in sums.values():
        total.join(each)
    return Signals(
        since=moment(since),
        until=moment(until),
        step=step,
        points=tuple(sums[at].point(at * step, step) for at in sorted(sums)),
        total=total.point(since, until - since),
    )
