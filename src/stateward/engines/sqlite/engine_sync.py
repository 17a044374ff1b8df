"""SQLite for blocking callers: reads on pooled connections, writes one thread at a time.

The caller's own thread does the work, so a lone caller pays for no hand-over; the coalescer above
makes one caller write for all that wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from stateward.engine import Capabilities, Description, SyncEngine, SyncReader
from stateward.engines.sqlite.checkpoint import Checkpoints
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.purge import purge
from stateward.engines.sqlite.reader import FileReader
from stateward.engines.sqlite.settings import parse_file
from stateward.engines.sqlite.snapshot import Snapshot
from stateward.engines.sqlite.writer import Writer
from stateward.engines.url import EngineURL
from stateward.ops import READS, Entity, Op, Outcome
from stateward.world import World

POLL = 0.01  # seconds between looks at the file's change counter while waiting


class SqliteEngine:
    """The contract over one file."""

    capabilities = Capabilities(
        durable=True,
        shared=True,
        inline_reads=True,
        snapshots=True,
        purges=True,
        migrates=True,
        system="sqlite",
    )

    def __init__(self, file: File) -> None:
        self._file = file
        self._writing = threading.Lock()
        self._writer = Writer(file)
        self._checkpoints = Checkpoints(file)
        self._idle: deque[FileReader] = deque()  # append and pop are atomic
        self._closed = False

    def open(self) -> None:
        self._file.open()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._close_idle()
        with self._writing:  # the last to go, which copies the WAL into the file, is the writer
            self._checkpoints.close()
            self._writer.close()

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if type(ops[0]) in READS if len(ops) == 1 else READS.issuperset(map(type, ops)):
            return self._read(ops)
        if len(ops) == 1 or READS.isdisjoint(map(type, ops)):
            return self._write(ops, deadline)
        written = iter(self._write([op for op in ops if type(op) not in READS], deadline))
        read = iter(self._read([op for op in ops if type(op) in READS]))
        return [next(read if type(op) in READS else written) for op in ops]

    def _write(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        with self._writing:
            written = self._writer.write(ops, deadline)  # type: ignore[arg-type]
            self._checkpoints.consider(self._writer.wal_pages)
            if self._checkpoints.end_is_due():
                self._writer.end_checkpoint()
        return written

    def _read(self, ops: Sequence[Op]) -> list[Outcome]:
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
        seen = None
        reader = self._borrow()
        try:
            while True:
                seen, moved = reader.look(cursors, seen)
                left = end - world.monotonic()
                if moved or left <= 0:
                    return
                world.block(min(POLL, left))
        finally:
            self._give_back(reader)

    @contextmanager
    def snapshot(self) -> Iterator[SyncReader]:
        snapshot = Snapshot(self._file)
        try:
            yield snapshot
        finally:
            snapshot.close()

    def sibling(self) -> SyncEngine:
        return SqliteEngine(self._file)

    def namespaces(self) -> Sequence[str]:
        reader = self._borrow()
        try:
            return reader.namespaces()
        finally:
            self._give_back(reader)

    def purge(self, namespace: str) -> int:
        return purge(self._file, namespace)

    def migrate(self) -> Sequence[str]:
        return self._file.migrate()

    def exists(self) -> bool:
        return self._file.exists()

    def pending_sql(self) -> str:
        return self._file.pending_sql()

    def describe(self) -> Description:
        reader = self._borrow()
        try:
            return reader.describe()
        finally:
            self._give_back(reader)


def create(url: EngineURL, world: World) -> SqliteEngine:
    """sqlite:///relative.db, sqlite:////absolute.db; durability=full|relaxed, migrate=on|off."""
    return SqliteEngine(parse_file(url, world))
