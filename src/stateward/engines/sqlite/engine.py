"""SQLite for an event loop: small reads inline, writes on one thread with group commit.

A read of a page of entries takes tens of microseconds; handing it to a thread would cost
several times that. A write waits for the disk, so it goes to the writer thread: the round
trip belongs to that thread, and a caller that is cancelled only stops waiting for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import TypeGuard

from stateward.engine import Description, Reader, SyncEngine
from stateward.engines.sqlite.checkpoint import Checkpoints
from stateward.engines.sqlite.engine_sync import SqliteEngine as BlockingEngine
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.purge import purge
from stateward.engines.sqlite.reader import FileReader
from stateward.engines.sqlite.settings import parse_file
from stateward.engines.sqlite.snapshot import Snapshot
from stateward.engines.sqlite.watch import Watch
from stateward.engines.sqlite.writer import Writer
from stateward.engines.url import EngineURL
from stateward.ops import READS, Append, Commit, Entity, Fetched, Listed, Op, Outcome
from stateward.world import World

PAGE = BlockingEngine.capabilities.page
INLINE = 256 << 10  # characters of messages that are worth staging on the event loop

# What to do (operations, or the outcomes of what was staged), until when, and whom to tell.
Job = tuple[
    Sequence[Op] | None,
    list[Outcome] | None,
    float | None,
    asyncio.AbstractEventLoop,
    "asyncio.Future[list[Outcome]]",
]


class SqliteEngine:
    """The contract over one file."""

    capabilities = BlockingEngine.capabilities

    def __init__(self, file: File) -> None:
        self._file = file
        self._thread: _WriterThread | None = None
        self._reader: FileReader | None = None
        self._watch = Watch(file.world)

    async def open(self) -> None:
        await self._file.world.offload(self._file.open)
        self._reader = FileReader(self._file)
        self._thread = _WriterThread(self._file)
        self._thread.start()

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()  # the last to go, which copies the WAL into the file, is the writer
        if thread is not None:
            thread.stop()
            await self._file.world.offload(thread.join)

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        assert self._reader is not None, "open() comes first"
        if type(ops[0]) in READS if len(ops) == 1 else READS.issuperset(map(type, ops)):
            outcomes = self._reader.read(ops)
            if len(ops) == 1:
                (page,) = outcomes
                if (page.count if type(page) is Fetched else rows(page)) >= PAGE:
                    await asyncio.sleep(0)  # who reads page after page lets others run in between
            return outcomes
        if len(ops) == 1 or READS.isdisjoint(map(type, ops)):
            return await self._write(ops, deadline)
        written = iter(await self._write([op for op in ops if type(op) not in READS], deadline))
        read = iter(self._reader.read([op for op in ops if type(op) in READS]))
        return [next(read if type(op) in READS else written) for op in ops]

    async def _write(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        assert self._thread is not None, "open() comes first"
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._thread.hand_over(ops, deadline, loop, future)
        return await future

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        assert self._reader is not None, "open() comes first"
        await self._watch.wait(self._reader, cursors, timeout)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        """Pages are read on threads: a backup must not hold up the event loop."""
        snapshot = await self._file.world.offload(Snapshot, self._file)
        try:
            yield _OnThreads(snapshot, self._file.world)
        finally:
            await self._file.world.offload(snapshot.close)

    def sibling(self) -> SyncEngine:
        return BlockingEngine(self._file)

    async def namespaces(self) -> Sequence[str]:
        assert self._reader is not None, "open() comes first"
        return self._reader.namespaces()

    async def purge(self, namespace: str) -> int:
        return await self._file.world.offload(purge, self._file, namespace)

    async def migrate(self) -> Sequence[str]:
        return await self._file.world.offload(self._file.migrate)

    def exists(self) -> bool:
        return self._file.exists()

    async def pending_sql(self) -> str:
        return await self._file.world.offload(self._file.pending_sql)

    async def describe(self) -> Description:
        assert self._reader is not None, "open() comes first"
        return self._reader.describe()


class _OnThreads:
    """A snapshot for an event loop."""

    def __init__(self, snapshot: Snapshot, world: World) -> None:
        self._snapshot = snapshot
        self._offload = world.offload

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        return await self._offload(self._snapshot.execute, ops)


class _WriterThread(threading.Thread):
    """Takes batches one after the other; answers each with one wake-up of the loop."""

    def __init__(self, file: File) -> None:
        super().__init__(name="stateward-sqlite-writer", daemon=True)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._given = 0  # jobs; counted by the loop
        self._done = 0  # counted by the thread
        self._writer = Writer(file)
        self._checkpoints = Checkpoints(file)

    def hand_over(
        self,
        ops: Sequence[Op],
        deadline: float | None,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[list[Outcome]],
    ) -> None:
        """Called on the loop. A batch of appends is staged here while the thread has nothing to do.

        Each statement takes some microseconds, but on the thread it would wait for the loop to let
        go of the interpreter before and after. What the thread then does, the COMMIT, needs no
        interpreter: meanwhile the loop serves the callers of the batch before.
        """
        staged = None
        if self._given == self._done and len(ops) > 1 and are_small_appends(ops):
            try:
                staged = self._writer.stage_at_once(ops)
            except BaseException:
                self._writer.undo()  # also what a signal handler's exception left behind
                raise
        self._given += 1
        self._jobs.put((None if staged is not None else ops, staged, deadline, loop, future))

    def stop(self) -> None:
        """No further job; those that were handed over are done first."""
        self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            ops, staged, deadline, loop, future = job
            try:
                if staged is not None:
                    outcomes = self._writer.commit(staged, deadline)
                else:
                    outcomes = self._writer.write(ops, deadline)  # type: ignore[arg-type]
            except BaseException as error:
                _call(loop, _fail, future, error)
            else:
                _call(loop, _resolve, future, outcomes)
            self._checkpoints.consider(self._writer.wal_pages)
            if self._checkpoints.end_is_due():
                self._writer.end_checkpoint()
            self._done += 1
        self._checkpoints.close()
        self._writer.close()


def rows(listed: Outcome) -> int:
    return len(listed.entities) if isinstance(listed, Listed) else 0


def are_small_appends(ops: Sequence[Op]) -> TypeGuard[Sequence[Commit]]:
    """Whether these are plain appends, and not so much that the loop would be held up."""
    size = 0
    for op in ops:
        if type(op) is not Commit or len(op.writes) != 1:
            return False
        write = op.writes[0]
        if type(write) is not Append or not write.bodies:
            return False
        size += sum(map(len, write.bodies))
    return size <= INLINE


def _call(
    loop: asyncio.AbstractEventLoop,
    callback: object,
    future: asyncio.Future[list[Outcome]],
    result: object,
) -> None:
    try:
        loop.call_soon_threadsafe(callback, future, result)  # type: ignore[arg-type]
    except RuntimeError:
        return  # the loop was closed meanwhile: nobody is left to be told


def _resolve(future: asyncio.Future[list[Outcome]], outcomes: list[Outcome]) -> None:
    if not future.done():
        future.set_result(outcomes)


def _fail(future: asyncio.Future[list[Outcome]], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def create(url: EngineURL, world: World) -> SqliteEngine:
    """sqlite:///relative.db, sqlite:////absolute.db; durability=full|relaxed, migrate=on|off."""
    return SqliteEngine(parse_file(url, world))
