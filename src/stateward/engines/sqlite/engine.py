"""SQLite: one file, whose writes are batches with one fsync each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from stateward.engine import Capabilities, Description, Reader, SyncEngine
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.loop_access import LoopAccess, rows
from stateward.engines.sqlite.purge import purge
from stateward.engines.sqlite.settings import parse_file
from stateward.engines.sqlite.snapshot import OnThreads, Snapshot
from stateward.engines.url import EngineURL
from stateward.ops import READS, Entity, Fetched, Op, Outcome
from stateward.world import World

# sync only: from stateward.engines.sqlite.thread_access import ThreadAccess

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    inline_reads=True,
    snapshots=True,
    purges=True,
    migrates=True,
    system="sqlite",
)
PAGE = CAPABILITIES.page  # async only


class SqliteEngine:
    """The contract over one file."""

    capabilities = CAPABILITIES

    def __init__(self, file: File) -> None:
        self._file = file
        self._access = LoopAccess(file)  # async only
        # sync only: self._access = ThreadAccess(file)

    async def open(self) -> None:
        await self._file.world.offload(self._file.open)
        self._access.open()

    async def close(self) -> None:
        await self._access.close()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        access = self._access
        if type(ops[0]) in READS if len(ops) == 1 else READS.issuperset(map(type, ops)):
            # async only: begin
            outcomes = access.read(ops)
            if len(ops) == 1:
                (page,) = outcomes
                if (page.count if type(page) is Fetched else rows(page)) >= PAGE:
                    await asyncio.sleep(0)  # lets other tasks run between pages
            return outcomes
            # async only: end
            # sync only: return access.read(ops)
        if len(ops) == 1 or READS.isdisjoint(map(type, ops)):
            return await access.write(ops, deadline)
        written = iter(await access.write([op for op in ops if type(op) not in READS], deadline))
        read = iter(access.read([op for op in ops if type(op) in READS]))
        return [next(read if type(op) in READS else written) for op in ops]

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await self._access.wait(cursors, timeout)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        snapshot = await self._file.world.offload(Snapshot, self._file)
        try:
            yield OnThreads(snapshot, self._file.world)  # async only
            # sync only: yield snapshot
        finally:
            await self._file.world.offload(snapshot.close)

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.sqlite.engine import SqliteEngine as Sibling

        return Sibling(self._file)

    async def namespaces(self) -> Sequence[str]:
        with self._access.reader() as reader:
            return reader.namespaces()

    async def purge(self, namespace: str) -> int:
        return await self._file.world.offload(purge, self._file, namespace)

    async def migrate(self) -> Sequence[str]:
        return await self._file.world.offload(self._file.migrate)

    def exists(self) -> bool:
        return self._file.exists()

    async def pending_sql(self) -> str:
        return await self._file.world.offload(self._file.pending_sql)

    async def describe(self) -> Description:
        with self._access.reader() as reader:
            return reader.describe()


def create(url: EngineURL, world: World) -> SqliteEngine:
    """sqlite:///relative.db, sqlite:////absolute.db; durability=full|relaxed, migrate=on|off."""
    return SqliteEngine(parse_file(url, world))
