"""One engine with all the layers over it: what a store executes its operations through.

A store has one stack, or several (a layered store). Whatever belongs between state and an engine
is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from holdfast.engine import Capabilities, Description, Engine
from holdfast.layers.guard import Guard
from holdfast.layers.instruments import Instruments
from holdfast.layers.policy import Deadlines, Policy
from holdfast.layers.renewal import Renewals
from holdfast.measures import Measures
from holdfast.meter import Meter
from holdfast.ops import Entity, Op, Outcome
from holdfast.storage import Storage
from holdfast.world import World


class Stack:
    """Instruments over deadlines over the guard over the coalescer over one engine.

    Leases are renewed beside them.
    """

    def __init__(
        self, engine: Engine, policy: Policy, world: World, measures: Measures | None = None
    ) -> None:
        self.engine = engine
        self.renewals = Renewals(engine.sibling(), world)
        self._world = world
        self._storage = Storage(engine.sibling(), world)
        meter = None if measures is None else self._measured(measures)
        self._guard = Guard(engine, meter)
        deadlines = Deadlines(self._guard, policy, world)
        self._top = deadlines if meter is None else Instruments(deadlines, meter, world)

    def _measured(self, measures: Measures) -> Meter:
        """What this engine does is counted there."""
        name = self.capabilities.system or "other"
        measures.sample(name, self._storage)
        measures.absorb_leases(name, self.renewals)
        return measures.meter(name)

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do, as data."""
        return self.engine.capabilities

    def execute(self, ops: Sequence[Op]) -> Coroutine[Any, Any, list[Outcome]]:
        """Down to the engine, in one round trip, within the time a call may take."""
        return self._top.execute(ops)

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
        await self._world.offload(self.renewals.close)
        await self._guard.close()
