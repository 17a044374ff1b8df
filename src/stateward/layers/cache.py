"""A local cache that is never stale: every read still asks, but only for what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stateward.layers.cache_memory import Cache, CacheMemory
from stateward.ops import Op, Outcome
from stateward.world import World


class Layer(Protocol):
    """What stands below."""

    async def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]: ...


class Caching:
    """Reads through what this process remembers; see `cache_memory.py` for why that is safe."""

    def __init__(self, below: Layer, cache: Cache, world: World) -> None:
        self._below = below
        self._remembered = CacheMemory(cache)
        self._world = world

    async def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        """As below. What turns out to have changed in another way is asked for again, in full."""
        start = self._world.monotonic()
        plans = self._remembered.plan(ops, start)
        outcomes = await self._below.execute([plan.asked for plan in plans], deadline)
        results, again = self._remembered.settle(ops, plans, outcomes, start)
        while again:  # once for what was appended elsewhere, twice if that was not all
            full = [ops[at] for at in again]
            plans = self._remembered.plan(full, start)
            outcomes = await self._below.execute([plan.asked for plan in plans], deadline)
            answers, open_ = self._remembered.settle(full, plans, outcomes, start)
            for at, outcome in zip(again, answers, strict=True):
                results[at] = outcome
            again = [again[at] for at in open_]
        return results
