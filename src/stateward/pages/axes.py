"""Conversion of figures into places in a drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

_TOO_LARGE = 1e18  # beyond it a figure is a mistake, and would bend the axis out of use
_NOTHING = 1e-9  # smaller values count as zero


def usable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < _TOO_LARGE


def known(value: float | None) -> float | None:
    """Return the value if it can be drawn, else None."""
    return value if value is not None and usable(value) else None


class Axis(NamedTuple):
    """Values from `low` to `high` on the way from `start` to `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        return self._decades(most) if self.log else self._steps(most)

    def _steps(self, most: int) -> list[float]:
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [count * step for count in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        every = max(1, math.ceil((last - first) / most))
        ticks = [10.0**power for power in range(first, last + 1, every)]
        if last - first <= 2:
            ticks += [many * 10.0**power for power in range(first, last) for many in (2, 5)]
        near = 1 + 1e-9
        return sorted(v for v in ticks if self.low / near <= v <= self.high * near)


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5, 10 … of the same order."""
    order = 10.0 ** math.floor(math.log10(rough))
    return next(many * order for many in (1, 2, 5, 10) if many * order >= rough * (1 - 1e-9))


def upright(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis of figures from zero on; logarithmic where they span more than fifty times."""
    positive = [value for value in values if usable(value) and value > _NOTHING]
    if not positive:
        return Axis(0.0, 1.0, start, end)
    low, high = min(positive), max(positive)
    if high / low <= 50:
        return Axis(0.0, high * 1.08, start, end)
    bottom = 10.0 ** math.floor(math.log10(low))
    return Axis(bottom, high * 1.25, start, end, log=True)


def doubling(values: Iterable[float], start: float, end: float) -> Axis:
    """Return a logarithmic axis that fits; a linear one if a value is not positive."""
    drawable = [value for value in values if usable(value)] or [1.0]
    low, high = min(drawable), max(drawable)
    if low <= _NOTHING:
        return flat(low, high, start, end)
    return Axis(low, high if high > low * 1.001 else low * 10, start, end, log=True)


def flat(low: float, high: float, start: float, end: float) -> Axis:
    """A linear axis; around a single value it is as wide as its ticks need."""
    least = max(1.0, abs(low) / 1000)
    return Axis(low, high if high - low > least * _NOTHING else low + least, start, end)
