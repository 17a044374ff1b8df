"""Make a store fail on purpose, and know that it did.

    async def test_an_outage_is_said_and_not_taken_for_an_empty_history(stateward_store):
        with stateward_store.faults.unavailable() as outage:
            with pytest.raises(stateward.StoreUnavailable):
                await stateward_store.thread("s-1").load()
        assert outage.fired

Everything above the engine is the real code, so a fault is met by the real deadlines and
retries: one lost reply is usually survived without the caller noticing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.engine import Description, Engine
from stateward.engine import SyncEngine as Blocking
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, parse
from stateward.ops import Entity, Op, Outcome
from stateward.store import Store
from stateward.testing.fault_plan import Faults, reply_lost, unreachable
from stateward.world import World


class FaultyEngine(Passthrough):
    """Any engine, failing as `faults` says. Without a fault it keeps the contract.

    Its reads are not inline, whatever those of the engine behind it are: they may have to wait,
    and what waits needs a deadline.
    """

    def __init__(self, engine: Engine, world: World, faults: Faults | None = None) -> None:
        super().__init__(engine)
        self.capabilities = replace(self.capabilities, inline_reads=False)
        self.faults = faults or Faults()
        self._world = world

    async def open(self) -> None:
        self.faults.refuse()
        await super().open()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        hit = self.faults.meet(ops)
        outcomes: list[Outcome] = []
        if hit.fails != "before":
            outcomes = await super().execute(ops, deadline=deadline)
        # The wait comes last: a batch handed over is applied, though its caller may give up.
        if hit.delay:
            await self._world.pause(hit.delay)
        if hit.fails is not None:
            raise unreachable() if hit.fails == "before" else reply_lost()
        return outcomes

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        self.faults.refuse()
        await super().wait(cursors, timeout)

    async def migrate(self) -> Sequence[str]:
        self.faults.refuse()
        return await super().migrate()

    async def describe(self) -> Description:
        self.faults.refuse()
        return await super().describe()

    def sibling(self) -> Blocking:
        """It meets the same faults: an outage does not spare the renewal of leases."""
        from stateward.sync.testing.faults import FaultyEngine as Sibling

        return Sibling(super().sibling(), self._world, self.faults)


class FaultyStore(Store):
    """A store that fails when it is told to: see `faults`."""

    def __init__(self, engine: FaultyEngine, **options: Any) -> None:
        super().__init__(engine, **options)
        self.faults = engine.faults


def open_faulty(
    url: str = "memory://", *, world: World | None = None, **options: Any
) -> FaultyStore:
    """As `stateward.open`, with its options, but the store has `faults`."""
    world = world or World()
    engine = FaultyEngine(create_engine(parse(url), world), world)
    return FaultyStore(engine, world=world, **options)
