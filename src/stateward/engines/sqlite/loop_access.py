"""Access of an event loop to a file: reads on the loop itself, writes on a thread.

A read of a page that is cached takes less than handing it to a thread, so reads happen at once. A
write waits for the disk: its round trip belongs to the writer thread, and a caller that is
cancelled only stops waiting for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeGuard

from stateward.engines.sqlite.checkpoint import Checkpoints
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.reader import FileReader
from stateward.engines.sqlite.watch import Watch
from stateward.engines.sqlite.writer import Writer
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Commit, Entity, Listed, Op, Outcome
from stateward.world import start, went_wrong

INLINE = 256 << 10  # characters of messages that are worth staging on the event loop

# What to do (operations, or the outcomes of what was staged), until when, and whom to tell.
Job = tuple[
    Sequence[Op] | None,
    list[Outcome] | None,
    float | None,
    asyncio.AbstractEventLoop,
    "asyncio.Future[list[Outcome]]",
]


class LoopAccess:
    """The connections of one engine, between `open` and `close`."""

    read: Callable[[Sequence[Op]], list[Outcome]]

    def __init__(self, file: File) -> None:
        self._file = file
        self._thread: WriterThread | None = None
        self._reader: FileReader | None = None
        self._watch = Watch(file.world)

    def open(self) -> None:
        self._reader = FileReader(self._file)
        self.read = self._reader.read
        thread = WriterThread(self._file)
        try:
            start(thread)
        except StoreUnavailable:
            self._reader.close()
            self._reader = None
            raise
        self._thread = thread

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()  # the last to go, which copies the WAL into the file, is the writer
        if thread is not None:
            thread.stop()
            await self._file.world.offload(thread.join)

    async def write(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        assert self._thread is not None, "open() comes first"
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._thread.hand_over(ops, deadline, loop, future)
        return await future

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        with self.reader() as reader:
            await self._watch.wait(reader, cursors, timeout)

    @contextmanager
    def reader(self) -> Iterator[FileReader]:
        """Yield the one connection that reads."""
        assert self._reader is not None, "open() comes first"
        yield self._reader


class WriterThread(threading.Thread):
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
        """Hand over a job from the loop. Appends are staged here while the thread is idle.

        Each statement takes some microseconds, but on the thread it would wait for the loop to let
        go of the interpreter before and after. What the thread then does, the COMMIT, needs no
        interpreter: meanwhile the loop serves the callers of the batch before.
        """
        staged = None
        if self._given == self._done and len(ops) > 1 and are_small_appends(ops):
            try:
                staged = self._writer.stage_at_once(ops)
            except BaseException:
                self._writer.undo()  # also after an exception of a signal handler
                raise
        self._given += 1
        self._jobs.put((None if staged is not None else ops, staged, deadline, loop, future))

    def stop(self) -> None:
        """Accept no further job; those already queued are done first."""
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
            try:  # no error may end this thread: all later writes would wait for it
                self._checkpoints.consider(self._writer.wal_pages)
                if self._checkpoints.end_is_due():
                    self._writer.end_checkpoint()
            except Exception as error:
                went_wrong(self.name, error)
            self._done += 1
        self._checkpoints.close()
        self._writer.close()


def rows(listed: Outcome) -> int:
    return len(listed.entities) if isinstance(listed, Listed) else 0


def are_small_appends(ops: Sequence[Op]) -> TypeGuard[Sequence[Commit]]:
    """Return True for plain appends that are too small to block the loop noticeably."""
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
