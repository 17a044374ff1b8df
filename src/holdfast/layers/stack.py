"""One engine with all the layers over it: what a store executes its operations through.

A store has one stack, or several (a layered store). Whatever belongs between state and an engine
is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.alarm import Alarm
from holdfast.counters import Counters
from holdfast.engine import Capabilities, Description, Engine
from holdfast.layers.backlog import Backlog
from holdfast.layers.guard import Guard
from holdfast.layers.instruments import Instruments
from holdfast.layers.policy import Deadlines, Policy
from holdfast.layers.renewal import Renewals
from holdfast.layers.replay import Replayer
from holdfast.layers.spill import Spill
from holdfast.layers.suppression import Suppression
from holdfast.measures import Measures
from holdfast.ops import Entity, Op, Outcome
from holdfast.storage import Storage
from holdfast.world import World


class Stack:
    """Suppression over instruments over deadlines over the guard over the coalescer over an engine.

    Leases are renewed beside them.
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
        measures: Measures | None = None,
    ) -> None:
        alarm, counters = alarm or Alarm(), counters or Counters()
        if spill is not None and (place is None or not engine.capabilities.durable):
            spill = replace(spill, path=None)  # nothing says where an earlier process left off
        self.engine = engine
        self.renewals = Renewals(engine.sibling(), world)
        self.counters = counters
        self.backlog = Backlog(spill, place or "", namespace, world, counters)
        self._world = world
        self._storage = Storage(engine.sibling(), world)
        meter = None if measures is None else measures.meter(self.capabilities.system or "other")
        self._guard = Guard(engine, self._opened, meter)
        self._deadlines = Deadlines(self._guard, policy, world, counters, alarm.slow)
        replayer = Replayer(self._deadlines, self.backlog, engine.capabilities, world, counters)
        below = self._deadlines if meter is None else Instruments(self._deadlines, meter, world)
        self._top = Suppression(below, self.backlog, replayer, alarm, policy, world, counters)
        self.alarms = self._top.alarms
        self.suppress = self._top.suppress if policy.threads == "suppress" else None
        self.context_break = (measures or Measures(world)).context_break
        if measures is not None and meter is not None:
            measures.sample(meter.engine, self._storage)
            measures.absorb_leases(meter.engine, self.renewals)
            measures.absorb(self._numbers)

    def _numbers(self) -> dict[str, float]:
        """What the layers here have counted, for `Measures`."""
        return {
            **self.counters.as_dict(),
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

    def execute(self, ops: Sequence[Op]) -> Coroutine[Any, Any, list[Outcome]]:
        """Down to the engine, in one round trip, within the time a call may take."""
        return self._top.execute(ops)

    def execute_though_open(self, ops: Sequence[Op]) -> Coroutine[Any, Any, list[Outcome]]:
        """Past an open breaker: for what nobody will ask again, such as releases."""
        return self._deadlines.execute_though_open(ops)

    async def _opened(self) -> None:
        await self._top.begin()

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
        await self._top.close()
        await self._world.offload(self.renewals.close)
        await self._guard.close()
