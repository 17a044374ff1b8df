"""Contestants take turns, round after round; a figure is the median of the rounds.

Absolute times on a shared machine move by a factor of two within a minute. What holds still is
the ratio of two contestants that ran within the same second: so ratios are taken round by
round, and their median and range are reported.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.conversations import LAST, Population, turn, visit
from bench.driving import Calls, Ready, Slot, Until

MOST_CALLS = 100_000  # a caller in a slot
HISTORY = 100  # of the conversations that concurrent callers use
WIDTH = 5  # conversations that one caller goes round in a slot: as many for every history
SHORT = 100  # histories below this would grow by what is measured: fewer appends a slot


@dataclass(frozen=True)
class Work:
    """One cell of the table: what is asked, by how many at once, on how long a history."""

    method: str  # of a contestant
    callers: int = 1
    history: int = HISTORY

    def __str__(self) -> str:
        people = "1 caller" if self.callers == 1 else f"{self.callers} conversations"
        about = "" if self.method in ("get", "update") else f", history {self.history:,}"
        return f"{TITLES[self.method]}, {people}{about}"

    def calls(self, population: Population, round_: int) -> Calls:
        """What each caller asks, over and over.

        Several callers have conversations of their own. One caller goes round a few, which are
        others in each round, so that appending does not make a short history long.
        """
        threads = population.threads(self.history)
        if self.callers == 1:
            places = [range(round_ * WIDTH, round_ * WIDTH + WIDTH)]
        else:
            places = [range(n, len(threads), self.callers) for n in range(self.callers)]
        return [
            [self._arguments(threads, population, place, round_) for place in mine]
            for mine in places
        ]

    def until(self, seconds: float) -> Until:
        """A hundred callers need longer to come to an even pace."""
        most = SHORT if self.method == "append" and self.history < SHORT else MOST_CALLS
        return Until(seconds * (3 if self.callers >= 100 else 1), most)

    def _arguments(
        self, threads: list[str], population: Population, place: int, number: int
    ) -> tuple[Any, ...]:
        place %= len(threads)
        thread, user = threads[place], population.user(place)
        if self.method in ("append", "turn"):
            return thread, user, turn(number)
        if self.method in ("last", "context"):
            return thread, user, LAST
        return (user,) if self.method == "get" else (user, visit)


TITLES = {
    "append": "append a turn",
    "last": "last 20",
    "turn": "last 20, then append",
    "get": "document get",
    "update": "document update",
    "context": "full context",
}


@dataclass
class Result:
    """One contestant in one cell."""

    name: str
    loop: str
    slots: list[Slot] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return median(self.by_round("p50"))

    @property
    def p99(self) -> float:
        """Of all rounds together: a round alone has too few calls."""
        return quantile([ns for slot in self.slots for ns in slot.took], 0.99) / 1000

    @property
    def per_second(self) -> float:
        return median(self.by_round("per_second"))

    @property
    def calls(self) -> int:
        return sum(len(slot.took) for slot in self.slots)

    def by_round(self, figure: str) -> list[float]:
        if figure == "per_second":
            return [slot.per_second for slot in self.slots]
        return [quantile(slot.took, 0.5) / 1000 for slot in self.slots]


@dataclass(frozen=True)
class Ratio:
    """The median of the rounds, and the smallest and largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> Ratio:
        each = [a / b for a, b in zip(above, below, strict=True)]
        return cls(median(each), min(each), max(each))


@dataclass(frozen=True)
class Cell:
    """One piece of work, and how each contestant did it."""

    work: Work
    results: list[Result]


def play(
    works: Mapping[Work, Sequence[Ready]], population: Population, *, rounds: int, seconds: float
) -> list[Cell]:
    """Each work by all who take part in it, in every round, each time for about `seconds`."""
    order = random.Random(0)
    cells = [Cell(work, [Result(r.name, r.loop) for r in ready]) for work, ready in works.items()]
    for number in range(-1, rounds):  # the first warms up: connections, statements, caches
        for cell in cells:
            work, ready = cell.work, works[cell.work]
            until, calls = work.until(seconds), work.calls(population, number)
            for place in order.sample(range(len(ready)), len(ready)):
                slot = ready[place].slot(work.method, calls, until)
                if number >= 0:
                    cell.results[place].slots.append(slot)
    return cells


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
