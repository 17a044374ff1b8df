"""Permits of blocking callers, of which no exception from a signal handler loses one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic

LOOK_SECONDS = 0.01  # between two looks for one, in case a giver was kept from telling


class Permits:
    """Permits for a limited number of concurrent borrowers.

    Who borrows is known by an object of its own, and is within a `try` before it borrows. Its
    `finally` says `lent.discard(borrower)`: one call of C, before which nothing can be raised.
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self.lent: set[object] = set()
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self._freed: SimpleQueue[None] = SimpleQueue()

    def take(self, borrower: object, deadline: float | None = None) -> bool:
        """Wait for a permit; False: there was none by the `deadline`."""
        while True:
            with self._lock:
                if len(self.lent) < self._most:
                    self.lent.add(borrower)
                    return True
            if deadline is not None and self._clock() >= deadline:
                return False
            self._waiting += 1
            try:
                self._freed.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            finally:
                self._waiting -= 1

    def release(self) -> None:
        """Wake a waiting borrower after a permit was given back."""
        if self._waiting > 0:
            self._freed.put(None)
