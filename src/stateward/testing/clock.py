"""A clock that a test moves: a month passes in no time at all."""

from __future__ import annotations

from stateward.world import World


class SteppableWorld(World):
    """A `World` whose time of day goes where it is told.

    With `start` (seconds since the epoch) it stands still there until `advance` is called;
    without, it runs like the real one. Deadlines and pauses are not moved: they stay real, so
    that code under test neither hangs nor times out because a test let a month pass.
    """

    def __init__(self, start: float | None = None) -> None:
        self._start = start
        self._offset = 0.0

    def now(self) -> float:
        base = super().now() if self._start is None else self._start
        return base + self._offset

    def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Move the clock forward, or backward if the sum is negative."""
        self._offset += seconds + 60.0 * (minutes + 60.0 * (hours + 24.0 * days))
