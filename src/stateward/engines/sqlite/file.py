"""One SQLite file: how it is connected to, and made a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from stateward.engines.sqlite.failures import MaybeApplied, explain
from stateward.engines.sqlite.schema import Schema, migrations, must_migrate
from stateward.errors import InvalidInput, StatewardError
from stateward.world import World

OPENING_SECONDS = 4.5  # how long opening waits for other processes
READ_BUSY_SECONDS = 0.05  # a read waits only while another process recovers the file after a crash
STATEMENTS = 200  # prepared statements kept a connection


class File:
    """A path and how to use it. Cheap; opens nothing by itself."""

    def __init__(self, path: str, *, relaxed: bool, migrate: bool, world: World) -> None:
        self.path = path
        self.relaxed = relaxed
        self.world = world
        self._migrate = migrate

    def exists(self) -> bool:
        """Whether it is there; connecting would make it."""
        return os.path.exists(self.path)

    def connect(self, busy: float = OPENING_SECONDS) -> apsw.Connection:
        """A connection set up as every connection of ours is, that waits so long for others."""
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise InvalidInput(f"the folder {folder!r} does not exist; create it first")
        self._make_private()
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

    def _make_private(self) -> None:
        """A new file is for its owner alone; SQLite gives those beside it the same mode."""
        with suppress(OSError):  # it is there already; or SQLite says better why it cannot be
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def open(self) -> None:
        """Make the file a current Stateward store, or say why it cannot be one."""
        if not self._migrate and not self.exists():
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

    def pending_sql(self) -> str:
        """The SQL that `migrate` would run, for people who run it themselves."""
        if not self.exists():
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

    def explain(
        self, error: apsw.Error | UnicodeDecodeError, applied: MaybeApplied, number: int = 0
    ) -> StatewardError:
        """The driver's error as one of ours. `number` is the operating system's errno."""
        return explain(self.path, error, applied, number)
