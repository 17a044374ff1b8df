"""How much each asker may ask: requests in a second, and streams at a time.

Counted in this process alone: of several services each allows as much.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, isfinite

from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.server.asker import Asker, Rate
from stateward.server.problems import Refusal
from stateward.world import World

MOST_BUCKETS = (
    10_000  # one that is forgotten is full again, as the one that is used least is anyway
)
STREAM_SECONDS = 5  # after which one may be free


class RateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of an asker whose key sets none. None: no limit."""

    rate: float | None = None  # requests in a second
    burst: int | None = None  # in one moment, after a pause; by default those of one second
    streams: int | None = None  # at a time, and waits for news

    def __post_init__(self) -> None:
        if self.rate is None and self.burst is not None:
            raise InvalidInput("burst needs a rate")
        if self.streams is not None and not 1 <= self.streams <= 1_000_000:
            raise InvalidInput(f"streams is a number from 1 to 1,000,000, not {self.streams}")
        rate_of(self.rate, self.burst)

    @property
    def usual(self) -> Rate | None:
        return rate_of(self.rate, self.burst)


def rate_of(per_second: float | None, burst: int | None) -> Rate | None:
    """A rate that makes sense; None: none is set."""
    if per_second is None:
        return None
    if not (isfinite(per_second) and 0.001 <= per_second <= 1_000_000):
        raise InvalidInput(f"a rate must be at least 0.001 requests per second, not {per_second:g}")
    if burst is not None and not 1 <= burst <= 1_000_000:
        raise InvalidInput(f"a burst is a number of requests from 1 to 1,000,000, not {burst}")
    return Rate(per_second, burst or max(1, ceil(per_second)))


class Rates:
    """A bucket for each asker, which requests empty and time fills."""

    def __init__(self, settings: RateSettings, world: World) -> None:
        self._usual = settings.usual
        self._streams = settings.streams
        self._world = world
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how full, and when
        self._open: Counter[str] = Counter()  # streams

    def take(self, asker: Asker) -> None:
        """One request of theirs. Raises a refusal that says when there is room for another."""
        rate = asker.rate or self._usual
        if rate is None:
            return
        who, now, buckets = asker.who, self._world.monotonic(), self._buckets
        full, at = buckets.get(who, (float(rate.burst), now))
        full = min(rate.burst, full + (now - at) * rate.per_second)
        if full < 1:
            wait = ceil((1 - full) / rate.per_second)
            raise _too_many(f"more than {rate.per_second:g} requests per second", wait)
        buckets[who] = full - 1, now
        buckets.move_to_end(who)
        if len(buckets) > MOST_BUCKETS:
            buckets.popitem(last=False)

    def spend(self, asker: Asker, more: int) -> None:
        """Count a batch as its operations. Those beyond the bucket are owed: later requests wait.

        A key of one user owes nothing: raises a refusal for more than it may ask now.
        """
        if more > 0 and asker.who in self._buckets:
            full, at = self._buckets[asker.who]
            if asker.user is not None and more > full:
                raise _too_many(f"{more + 1:,} operations are more requests than allowed now", 1)
            self._buckets[asker.who] = full - more, at

    @contextmanager
    def stream(self, asker: Asker) -> Iterator[None]:
        """While a stream of theirs is open. Raises a refusal if they have too many."""
        if self._streams is None:
            yield
            return
        who = asker.who
        if self._open[who] >= self._streams:
            raise _too_many(f"more than {self._streams} streams are open", STREAM_SECONDS)
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


def _too_many(what: str, wait: int) -> Refusal:
    seconds = max(1, wait)
    return Refusal(
        429,
        f"{what} with this key or token: try again in {seconds} s, or ask for a higher limit",
        **{"retry-after": str(seconds)},
    )
