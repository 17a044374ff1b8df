"""Latencies over time, and against something that is counted, as data for charts."""

from __future__ import annotations

from msgspec import Struct


class Moment(Struct, frozen=True):
    """One second of a load: percentiles in ms from the intended start; rates in calls a second."""

    at: float
    p50: float
    p95: float
    p99: float
    intended: float
    achieved: float
    failed: int = 0

    @property
    def is_answered(self) -> bool:
        """True if there is any latency to show: False if all calls failed."""
        return self.achieved > 0 and self.p99 > 0


class Point(Struct, frozen=True):
    x: float
    p50: float
    p95: float
    p99: float


class Curve(Struct, frozen=True):
    """Latency by the number of concurrent conversations, or by the length of a history."""

    title: str
    x: str  # what the x axis counts
    points: tuple[Point, ...]
