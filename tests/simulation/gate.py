"""The engine of one simulated process: the real contract, over one store that all of them share.

What is sent travels by itself: it arrives though its sender was cancelled, frozen or killed
meanwhile, perhaps late, perhaps after its own retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simulation.faults import (
    DEATH_AFTER,
    DEATH_BEFORE,
    LOST,
    PAUSE,
    REFUSED,
    RENEWAL_LOST,
    RENEWAL_REFUSED,
    TORN,
    Fate,
)
from simulation.loop import context_of
from stateward.engine import Capabilities, Description, SyncEngine
from stateward.errors import StoreUnavailable
from stateward.ops import WRITES, Commit, Entity, Op, Outcome

if TYPE_CHECKING:
    from simulation.simulation import Process, Simulation

DESCRIPTION = Description(
    engine="simulated", version="1", schema=1, durability="as long as the simulation runs"
)


def refused() -> StoreUnavailable:
    return StoreUnavailable("the simulated store refused", applied="no")


def lost() -> StoreUnavailable:
    return StoreUnavailable("the simulated reply got lost", applied="unknown")


class Gate:
    """The way of one process to the shared store."""

    def __init__(
        self, simulation: Simulation, process: Process, capabilities: Capabilities
    ) -> None:
        self.capabilities = capabilities
        self._simulation = simulation
        self._process = process
        self._elsewhere = context_of(None)  # what is under way belongs to no process
        self._under_way = 0

    async def open(self) -> None:
        if self._simulation.refuses(self._process):
            raise refused()

    async def close(self) -> None:
        """Finish what is under way."""
        while self._under_way and not self._simulation.over:
            await self._process.world.pause(0.1)

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        simulation = self._simulation
        if simulation.over:
            raise asyncio.CancelledError
        one_commit_an_entity(simulation, ops)
        inline = self.capabilities.inline_reads and not isinstance(ops[0], WRITES)
        fate = self._fate(ops, inline)
        if fate.kind in (DEATH_BEFORE, DEATH_AFTER):
            self._process.die()
        if fate.kind == PAUSE:
            self._process.freeze(simulation.faults.standstill())
        if inline and fate.kind not in (DEATH_BEFORE, DEATH_AFTER):
            if fate.kind in (REFUSED, LOST):
                raise refused()
            return simulation.serve(self._process, ops)
        answer: asyncio.Future[list[Outcome]] = simulation.loop.create_future()
        if fate.kind != DEATH_BEFORE:
            self._send(ops, fate, answer)
        return await answer

    def _fate(self, ops: Sequence[Op], inline: bool) -> Fate:
        fate = self._simulation.faults.fate(ops, inline=inline, sender=self._process.name)
        if fate.kind in (DEATH_BEFORE, DEATH_AFTER, PAUSE):
            return fate
        if self._simulation.refuses(self._process):
            return Fate(REFUSED, fate.there, fate.back)
        silence = 0.0 if inline else self._simulation.silence()
        return Fate(fate.kind, max(fate.there, silence), fate.back) if silence else fate

    def _send(self, ops: Sequence[Op], fate: Fate, answer: asyncio.Future[list[Outcome]]) -> None:
        self._under_way += 1
        self._simulation.loop.call_later(
            fate.there, self._arrive, ops, fate, answer, context=self._elsewhere
        )

    def _arrive(self, ops: Sequence[Op], fate: Fate, answer: asyncio.Future[list[Outcome]]) -> None:
        self._under_way -= 1
        if self._simulation.over:
            return
        if fate.kind == REFUSED:
            self._simulation.trace(self._process, "refused", ops)
            self._later(fate.back, answer, refused())
            return
        if fate.kind == TORN:
            ops = [op for op in ops if self._simulation.faults.half()]
        outcomes = self._simulation.serve(self._process, ops)
        failed = fate.kind in (TORN, LOST)
        self._later(fate.back, answer, lost() if failed else outcomes)

    def _later(
        self,
        seconds: float,
        answer: asyncio.Future[list[Outcome]],
        said: list[Outcome] | StoreUnavailable,
    ) -> None:
        loop = self._simulation.loop
        loop.call_later(seconds, _reply, answer, said, context=self._elsewhere)

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        simulation = self._simulation
        if simulation.over:
            raise asyncio.CancelledError
        if simulation.refuses(self._process) or simulation.faults.feed_breaks():
            raise refused()
        if simulation.passed(cursors):
            return
        changed: asyncio.Future[None] = simulation.loop.create_future()
        simulation.watch(cursors, changed)
        try:
            async with asyncio.timeout(timeout):
                await changed
        except TimeoutError:
            return

    def sibling(self) -> SyncEngine:
        return Sibling(self._simulation, self._process, self.capabilities)

    async def migrate(self) -> Sequence[str]:
        return ()

    async def describe(self) -> Description:
        return DESCRIPTION


class Sibling:
    """The engine through which the lease thread of a process renews."""

    def __init__(
        self, simulation: Simulation, process: Process, capabilities: Capabilities
    ) -> None:
        self.capabilities = capabilities
        self._simulation = simulation
        self._process = process

    def open(self) -> None:
        if self._simulation.refuses(self._process):
            raise refused()

    def close(self) -> None:
        """Nothing to let go of."""

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        simulation = self._simulation
        one_commit_an_entity(simulation, ops)
        kind = simulation.faults.renewal()
        if simulation.over or kind == RENEWAL_REFUSED or simulation.refuses(self._process):
            raise refused()
        if simulation.silence():
            raise lost()  # it would have waited in vain; nothing was stored
        outcomes = simulation.serve(self._process, ops)
        if kind == RENEWAL_LOST:
            raise lost()
        return outcomes

    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        raise AssertionError("leases are renewed without waiting for a change")

    def migrate(self) -> Sequence[str]:
        return ()

    def describe(self) -> Description:
        return DESCRIPTION

    def sibling(self) -> SyncEngine:
        return self


def one_commit_an_entity(simulation: Simulation, ops: Sequence[Op]) -> None:
    """The contract allows no batch that holds two commits of one entity."""
    entities = [op.entity for op in ops if isinstance(op, Commit)]
    if len(entities) != len(set(entities)):
        simulation.violated(f"a batch holds two commits of one entity: {ops!r}")


def _reply(answer: asyncio.Future[list[Outcome]], said: list[Outcome] | StoreUnavailable) -> None:
    if answer.done():
        return
    if isinstance(said, StoreUnavailable):
        answer.set_exception(said)
    else:
        answer.set_result(said)
