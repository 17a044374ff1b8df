"""A bar on stderr that fills, where somebody watches."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

EVERY = 0.1  # seconds between two looks
WIDTH = 30


class Bar:
    """Shows nothing unless stderr is a terminal; leaves no trace of itself."""

    def __init__(self) -> None:
        self.watched = sys.stderr.isatty()
        self._shown: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not self.watched or (self._shown is not None and now - self._shown < EVERY):
            return
        self._shown = now
        part = min(1.0, done / total) if total else 1.0
        filled = round(part * WIDTH)
        bar = "█" * filled + "░" * (WIDTH - filled)
        print(f"\r{what:<10}{bar} {part:4.0%}", end="", file=sys.stderr, flush=True)
