"""The breaker: while a store is down, calls fail at once instead of asking it again."""

from __future__ import annotations

import logging
import threading
from typing import Literal

from stateward.errors import StoreUnavailable
from stateward.observe.counters import Counters

logger = logging.getLogger("stateward.policy")

# A batch that failed fails for a hundred callers at once, and a connection that was cut is a matter
# of milliseconds: only a store that has not answered for this long is taken to be down.
SILENT_SECONDS = 0.5


class Breaker:
    """Opens after so many failures in a row; then lets one call through now and then.

    A store has one for reads and one for writes: a file that another process has locked, or a
    server that became read-only, answers reads all the same. `other` is that of the other
    direction: when the store answers there, it is worth asking here.

    No I/O, no waiting: callers report failures and successes, and ask for permission. A probe is
    not a slot that has to be given back but a moment that passes, so that a probe whose caller is
    cancelled blocks no other call.
    """

    other: Breaker | None = None

    def __init__(self, failures: int, seconds: float, counters: Counters, what: str = "") -> None:
        self._most = failures
        self._seconds = seconds
        self._counters = counters
        self._what = what
        self._lock = threading.Lock()
        self._since = 0.0  # when the first call of this row of failures was begun
        self._next_probe = 0.0
        self._probing_until = 0.0
        self.failures = 0  # in a row
        self.answered = float("-inf")  # when the store has last done so
        self.is_open = False

    @property
    def state(self) -> Literal["closed", "open"]:
        return "open" if self.is_open else "closed"

    def admit(self, now: float, timeout: float) -> StoreUnavailable | None:
        """The refusal; None: this call shall find out whether the store answers again."""
        with self._lock:
            if not self.is_open:
                return None
            if now >= self._next_probe:
                self._probing_until = now + timeout
                self._next_probe = now + timeout + self._seconds
                return None
            wait = self._next_probe - now
        self._counters.breaker_refused += 1
        return StoreUnavailable(
            f"the store failed {self.failures} times in a row and was not called: the breaker is "
            f"open, and the store is probed again within {wait:.1f} s",
            applied="no",
        )

    def failed(self, begun: float, now: float) -> None:
        """A call that was begun then has failed now."""
        with self._lock:
            self._since = min(self._since, begun) if self.failures else begun
            self.failures += 1
            if self.is_open:
                self._probing_until = now
                self._next_probe = min(self._next_probe, now + self._seconds)
                return
            silent = now - max(self._since, self.answered)
            if self.failures < self._most or silent < SILENT_SECONDS:
                return  # a store that answers others is too busy, but not down
            self.is_open = True
            self._next_probe = now + self._seconds
            self._counters.breaker_opened += 1
        logger.warning("breaker_opened", extra={"failures": self.failures, "of": self._what})

    def refused(self, now: float) -> None:
        """The request itself was refused, which says nothing of the store: another call may ask."""
        with self._lock:
            self._probing_until = min(self._probing_until, now)
            self._next_probe = min(self._next_probe, now)

    def hint(self, now: float) -> None:
        """The store has answered in the other direction: ask soon, but still one at a time."""
        with self._lock:
            self._next_probe = min(self._next_probe, max(now, self._probing_until))

    def succeeded(self, now: float) -> None:
        """The store has answered."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
            self.failures = 0
        if was_open:
            logger.warning("breaker_closed", extra={"of": self._what})
            if self.other is not None:
                self.other.hint(now)
