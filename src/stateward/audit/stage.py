"""What a workload is given: replicas, sizes, a seed, and names of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from stateward.audit.replicas.fleet import Fleet

SYLLABLES = [first + second for first in "bdfghklmnprstvw" for second in "aeiou"]


class Sizes(Struct, frozen=True):
    """How much an audit does. Every figure can be set in the config file."""

    replicas: int = 3
    conversations: tuple[int, ...] = (1, 10, 100)
    rate: float = 60.0  # calls a second, all replicas together
    duration: float = 5.0  # seconds at each number of conversations
    repeats: int = 2  # of a load during which this machine was too busy to measure
    threads: int = 20  # conversations of the plain checks
    turns: int = 5  # in each
    race_turns: int = 60  # a replica appends to one conversation
    tasks: int = 30
    lock_rounds: int = 2
    updates: int = 40  # a replica makes to one document
    conflicts: int = 20
    looks: int = 20  # writes that every other replica looks for
    steps: int = 300  # a replica's appends and reads for the checker
    workflows: int = 4
    history: tuple[int, ...] = (10, 100, 1000)
    outage: float = 2.0  # seconds that a disturbance lasts
    recovery: float = 35.0  # seconds that a store is given to answer again
    growth_turns: int = 300


class Stage:
    """One audit under way."""

    def __init__(self, fleet: Fleet, sizes: Sizes, seed: int, provides: list[str]) -> None:
        self.fleet = fleet
        self.sizes = sizes
        self.seed = seed
        self.provides = provides
        self.chance = random.Random(seed)
        self.say: Callable[[str], None] = lambda _: None

    def names(self, what: str, count: int) -> list[str]:
        """Ids that no other workload uses."""
        return [f"{what}-{self.seed}-{number}" for number in range(count)]


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def varied_turn(name: str) -> list[dict[str, Any]]:
    """The same in words that differ: storage that compresses must not look better than it is."""
    chance = random.Random(name)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(70)]
    return [
        message("user", name, part=0, text=" ".join(words[:17])),
        message("assistant", name, part=1, text=" ".join(words[17:])),
    ]


def turn(name: str) -> list[dict[str, Any]]:
    """A question and its answer, of the size they usually have."""
    return [
        message("user", name, part=0, text="Where is my order? " * 5),
        message("assistant", name, part=1, text="It was handed to the carrier today. " * 8),
    ]
