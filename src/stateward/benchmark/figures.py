"""Figures of a benchmark, as data. The table, the JSON and the page derive from this alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from msgspec import Struct

FORMAT = 1

OPERATIONS = {
    "append": "append a turn",
    "last": "last 20 messages",
    "context": "full context",
    "get": "user document: get",
    "update": "user document: update",
    "once": "run a task once",
}
BY_HISTORY = ("append", "last", "context")  # operations that a longer history could slow down


class FigureCell(Struct, frozen=True, order=True):
    """One measurement: its call, the number of concurrent callers, and the length of history."""

    operation: str
    conversations: int
    history: int

    def __str__(self) -> str:
        callers = f"{self.conversations:,} callers" if self.conversations > 1 else "one caller"
        about = f", {self.history:,} messages" if self.operation in BY_HISTORY else ""
        return f"{OPERATIONS[self.operation]}, {callers}{about}"


class Slot(Struct):
    """Measurements of one round of a cell."""

    took: list[float] = []  # seconds of each call that succeeded
    errors: dict[str, int] = {}
    elapsed: float = 0.0
    cpu: float = 0.0  # seconds of processor time of this process


class Figures(Struct, frozen=True):
    """A cell over all its rounds. Without a call that succeeded there are no times."""

    operation: str
    conversations: int
    history: int
    calls: int  # successful calls
    errors: dict[str, int]  # by name: calls that did not
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    per_second: float  # the median of the rounds
    cpu_us: float | None  # processor time of this process for each call


class BenchResult(Struct, frozen=True):
    """All results of a run."""

    format: int
    url: str  # without credentials
    engine: str
    version: str
    durability: str
    started: str  # ISO 8601, UTC
    seconds: float
    interrupted: bool
    left: str  # the namespace that could not be emptied; "" if nothing is left
    command: str
    environment: dict[str, Any]
    cells: tuple[Figures, ...]


def figures(cell: FigureCell, slots: Sequence[Slot]) -> Figures:
    took = sorted(seconds for slot in slots for seconds in slot.took)
    errors: dict[str, int] = {}
    for slot in slots:
        for name, count in slot.errors.items():
            errors[name] = errors.get(name, 0) + count
    cpu = sum(slot.cpu for slot in slots)
    return Figures(
        cell.operation,
        cell.conversations,
        cell.history,
        len(took),
        errors,
        _ms(took, 0.50),
        _ms(took, 0.95),
        _ms(took, 0.99),
        round(median(len(slot.took) / slot.elapsed for slot in slots), 1),
        round(cpu / len(took) * 1e6, 1) if took else None,
    )


def _ms(ordered: Sequence[float], share: float) -> float | None:
    """The time that this share of all calls did not exceed."""
    if not ordered:
        return None
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000, 4)
