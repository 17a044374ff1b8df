"""What every walk-through needs: replicas over one store, a clock, and a count of round trips."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from stateward.engine import Engine
from stateward.ops import Entity, Fetch, Fetched, List, Listed, Log, Op, Outcome, Sweep, Swept
from stateward.testing.clock import SteppableWorld

T = TypeVar("T")

NOON = 1_750_000_000.0  # where the clock stands until a test moves it
DAY = 86_400.0


class Replica:
    """One process's way to the store. `trips` counts its round trips."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.trips = 0

    async def ask(self, *ops: Op) -> list[Outcome]:
        """One batch: one round trip."""
        self.trips += 1
        return await self.engine.execute(list(ops))

    async def one(self, op: Op) -> Outcome:
        """A batch of one."""
        return (await self.ask(op))[0]

    async def fetch(self, entity: Entity, log: Log | None = None, *documents: str) -> Fetched:
        return is_a(await self.one(Fetch(entity, log=log, documents=documents)), Fetched)

    async def listed(self, listing: List) -> Listed:
        return is_a(await self.one(listing), Listed)

    async def sweep(self) -> Swept:
        return is_a(await self.one(Sweep()), Swept)


class Walk:
    """Two replicas, `a` and `b`, over one store whose clock the test moves."""

    def __init__(self, a: Engine, b: Engine, world: SteppableWorld, texts: Texts) -> None:
        self.a = Replica(a)
        self.b = Replica(b)
        self.world = world
        self._texts = texts

    def advance(self, seconds: float) -> None:
        """Let time pass by the engine's clock; a negative number sets it back."""
        self.world.advance(seconds)

    def holds(self, text: str) -> bool:
        """Whether the text is physically there, reachable by a caller or not."""
        return any(text in stored for stored in self._texts())


Texts = Callable[[], list[str]]


def is_a(thing: object, kind: type[T]) -> T:
    """`thing`, which must be of that kind."""
    assert isinstance(thing, kind), f"expected {kind.__name__}, got {thing!r}"
    return thing


def text(value: Any) -> str:
    """A value as the JSON text that an engine stores."""
    return json.dumps(value, separators=(",", ":"))


def values(fetched: Fetched) -> list[Any]:
    """The values of the log entries that were fetched."""
    if fetched.entries:
        return [json.loads(entry.body) for entry in fetched.entries]
    return [json.loads(line) for line in fetched.lines.split("\n")] if fetched.count else []
