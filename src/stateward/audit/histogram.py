"""Latencies as counts by logarithmic buckets: small, exact to 2 %, and they add up."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter

STEP = math.log(1.02)
SMALLEST = 1e-6  # seconds


class LogHistogram:
    """Counts of durations. Those of several processes add up to one."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        self.counts: Counter[int] = Counter()
        for bucket, count in (counts or {}).items():
            self.counts[int(bucket)] = count

    def add(self, seconds: float) -> None:
        self.counts[max(0, math.ceil(math.log(max(seconds, SMALLEST) / SMALLEST) / STEP))] += 1

    def merge(self, other: LogHistogram) -> None:
        self.counts.update(other.counts)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, q: float) -> float:
        """Return the quantile in seconds; 0 without values."""
        wanted, below = q * self.total, 0
        for bucket in sorted(self.counts):
            below += self.counts[bucket]
            if below >= wanted:
                return SMALLEST * math.exp(bucket * STEP)
        return 0.0

    def ms(self, q: float) -> float:
        return round(self.quantile(q) * 1000, 3)

    def plain(self) -> dict[str, int]:
        return {str(bucket): count for bucket, count in self.counts.items()}


class Heartbeat:
    """A thread that does nothing but wake up: how late it does is the machine's doing.

    A target that blocks is not: it waits without the interpreter, and this thread continues.
    """

    def __init__(self, every: float = 0.01) -> None:
        self.late = LogHistogram()
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.is_set():
            due = time.monotonic() + self._every
            time.sleep(self._every)
            self.late.add(time.monotonic() - due)
