"""One SQLite file: connections, transactions, migrations, and errors in plain words."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import apsw

from stateward.engine import Description
from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.schema import Schema, damaged, migrations, must_migrate
from stateward.errors import (
    DiskProblem,
    InvalidInput,
    StatewardError,
    StoreUnavailable,
)
from stateward.ops import Commit as CommitOp
from stateward.ops import Op, Outcome, Sweep, Swept, check_shape
from stateward.world import World

OPENING_SECONDS = 4.5  # how long opening waits for other processes
BUSY_SECONDS = 0.3  # how long one try of a write does: the call's deadline says how many tries
READ_BUSY_SECONDS = 0.05  # a read waits only while another process recovers the file after a crash
RETRY = 0.0014  # seconds, jittered: the steps of busy_timeout are unfair
CHECKPOINT_AT_ONCE = 8_000  # WAL pages at which the writer itself makes room
EMPTY_WAL_SECONDS = 1.0  # how long emptying it after a sweep waits for readers
PURGED_TOGETHER = 100  # entities in one transaction
STATEMENTS = 200  # prepared statements kept a connection

# Counting would read a whole table; the span of its row ids is two steps down a tree.
_ROWS = "SELECT coalesce((SELECT max(id) FROM {0}) - (SELECT min(id) FROM {0}) + 1, 0)"
_TABLES = ("entities", "log", "documents")
_OF_NAMESPACE = "SELECT id FROM entities WHERE namespace = ? LIMIT ?"
_OF_ENTITY = (("log", "entity"), ("documents", "entity"), ("ops", "entity"), ("entities", "id"))

MaybeApplied = Literal["no", "unknown"]

logger = logging.getLogger("stateward.sqlite")


class File:
    """A path and how to use it. Cheap; opens nothing by itself."""

    def __init__(self, path: str, *, relaxed: bool, migrate: bool, world: World) -> None:
        self.path = path
        self.relaxed = relaxed
        self.world = world
        self._migrate = migrate

    # --- connections ----------------------------------------------------------------

    def connect(self, busy: float = OPENING_SECONDS) -> apsw.Connection:
        """A connection set up as every connection of ours is, that waits so long for others."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise InvalidInput(f"the folder {folder!r} does not exist; create it first")
        try:
            connection = apsw.Connection(self.path, statementcachesize=STATEMENTS)
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

    def open(self) -> None:
        """Make the file a current Stateward store, or say why it cannot be one."""
        if not self._migrate and not os.path.exists(self.path):
            raise must_migrate(self.path, migrations())  # connecting would create the file
        with self._schema() as schema:
            schema.check_identity()
            pending = schema.pending()
            if pending and not self._migrate:
                raise must_migrate(self.path, pending)
            if pending:
                schema.apply_pending()

    def migrate(self) -> list[str]:
        """Apply the migrations that are missing; returns their names."""
        with self._schema() as schema:
            schema.check_identity()
            return schema.apply_pending()

    def purge(self, namespace: str) -> int:
        """Remove all rows of a namespace, in steps that hold up no writer; how many entities."""
        connection, count = self.connect(OPENING_SECONDS), 0
        try:
            while True:
                connection.execute("BEGIN IMMEDIATE")
                ids = connection.execute(_OF_NAMESPACE, (namespace, PURGED_TOGETHER)).fetchall()
                for table, column in _OF_ENTITY:
                    connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", ids)
                connection.execute("COMMIT")
                count += len(ids)
                if len(ids) < PURGED_TOGETHER:
                    checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return count
        except apsw.Error as error:
            raise self.explain(error, "unknown", connection.system_errno) from error
        finally:
            connection.close(True)

    def pending_sql(self) -> str:
        """The SQL that `migrate` would run, for people who run it themselves."""
        if not os.path.exists(self.path):
            return "\n".join(text for _, text in migrations())
        with self._schema() as schema:
            schema.check_identity()
            return "\n".join(text for _, text in schema.pending())

    @contextmanager
    def _schema(self) -> Iterator[Schema]:
        connection = self.connect()
        try:
            yield Schema(connection, self.path, self.world)
        except apsw.Error as error:
            raise self.explain(error, "no", connection.system_errno) from error
        finally:
            connection.close()

    def describe(self, connection: apsw.Connection) -> Description:
        """Read from the file itself."""
        try:
            synchronous = connection.pragma("synchronous")
            settings = {
                "journal_mode": connection.pragma("journal_mode"),
                "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[synchronous],
                "page_size": connection.pragma("page_size"),
                "wal_bytes": _size(self.path + "-wal"),
            }
            schema = connection.pragma("user_version")
            rows = sum(connection.execute(_ROWS.format(table)).get for table in _TABLES)
        except apsw.Error as error:
            raise self.explain(error, "no") from error
        size = _size(self.path) + _size(self.path + "-wal")
        return Description(
            engine="sqlite",
            version=apsw.sqlite_lib_version(),
            schema=schema,
            durability=(
                "an acknowledged write survives the process and a power failure"
                if synchronous >= 2
                else "an acknowledged write survives the process; a power failure may lose the last"
            ),
            bytes=size,
            settings=settings,
            rows=rows,
            capacity=size + shutil.disk_usage(os.path.dirname(self.path) or ".").free,
        )

    # --- errors ---------------------------------------------------------------------

    def explain(
        self, error: apsw.Error | UnicodeDecodeError, applied: MaybeApplied, number: int = 0
    ) -> StatewardError:
        """The driver's error as one of ours. `number` is the operating system's errno."""
        full = number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        fate = "this write was not stored" if applied == "no" else "this write may be stored or not"
        if isinstance(error, apsw.FullError) or full:
            return DiskProblem(
                f"no room left for {self.path}: free space on its disk. Reads go on; {fate}",
                applied=applied,
            )
        if isinstance(error, apsw.ReadOnlyError) or number == errno.EROFS:
            return DiskProblem(
                f"{self.path} cannot be written: its disk or folder is read-only, or the "
                f"permissions forbid it. Reads go on; {fate}",
                applied=applied,
            )
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return StoreUnavailable(
                f"{self.path} is locked by another process; look for a long transaction in it",
                applied=applied,
            )
        if isinstance(error, apsw.NotADBError | apsw.CorruptError | UnicodeDecodeError):
            return damaged(self.path, error)
        if isinstance(error, apsw.CantOpenError):
            return StoreUnavailable(
                f"{self.path} cannot be opened ({error}); check that the folder exists and that "
                "this user may write there",
                applied=applied,
            )
        return StoreUnavailable(f"{self.path}: {error}", applied=applied)


