"""One engine with all the layers over it: what a store executes its operations through.

A store has one stack, or several (a layered store). Whatever belongs between state and an engine
is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stateward.engine import Capabilities, Description, Engine
from stateward.layers.cache import Caching
from stateward.layers.cache_memory import Cache
from stateward.layers.deadlines import Deadlines, Policy
from stateward.layers.instruments import Execute, Instruments
from stateward.layers.leases.renewal import Renewals
from stateward.layers.opener import Opener
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.replay import Replayer
from stateward.layers.outage.spill import Spill
from stateward.layers.outage.suppression import Suppression
from stateward.observe.alarm import Alarm
from stateward.observe.collector import Collector
from stateward.observe.counters import Counters
from stateward.observe.sizes import Sizes
from stateward.ops import Entity
from stateward.world import World


class Stack:
    """Instruments over suppression over deadlines over the cache over guard, coalescer and engine.

    `execute` goes down to the engine in one round trip, within the time a call may take;
    `execute_past_breaker` also past an open breaker, for what nobody will ask again, such as
    releases. Leases are renewed beside them.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        world: World,
        *,
        namespace: str = "default",
        place: str | None = None,
        spill: Spill | None = None,
        alarm: Alarm | None = None,
        counters: Counters | None = None,
        cache: Cache | None = None,
        measures: Collector | None = None,
    ) -> None:
        alarm, counters = alarm or Alarm(), counters or Counters()
        if spill is not None and (place is None or not engine.capabilities.durable):
            spill = replace(spill, path=None)  # nothing says where an earlier process left off
        self.engine = engine
        self.policy = policy
        self.renewals = Renewals(engine.sibling(), world)
        self.counters = counters
        self.backlog = Backlog(spill, place or "", namespace, world, counters)
        self._world = world
        self._storage = Sizes(engine.sibling(), world)
        meter = None if measures is None else measures.meter(self.capabilities.system or "other")
        self._guard = Opener(engine, world, self._opened, meter)
        below = self._guard if cache is None else Caching(self._guard, cache, world)
        self._deadlines = Deadlines(below, policy, world, counters, alarm.slow)
        replayer = Replayer(self._deadlines, self.backlog, engine.capabilities, world, counters)
        self._suppression = Suppression(
            self._deadlines, self.backlog, replayer, alarm, policy, world, counters
        )
        self.alarms = self._suppression.alarms
        self.suppress = self._suppression.suppress if policy.threads == "suppress" else None
        self.execute: Execute = self._suppression.execute
        self.execute_past_breaker: Execute = self._deadlines.execute_past_breaker
        self.context_break = (measures or Collector(world)).context_break
        if measures is not None and meter is not None:
            self.execute = Instruments(self.execute, meter, world).execute
            self.execute_past_breaker = Instruments(self.execute_past_breaker, meter, world).execute
            measures.sample(meter.engine, self._storage)
            measures.absorb_leases(meter.engine, self.renewals)
            measures.absorb(counters, counters.as_dict)
            measures.absorb(self, self._numbers)
            if cache is not None:
                counted = cache.counters
                measures.absorb(
                    counted,
                    lambda: {"cache_hits": counted.hits, "cache_misses": counted.misses},
                )

    def _numbers(self) -> dict[str, float]:
        """What the layers here have counted, for `Collector`."""
        return {
            "spill_depth": self.backlog.depth,
            "spill_age": self.backlog.age,
            "breaker_open": float(self.breaker != "closed"),
        }

    @property
    def breaker(self) -> str:
        """ "closed", or "open" while calls fail at once."""
        return self._deadlines.breaker

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do, as data."""
        return self.engine.capabilities

    async def _opened(self) -> None:
        await self._suppression.begin()

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Until a log may be past its cursor, at most `timeout` seconds."""
        await self._guard.ready()
        await self.engine.wait(cursors, timeout)

    async def ready(self) -> None:
        """Make sure the engine is open here; raises what keeps it from opening."""
        await self._guard.ready()

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._guard.is_open()

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        await self._guard.ready()
        said = await self.engine.describe()
        self._storage.note(said)
        return said

    async def close(self) -> None:
        """Finish what is under way, renew nothing any more, let go of everything."""
        self._guard.check_closing()
        await self._suppression.close()
        await self._world.offload(self.renewals.close)
        await self._guard.close()
