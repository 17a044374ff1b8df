"""A blocking engine behind the async contract, so that one suite proves engines of both colours."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

from msgspec.structs import replace

from stateward.engine import Description, Reader, SyncEngine, SyncReader, SyncSnapshots
from stateward.ops import Entity, Op, Outcome


class AsyncOver:
    """An `Engine` over a `SyncEngine`. Every call runs in a thread, concurrent ones in several.

    So the threads that call an engine are seldom the one that opened it: what it keeps for a thread
    must not be what it keeps for a caller.
    """

    def __init__(self, engine: SyncEngine) -> None:
        self._engine = engine
        self.capabilities = replace(engine.capabilities, purges=False, schemas=False)

    async def open(self) -> None:
        await to_thread(self._engine.open)

    async def close(self) -> None:
        await to_thread(self._engine.close)

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await to_thread(self._engine.execute, ops, deadline=deadline)

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await to_thread(self._engine.wait, cursors, timeout)

    async def migrate(self) -> Sequence[str]:
        return await to_thread(self._engine.migrate)

    async def describe(self) -> Description:
        return await to_thread(self._engine.describe)

    def sibling(self) -> SyncEngine:
        return self._engine.sibling()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        """As of `Snapshots`, where the engine has it."""
        with cast(SyncSnapshots, self._engine).snapshot() as reader:
            yield AsyncReader(reader)


class AsyncReader:
    """A `Reader` over a `SyncReader`."""

    def __init__(self, reader: SyncReader) -> None:
        self._reader = reader

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        return await to_thread(self._reader.execute, ops)