class Writer:
    """The one connection of a store that writes. Used by one thread at a time."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._connection: apsw.Connection | None = None
        self.wal_pages = 0

    def write(self, ops: Sequence[CommitOp | Sweep]) -> list[Outcome]:
        """All of a batch in one transaction: one fsync. A failure undoes the whole batch."""
        for op in ops:
            if type(op) is CommitOp:
                check_shape(op)
        connection = self._connection or self._connect()
        self._begin(connection)
        return self.commit(self._stage(connection, ops))

    def stage_at_once(self, ops: Sequence[CommitOp]) -> list[Outcome] | None:
        """The outcomes that the batch will have once `commit` was called, without waiting.

        None: it has to be written the other way, and nothing was begun.
        """
        connection = self._connection
        if connection is None:
            return None
        for op in ops:
            check_shape(op)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.Error:
            return None  # another process writes, or what is wrong will show again
        return self._stage(connection, ops)

    def _stage(self, connection: apsw.Connection, ops: Sequence[CommitOp | Sweep]) -> list[Outcome]:
        """Everything but the COMMIT. A failure rolls back."""
        now = self._file.world.now()
        try:
            return [self._session.write(op, now) for op in ops]
        except BaseException as error:
            number = connection.system_errno
            # After SQLITE_FULL the transaction may already be gone.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, apsw.Error | UnicodeDecodeError):
                raise self._file.explain(error, "no", number) from error
            if isinstance(error, Exception):
                what = f"{type(error).__name__}: {error}"
                raise StoreUnavailable(f"{self._file.path}: {what}", applied="no") from error
            raise

    def commit(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Make what was staged durable; gives the outcomes back when it is."""
        connection = self._connection
        assert connection is not None, "staged before"
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            number = connection.system_errno
            self.close()  # what became of it is unknown: start anew from the file
            raise self._file.explain(error, "unknown", number) from error
        if any(type(outcome) is Swept and not outcome.more for outcome in outcomes):
            self._empty_wal(connection)
        elif self.wal_pages > CHECKPOINT_AT_ONCE:
            checkpoint(connection)
        return outcomes

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def read(self, ops: Sequence[Op]) -> list[Outcome]:
        """On the writing connection, between two writes."""
        try:
            return self._session.read_all(ops, self._file.world.now())
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no") from error

    def end_checkpoint(self) -> None:
        """Copy what was written while others copied; the next write then begins the WAL anew."""
        if self._connection is not None:
            checkpoint(self._connection)

    def _empty_wal(self, connection: apsw.Connection) -> None:
        """What was swept must not live on in the write-ahead log; readers are given a moment."""
        connection.set_busy_timeout(int(EMPTY_WAL_SECONDS * 1000))
        checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.set_busy_timeout(0)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)

    def _connect(self) -> apsw.Connection:
        connection = self._file.connect(busy=0)
        connection.set_wal_hook(self._note_wal)
        self._session = Session(connection)
        self._connection = connection
        return connection

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _begin(self, connection: apsw.Connection) -> None:
        world = self._file.world
        end = world.monotonic() + BUSY_SECONDS
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError as error:
                if world.monotonic() > end:
                    raise self._file.explain(error, "no") from error
                world.block(RETRY * (0.1 + world.random()))
            except apsw.Error as error:
                raise self._file.explain(error, "no", connection.system_errno) from error


def checkpoint(connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> bool:
    """Copy what can be copied from the WAL into the file; False if that failed.

    Nothing is lost then: what was committed stays in the WAL, and the next try copies it.
    """
    try:
        connection.wal_checkpoint(mode=mode)
    except apsw.Error as error:
        logger.info("wal_not_copied", extra={"error": type(error).__name__})
        return False
    return True


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
