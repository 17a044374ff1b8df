"""A local cache that is never stale: every read still asks, but only for what changed."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.layers.cache_memory import Cache, CacheMemory
from stateward.layers.layer import Layer
from stateward.observe.counters import Counters
from stateward.ops import Op, Outcome
from stateward.world import World


class Caching:
    """Reads through what this process remembers; see `cache_memory.py` for why that is safe."""

    def __init__(self, below: Layer, cache: Cache, world: World, counters: Counters) -> None:
        self._below = below
        self._memory = CacheMemory(cache, counters)
        self._world = world

    async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """As below. What turns out to have changed in another way is asked for again, in full."""
        start = self._world.monotonic()
        plans = self._memory.plan(ops, start)
        outcomes = await self._below.execute([plan.asked for plan in plans], deadline)
        results, again = self._memory.settle(ops, plans, outcomes, start)
        while again:  # once for what was appended elsewhere, twice if that was not all
            full = [ops[at] for at in again]
            plans = self._memory.plan(full, start)
            outcomes = await self._below.execute([plan.asked for plan in plans], deadline)
            answers, open_ = self._memory.settle(full, plans, outcomes, start)
            for at, outcome in zip(again, answers, strict=True):
                results[at] = outcome
            again = [again[at] for at in open_]
        return results
