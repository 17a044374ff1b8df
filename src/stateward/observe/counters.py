"""The counters of a store since it was made, as plain numbers: one book for all layers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Annotated, get_type_hints

from msgspec import Struct

from stateward.observe import catalogue as metric
from stateward.observe.metrics import Labels

THREADS_NAMED = 1000  # threads whose dropped turns are counted one by one
REASONS = 16  # reasons for a context break that are told apart

_lock = Lock()  # over the numbers that are kept by name: all of them rare


class Counters(Struct, eq=False):
    """Numbers of one store of one process, which begin again with it. Reading takes no lock.

    Each field is annotated with the metric that exports it, and with the labels it has there. So
    what is counted is exported: there is no room here for anything else. All of them only grow,
    but for what the cache holds.
    """

    lookups: Annotated[int, metric.LOOKUPS] = 0  # calls that only read
    slow_lookups: Annotated[int, metric.SLOW_LOOKUPS] = 0  # of those, longer than `Alarm.slow`
    retries: Annotated[int, metric.RETRIES, {"reason": "unavailable"}] = 0
    update_retries: Annotated[int, metric.RETRIES, {"reason": "conflict"}] = 0

    suppressed: Annotated[int, metric.SUPPRESSED] = 0  # failures that callers were spared
    spilled: Annotated[int, metric.SPILLED] = 0  # of those, kept locally
    dropped: Annotated[int, metric.DROPPED] = 0  # of those, lost: no room, or closed too soon
    # Whose they were; "" are those beyond the first thousand. How many is exported: never an id.
    dropped_by_thread: Annotated[dict[str, int], metric.DROPPED_THREADS] = {}
    replayed: Annotated[int, metric.REPLAYED] = 0  # spilled appends that reached the store
    late: Annotated[int, metric.LATE] = 0  # of those, stored after newer turns
    erased: Annotated[int, metric.ERASED] = 0  # left out: their thread or user was erased
    expired: Annotated[int, metric.LOST, {"reason": "expired"}] = 0  # grew too old
    refused: Annotated[int, metric.LOST, {"reason": "refused"}] = (
        0  # set aside: too large, a used key
    )
    damaged: Annotated[int, metric.LOST, {"reason": "damaged"}] = 0  # lines that cannot be read
    adopted: Annotated[int, metric.ADOPTED] = 0  # taken over from processes that have ended
    breaker_opened: Annotated[int, metric.BREAKER_OPENED] = 0
    breaker_refused: Annotated[int, metric.BREAKER_REFUSED] = 0  # failed immediately: it was open
    alarms_raised: Annotated[int, metric.ALARMS] = 0

    heartbeats_failed: Annotated[int, metric.HEARTBEATS_FAILED] = 0
    leases_lost: Annotated[dict[str, int], metric.LEASES_LOST] = {}  # by engine
    renewals_failed: Annotated[dict[str, int], metric.RENEWALS_FAILED] = {}  # by engine

    ticks_on_time: Annotated[int, metric.SCHEDULE_TICKS, {"result": "on_time"}] = 0
    ticks_late: Annotated[int, metric.SCHEDULE_TICKS, {"result": "late"}] = 0  # missed, then run
    ticks_skipped: Annotated[int, metric.SCHEDULE_TICKS, {"result": "skipped"}] = 0  # never run

    effects: Annotated[dict[str, int], metric.EFFECTS] = {}  # by outcome
    context_breaks: Annotated[dict[str, int], metric.CONTEXT_BREAKS] = {}  # by reason
    summaries_made: Annotated[int, metric.SUMMARIES, {"result": "made"}] = 0
    summaries_failed: Annotated[int, metric.SUMMARIES, {"result": "failed"}] = 0
    # Another replica was at it; or the conversation was edited or deleted in the meantime.
    summaries_elsewhere: Annotated[int, metric.SUMMARIES, {"result": "elsewhere"}] = 0
    summaries_discarded: Annotated[int, metric.SUMMARIES, {"result": "discarded"}] = 0

    cache_hits: Annotated[int, metric.CACHE, {"result": "hit"}] = 0  # by memory, and what was new
    cache_misses: Annotated[int, metric.CACHE, {"result": "miss"}] = 0  # read in full
    cache_vain: Annotated[int, metric.CACHE_VAIN] = 0  # another round trip had to follow
    cache_evictions: Annotated[int, metric.CACHE_EVICTIONS] = 0
    cache_entities: Annotated[int, metric.CACHE_ENTITIES] = 0
    cache_bytes: Annotated[int, metric.CACHE_BYTES] = 0

    @property
    def cache_hit_rate(self) -> float:
        """Hits of all cacheable reads; 0 before the first."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else 0.0

    @property
    def lost(self) -> int:
        """Appends that were accepted for later, but will never be stored."""
        return self.expired + self.refused + self.damaged


def count_dropped(counters: Counters, thread: str) -> None:
    """Count the loss of one append of this thread."""
    with _lock:
        counters.dropped += 1
        _add(counters.dropped_by_thread, thread, THREADS_NAMED, "")


def count_context_break(counters: Counters, reason: str) -> None:
    """Count a conversation that shows a loss of context."""
    with _lock:
        _add(counters.context_breaks, reason, REASONS, "other")


def count_effect(counters: Counters, outcome: str) -> None:
    """Count a call of a tool that acts: carried out, answered by the record, or left unknown."""
    with _lock:
        _add(counters.effects, outcome, REASONS, "other")


def _add(numbers: dict[str, int], name: str, most: int, further: str) -> None:
    """Count by name, as long as the names are few."""
    name = name if name in numbers or len(numbers) < most else further
    numbers[name] = numbers.get(name, 0) + 1


def _entry(of: metric.Metric, labels: Labels | None = None) -> tuple[metric.Metric, Labels]:
    return of, labels or {}


@cache
def entries() -> dict[str, tuple[metric.Metric, Labels]]:
    """Return the metric of every field, with the labels it always has."""
    hints = get_type_hints(Counters, include_extras=True)
    return {name: _entry(*hint.__metadata__) for name, hint in hints.items()}


def numbers(counters: Counters) -> Iterator[tuple[metric.Metric, Labels, int]]:
    """Everything in the book, as it is exported."""
    for name, (of, labels) in entries().items():
        counter = getattr(counters, name)
        if isinstance(counter, int):
            yield of, labels, counter
        elif of.labels:
            for value, count in sorted(counter.copy().items()):
                yield of, {of.labels[0]: value}, count
        else:
            yield of, labels, len(counter)
