"""Waiting for a moment in which nobody else uses the machine much."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

PROBES = 9
FACTOR = 1.7  # slower than this times the best seen: somebody else is at work


class Calm:
    """Measures what writing 4 KB to the disk takes, and waits while it takes long.

    A busy processor shows as well: who waits for a disk is woken late.
    """

    def __init__(self, folder: Path, patience: float) -> None:
        self._file = (folder / "calm").open("wb", buffering=0)
        self._left = patience  # seconds, for the whole run
        self.usual = self.probe()
        self._best = self.usual

    def probe(self) -> float:
        """Microseconds."""
        took = []
        for _ in range(PROBES):
            self._file.seek(0)
            self._file.write(b"x" * 4096)
            start = perf_counter()
            os.fsync(self._file.fileno())
            took.append(perf_counter() - start)
        return median(took) * 1e6

    def wait(self) -> None:
        """Return in a calm moment, or when the patience of the run is used up."""
        while self._left > 0:
            start = perf_counter()
            found = self.probe()
            self._best = min(self._best, found)
            if found <= self._best * FACTOR:
                return
            sleep(0.1)
            self._left -= perf_counter() - start

    def close(self) -> None:
        self._file.close()
