"""A store in this process: for tests, for simulation, and as the model of all others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from stateward.engine import Capabilities, Description, Reader, SyncEngine
from stateward.engines.memory.model import Model
from stateward.engines.memory.settings import model_of
from stateward.engines.url import EngineURL
from stateward.ops import Entity, Op, Outcome
from stateward.world import World

POLL = 0.02  # seconds between looks at the model while waiting for a change


class MemoryEngine:
    """The contract over a `Model`. Two engines over one model are two replicas."""

    capabilities = Capabilities(
        durable=False, shared=False, inline_reads=True, snapshots=True, purges=True, system="memory"
    )

    def __init__(self, model: Model, world: World) -> None:
        self._model = model
        self._world = world

    async def open(self) -> None:
        """Do nothing: the state is in this process."""

    async def close(self) -> None:
        """Do nothing: other engines that share the model keep its state."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return self._model.execute(ops, self._world.now())

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        # async only: begin
        end = self._world.monotonic() + timeout
        while not self._model.passed(dict(cursors), self._world.now()):
            left = end - self._world.monotonic()
            if left <= 0:
                return
            await self._world.pause(min(POLL, left))
        # async only: end
        # sync only: self._model.wait(dict(cursors), self._world.now(), timeout)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        yield MemoryEngine(self._model.copy(), self._world)

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.memory import MemoryEngine as Sibling

        return Sibling(self._model, self._world)

    async def namespaces(self) -> Sequence[str]:
        return self._model.namespaces()

    async def purge(self, namespace: str) -> int:
        return self._model.purge(namespace)

    async def migrate(self) -> Sequence[str]:
        return ()

    async def describe(self) -> Description:
        return Description(
            engine="memory",
            version="1",
            schema=1,
            durability="nothing survives the end of the process",
            bytes=self._model.size(),
            rows=self._model.rows(),
        )


def create(url: EngineURL, world: World) -> MemoryEngine:
    """Create the engine for memory:// or memory://name."""
    return MemoryEngine(model_of(url), world)
