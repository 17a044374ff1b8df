"""One SQLite file: its connections, and its preparation as a store."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import apsw

from stateward.engines.sqlite.failures import explain
from stateward.engines.sqlite.schema import Schema, migrations, must_migrate
from stateward.errors import InvalidInput
from stateward.world import World

OPENING_SECONDS = 4.5  # most that opening waits for other processes
READ_BUSY_SECONDS = 0.05  # a read waits only while another process recovers the file after a crash
STATEMENTS = 200  # prepared statements kept a connection

Identity = tuple[int, int]  # of a file, whatever its name: inode and device


class Place:
    """File behind a connection. The check precedes each read and follows each write, so it is in C.

    SQLite looks up the file's name itself, but of a symbolic link the one that it leads to.
    """

    def __init__(self, path: str, connection: apsw.Connection, identity: Identity) -> None:
        self.identity = identity
        self._path = path
        self._is_link = os.path.realpath(path) != path
        self._ask = connection.file_control
        self._answer = array("i", (0,))
        self._address = self._answer.buffer_info()[0]

    def is_left(self) -> bool:
        """Return True if the file was removed, renamed or replaced."""
        if self._is_link:
            return os.stat(self._path)[1:3] != self.identity
        self._ask("main", apsw.SQLITE_FCNTL_HAS_MOVED, self._address)
        return self._answer[0] != 0


class File:
    """A path and how to use it. Cheap; opens nothing by itself."""

    def __init__(self, path: str, *, relaxed: bool, migrate: bool, world: World) -> None:
        self.path = path
        self.full = os.path.abspath(path)  # absolute, as the working folder may change
        self.relaxed = relaxed
        self.world = world
        self.explain = partial(explain, path)  # the driver's error as one of ours
        self._migrate = migrate
        self._opened: Identity | None = None

    def exists(self) -> bool:
        """Return whether the file exists; opening would make it."""
        return os.path.exists(self.full)

    def connect(self, busy: float = OPENING_SECONDS) -> apsw.Connection:
        """Open a connection with our settings and this busy timeout."""
        return self.connect_to(busy)[0]

    def connect_to(self, busy: float) -> tuple[apsw.Connection, Place]:
        """Open a connection, and tell which file it leads to. Only `open` makes a file."""
        while True:
            identity = self._identity()
            if identity != self._opened:  # a new file must be a store as well
                self._check()
            connection = self._connect(busy)
            # Opening may change it too: on a layered disk the file is copied for whoever writes.
            if self._identity() == identity:
                return connection, Place(self.full, connection, identity)
            connection.close(True)

    def _identity(self) -> Identity:
        try:
            return os.stat(self.full)[1:3]
        except OSError as error:
            raise self.explain(error, "no") from error

    def _connect(self, busy: float) -> apsw.Connection:
        try:
            connection = apsw.Connection(
                self.full, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS
            )
            connection.set_busy_timeout(int(busy * 1000))
            # Without this, SQLite plans a statement anew at each call whose values might change
            # the plan: 29 instead of 5 µs for a user's documents.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.execute(
                f"""PRAGMA synchronous = {"NORMAL" if self.relaxed else "FULL"};
                PRAGMA wal_autocheckpoint = 0;
                PRAGMA cache_size = -16000;
                PRAGMA temp_store = MEMORY;
                PRAGMA secure_delete = ON"""
            ).fetchall()
        except apsw.Error as error:
            raise self.explain(error, "no") from error
        return connection

    def disconnect(self, connection: apsw.Connection, *, looked: bool = False) -> None:
        """End a connection that has read. The last one copies the WAL into the file.

        A connection that only looked does not copy: the WAL is of others, and safe as it is.
        """
        if (looked or not self._migrate) and _has_bytes(self.full + "-wal"):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)

    def _make(self) -> None:
        """Create the file for its owner alone; SQLite gives files beside it the same mode."""
        folder = os.path.dirname(self.full)
        if not os.path.isdir(folder):
            raise InvalidInput(f"the folder {folder!r} does not exist; create it first")
        with suppress(OSError):  # the file exists, or SQLite will report why not
            os.close(os.open(self.full, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def open(self) -> None:
        """Make the file a current Stateward store, or say why it cannot be one."""
        if not self._migrate and not self.exists():
            raise must_migrate(self.path, migrations())
        self._make()
        self._check()

    def _check(self) -> None:
        with self._schema() as schema:
            identity = self._identity()
            schema.check_identity()
            pending = schema.pending()
            if pending and not self._migrate:
                raise must_migrate(self.path, pending)
            if pending:
                schema.apply_pending()
        self._opened = identity

    def migrate(self) -> list[str]:
        """Apply the migrations that are missing; returns their names."""
        self._make()
        with self._schema() as schema:
            schema.check_identity()
            return schema.apply_pending()

    def pending_sql(self) -> str:
        """The SQL that `migrate` would run, for people who run it themselves."""
        if not self.exists():
            return "\n".join(text for _, text in migrations())
        with self._schema(looks=True) as schema:
            schema.check_identity()
            return "\n".join(text for _, text in schema.pending())

    @contextmanager
    def _schema(self, *, looks: bool = False) -> Iterator[Schema]:
        connection = self._connect(OPENING_SECONDS)
        try:
            yield Schema(connection, self.path, self.world)
        except (apsw.Error, OSError) as error:
            raise self.explain(error, "no", connection.system_errno) from error
        finally:
            self.disconnect(connection, looked=looks)


def _has_bytes(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0
