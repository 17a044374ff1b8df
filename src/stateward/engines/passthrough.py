"""An engine in front of another one: for what changes one thing about any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from stateward.engine import Capabilities, Description, Engine
from stateward.engine import SyncEngine as Blocking
from stateward.ops import Entity, Op, Outcome


class Passthrough:
    """An engine in front of an engine. It changes nothing; what is made of it changes one thing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.capabilities: Capabilities = replace(
            engine.capabilities, snapshots=False, purges=False, schemas=False
        )

    async def open(self) -> None:
        await self._engine.open()

    async def close(self) -> None:
        await self._engine.close()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await self._engine.execute(ops, deadline=deadline)

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await self._engine.wait(cursors, timeout)

    async def migrate(self) -> Sequence[str]:
        return await self._engine.migrate()

    async def describe(self) -> Description:
        return await self._engine.describe()

    def sibling(self) -> Blocking:
        return self._engine.sibling()
