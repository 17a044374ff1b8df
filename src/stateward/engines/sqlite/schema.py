"""The schema of a file: identity, version, and the migrations between versions."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from stateward.engines.sql import Migration, check_release, load_migrations, release
from stateward.errors import SchemaError
from stateward.world import World

APPLICATION_ID = 0x53747764  # "Stwd": tells our files from other SQLite databases
PATIENCE = 4.5  # seconds to wait for another process that migrates
RETRY = 0.0014  # seconds between tries, jittered


class Schema:
    """The schema of one file, through a connection of its own."""

    def __init__(self, connection: apsw.Connection, path: str, world: World) -> None:
        self._connection = connection
        self._path = path
        self._world = world

    def check_identity(self) -> None:
        """Refuse what is not ours, or needs a newer release. Reads one moment of the file."""
        self._connection.execute("BEGIN")
        try:
            self._identify()
        finally:
            self._connection.execute("ROLLBACK")

    def _identify(self) -> None:
        mark = self._connection.pragma("application_id")
        version = self._connection.pragma("user_version")
        ((tables,),) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        if mark != APPLICATION_ID:
            if tables or mark or version:
                raise SchemaError(
                    f"{self._path} is a SQLite database of something else ({tables} tables and "
                    "indexes); give Stateward a file of its own"
                )
            return
        check_release(self._path, self._oldest_release())

    def _oldest_release(self) -> str:
        query = "SELECT value FROM stateward WHERE name = 'oldest_release'"
        try:
            rows = self._connection.execute(query).fetchall()
        except apsw.SQLError as error:
            raise damaged(self._path, error) from error
        oldest = str(rows[0][0]) if rows else ""
        if not release(oldest):
            raise damaged(self._path, "it does not say which releases may use it")
        return oldest

    def pending(self) -> list[Migration]:
        """The migrations that the file lacks."""
        done = self._connection.pragma("user_version")
        return [step for step in migrations() if step.number > done]

    def apply_pending(self) -> list[str]:
        """Apply what is missing in one transaction; a second process waits, then finds nothing."""
        connection = self._connection
        if not self._begin():
            return []
        try:
            pending = self.pending()
            for step in pending:
                connection.execute(step.sql).fetchall()
                connection.execute(
                    "INSERT OR REPLACE INTO stateward VALUES ('oldest_release', ?)", (step.oldest,)
                )
                connection.pragma("user_version", step.number)
            connection.pragma("application_id", APPLICATION_ID)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return [step.name for step in pending]

    def _begin(self) -> bool:
        """Begin to migrate; False if there is nothing to do any more.

        Changing the journal mode never calls SQLite's own busy handler: hence the loop.
        """
        end = self._world.monotonic() + PATIENCE
        while self.pending():
            try:
                if self._connection.pragma("journal_mode", "wal") != "wal":
                    raise SchemaError(
                        f"{self._path} cannot use write-ahead logging; put it on a local disk "
                        "(network file systems do not work)"
                    )
                self._connection.execute("BEGIN IMMEDIATE")
                return True
            except apsw.BusyError:
                if self._world.monotonic() > end:
                    raise
                self._world.block(RETRY * (0.1 + self._world.random()))
        return False


def migrations() -> list[Migration]:
    """Return every migration, oldest first."""
    return load_migrations("stateward.engines.sqlite")


def must_migrate(path: str, pending: Sequence[Migration]) -> SchemaError:
    names = ", ".join(step.name for step in pending)
    return SchemaError(
        f"{path} lacks {names} and was opened with migrate=off; run: stateward "
        "migrate sqlite:///PATH",
        missing=list(pending) == migrations(),
    )


def damaged(path: str, why: object) -> SchemaError:
    return SchemaError(
        f"{path} is damaged or is no SQLite database ({why}); restore it from a backup"
    )
