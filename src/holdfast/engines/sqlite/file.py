"""One SQLite file: connections, transactions, migrations, and errors in plain words."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import apsw

from holdfast import __version__
from holdfast.engine import Description
from holdfast.engines.sqlite.session import Session
from holdfast.errors import (
    DiskProblem,
    HoldfastError,
    InvalidInput,
    SchemaError,
    StoreUnavailable,
)
from holdfast.ops import Commit as CommitOp
from holdfast.ops import Outcome, Sweep, Swept, check_shape
from holdfast.world import World

APPLICATION_ID = 0x486F6C64  # "Hold": tells our files from other SQLite databases
BUSY_SECONDS = 4.5  # how long a write waits for other processes: less than a call may take
READ_BUSY_SECONDS = 0.05  # a read waits only while another process recovers the file after a crash
FIRST_RETRY, LAST_RETRY = 0.0002, 0.0015  # jittered: busy_timeout's own steps are unfair
CHECKPOINT_AT_ONCE = 8_000  # WAL pages at which the writer itself makes room
EMPTY_WAL_SECONDS = 1.0  # how long emptying it after a sweep waits for readers
STATEMENTS = 200  # prepared statements kept a connection

Applied = Literal["no", "unknown"]

logger = logging.getLogger("holdfast.sqlite")


class File:
    """A path and how to use it. Cheap; opens nothing by itself."""

    def __init__(self, path: str, *, relaxed: bool, migrate: bool, world: World) -> None:
        self.path = path
        self.relaxed = relaxed
        self.world = world
        self._migrate = migrate

    # --- connections ----------------------------------------------------------------

    def connect(self, busy: float = BUSY_SECONDS) -> apsw.Connection:
        """A connection set up as every connection of ours is, that waits so long for others."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise InvalidInput(f"the folder {folder!r} does not exist; create it first")
        try:
            connection = apsw.Connection(self.path, statementcachesize=STATEMENTS)
            connection.set_busy_timeout(int(busy * 1000))
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
        """Make the file a current Holdfast store, or say why it cannot be one."""
        connection = self.connect()
        try:
            self._check_identity(connection)
            pending = self._pending(connection)
            if pending and not self._migrate:
                raise SchemaError(
                    f"{self.path} needs the migrations {', '.join(n for n, _ in pending)} and "
                    "was opened with migrate=off; run: holdfast migrate sqlite:///PATH"
                )
            if pending:
                self._apply_pending(connection)
        except apsw.Error as error:
            raise self.explain(error, "no") from error
        finally:
            connection.close()

    # --- schema ---------------------------------------------------------------------

    def _check_identity(self, connection: apsw.Connection) -> None:
        ours = connection.pragma("application_id") == APPLICATION_ID
        ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if not ours and tables:
            raise SchemaError(
                f"{self.path} is a SQLite database of something else ({tables} tables and "
                "indexes); give Holdfast a file of its own"
            )
        if ours and tables:
            query = "SELECT value FROM holdfast WHERE name = 'oldest_release'"
            ((oldest,),) = connection.execute(query).fetchall()
            if _release(str(oldest)) > _release(__version__):
                raise SchemaError(
                    f"{self.path} was migrated by a newer release and needs Holdfast {oldest} or "
                    f"later; this is {__version__}. Upgrade: pip install 'holdfast>={oldest}'"
                )

    def _pending(self, connection: apsw.Connection) -> list[tuple[str, str]]:
        done = connection.pragma("user_version")
        return [(name, text) for name, text in migrations() if int(name[:4]) > done]

    def _apply_pending(self, connection: apsw.Connection) -> list[str]:
        """Apply what is missing in one transaction; a second process waits, then finds nothing."""
        if connection.pragma("journal_mode", "wal") != "wal":
            raise SchemaError(
                f"{self.path} cannot use write-ahead logging; put it on a local disk "
                "(network file systems do not work)"
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            pending = self._pending(connection)
            for name, text in pending:
                connection.execute(text).fetchall()
                connection.execute(
                    "INSERT OR REPLACE INTO holdfast VALUES ('oldest_release', ?)", (_oldest(text),)
                )
                connection.pragma("user_version", int(name[:4]))
            if pending:
                connection.pragma("application_id", APPLICATION_ID)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return [name for name, _ in pending]

    def migrate(self) -> list[str]:
        """Apply the migrations that are missing; returns their names."""
        connection = self.connect()
        try:
            self._check_identity(connection)
            return self._apply_pending(connection)
        except apsw.Error as error:
            raise self.explain(error, "no") from error
        finally:
            connection.close()

    def pending_sql(self) -> str:
        """The SQL that `migrate` would run, for people who run it themselves."""
        if not os.path.exists(self.path):
            return "\n".join(text for _, text in migrations())
        connection = self.connect()
        try:
            self._check_identity(connection)
            return "\n".join(text for _, text in self._pending(connection))
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
        except apsw.Error as error:
            raise self.explain(error, "no") from error
        return Description(
            engine="sqlite",
            version=apsw.sqlite_lib_version(),
            schema=schema,
            durability=(
                "an acknowledged write survives the process and a power failure"
                if synchronous >= 2
                else "an acknowledged write survives the process; a power failure may lose the last"
            ),
            bytes=_size(self.path) + _size(self.path + "-wal"),
            settings=settings,
        )

    # --- errors ---------------------------------------------------------------------

    def explain(self, error: apsw.Error, applied: Applied, number: int = 0) -> HoldfastError:
        """The driver's error as one of ours. `number` is the operating system's errno."""
        full = number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        if isinstance(error, apsw.FullError) or full:
            return DiskProblem(
                f"no room left for {self.path}: free space on its disk. Reads go on; "
                "this write was not stored",
                applied=applied,
            )
        if isinstance(error, apsw.ReadOnlyError) or number == errno.EROFS:
            return DiskProblem(
                f"{self.path} cannot be written: its disk or folder is read-only, or the "
                "permissions forbid it. Reads go on; this write was not stored",
                applied=applied,
            )
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return StoreUnavailable(
                f"{self.path} was locked by another process for {BUSY_SECONDS:g} s; look for a "
                "long transaction in it",
                applied=applied,
            )
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            return SchemaError(
                f"{self.path} is damaged or is no SQLite database ({error}); restore it from "
                "a backup"
            )
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
        now = self._file.world.now()
        try:
            outcomes = [self._session.write(op, now) for op in ops]
        except BaseException as error:
            number = connection.system_errno
            # After SQLITE_FULL the transaction may already be gone.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, apsw.Error):
                raise self._file.explain(error, "no", number) from error
            if isinstance(error, Exception):
                what = f"{type(error).__name__}: {error}"
                raise StoreUnavailable(f"{self._file.path}: {what}", applied="no") from error
            raise
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

    def _empty_wal(self, connection: apsw.Connection) -> None:
        """What was swept must not live on in the write-ahead log; readers are given a moment."""
        connection.set_busy_timeout(int(EMPTY_WAL_SECONDS * 1000))
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            logger.info("wal_not_emptied", extra={"path": self._file.path})
        finally:
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
                world.block(FIRST_RETRY + (LAST_RETRY - FIRST_RETRY) * world.random())
            except apsw.Error as error:
                raise self._file.explain(error, "no", connection.system_errno) from error


def checkpoint(connection: apsw.Connection) -> None:
    """Copy what can be copied from the WAL into the file, waiting for nobody."""
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def migrations() -> list[tuple[str, str]]:
    """Every migration, oldest first: name and SQL."""
    folder = files("holdfast.engines.sqlite").joinpath("migrations")
    steps = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((step.name[:-4], step.read_text(encoding="utf-8")) for step in steps)


def _oldest(text: str) -> str:
    """The first line of a migration names the oldest release that can use its result."""
    return text.splitlines()[0].rsplit(":", 1)[1].strip()


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
