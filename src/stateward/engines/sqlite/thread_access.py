"""Access of threads to a file: reads on pooled connections, writes one thread at a time.

The caller's own thread does the work, so a lone caller pays for no hand-over; the coalescer above
makes one caller write for all that wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from stateward.engines.sqlite.checkpoint import Checkpoints
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.reader import FileReader
from stateward.engines.sqlite.writer import Writer
from stateward.ops import Entity, Op, Outcome

POLL = 0.01  # seconds between looks at the file's change counter while waiting


class ThreadAccess:
    """The connections of one engine, between `open` and `close`."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._writer = Writer(file)
        self._checkpoints = Checkpoints(file)
        self._idle: deque[FileReader] = deque()  # append and pop are atomic
        self._closed = False

    def open(self) -> None:
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._close_idle()
        with self._writing:  # the last to go, which copies the WAL into the file, is the writer
            self._checkpoints.close()
            self._writer.close()

    def write(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        with self._writing:
            written = self._writer.write(ops, deadline)  # type: ignore[arg-type]
            self._checkpoints.consider(self._writer.wal_pages)
            if self._checkpoints.end_is_due():
                self._writer.end_checkpoint()
        return written

    def read(self, ops: Sequence[Op]) -> list[Outcome]:
        # The writer's own cache survives its commits; every other connection's is outdated by them.
        # An exception from a signal handler cannot come between `with` and what it guards.
        if not self._writing.locked():
            with self._writing:
                if self._writer.connection is not None:
                    return self._writer.read(ops)
        reader = self._borrow()
        try:
            return reader.read(ops)
        finally:
            self._give_back(reader)

    def _borrow(self) -> FileReader:
        try:
            return self._idle.pop()
        except IndexError:
            return FileReader(self._file)

    def _give_back(self, reader: FileReader) -> None:
        self._idle.append(reader)
        if self._closed:  # meanwhile: nobody else would close this one
            self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                reader = self._idle.pop()
            except IndexError:
                return
            reader.close()

    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        world = self._file.world
        end = world.monotonic() + timeout
        counter = None
        with self.reader() as reader:
            while True:
                counter, moved = reader.look(cursors, counter)
                left = end - world.monotonic()
                if moved or left <= 0:
                    return
                world.block(min(POLL, left))

    @contextmanager
    def reader(self) -> Iterator[FileReader]:
        """Lend a connection that reads to this thread."""
        reader = self._borrow()
        try:
            yield reader
        finally:
            self._give_back(reader)
