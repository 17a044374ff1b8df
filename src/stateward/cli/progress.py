"""A bar on stderr that fills, where somebody watches, and an orderly end when asked to stop."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType, TracebackType
from typing import Self

EVERY = 0.1  # seconds between two looks
WIDTH = 30


class Bar:
    """Shows nothing unless stderr is a terminal; leaves no trace of itself.

    While it is there SIGTERM ends the command like Ctrl-C does: what was begun is cleared away.
    """

    def __init__(self) -> None:
        self.watched = sys.stderr.isatty()
        self._shown: float | None = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGTERM, self._before)
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
