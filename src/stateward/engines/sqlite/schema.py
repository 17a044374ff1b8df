"""What a file must be to be a store: identity, version, and the migrations between versions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import apsw

from stateward import __version__
from stateward.errors import SchemaError
from stateward.world import World

APPLICATION_ID = 0x53747764  # "Stwd": tells our files from other SQLite databases
PATIENCE = 4.5  # seconds to wait for another process that migrates
RETRY = 0.0014  # seconds between tries, jittered

Step = tuple[str, str]  # name and SQL


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
        oldest = self._oldest_release()
        if _release(oldest) > _release(__version__):
            raise SchemaError(
                f"{self._path} was migrated by a newer release and needs Stateward {oldest} or "
                f"later; this is {__version__}. Upgrade: pip install 'stateward>={oldest}'"
            )

    def _oldest_release(self) -> str:
        query = "SELECT value FROM stateward WHERE name = 'oldest_release'"
        try:
            rows = self._connection.execute(query).fetchall()
        except apsw.SQLError as error:
            raise damaged(self._path, error) from error
        oldest = str(rows[0][0]) if rows else ""
        if not _release(oldest):
            raise damaged(self._path, "it does not say which releases may use it")
        return oldest

    def pending(self) -> list[Step]:
        """The migrations that the file lacks."""
        done = self._connection.pragma("user_version")
        return [(name, text) for name, text in migrations() if int(name[:4]) > done]

    def apply_pending(self) -> list[str]:
        """Apply what is missing in one transaction; a second process waits, then finds nothing."""
        connection = self._connection
        if not self._begin():
            return []
        try:
            pending = self.pending()
            for name, text in pending:
                connection.execute(text).fetchall()
                connection.execute(
                    "INSERT OR REPLACE INTO stateward VALUES ('oldest_release', ?)",
                    (_oldest(text),),
                )
                connection.pragma("user_version", int(name[:4]))
            connection.pragma("application_id", APPLICATION_ID)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return [name for name, _ in pending]

    def _begin(self) -> bool:
        """The right to migrate; False if there is nothing to do any more.

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


def migrations() -> list[Step]:
    """Every migration, oldest first."""
    folder = files("stateward.engines.sqlite").joinpath("migrations")
    steps = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((step.name[:-4], step.read_text(encoding="utf-8")) for step in steps)


def must_migrate(path: str, pending: Sequence[Step]) -> SchemaError:
    return SchemaError(
        f"{path} needs the migrations {', '.join(name for name, _ in pending)} and was opened with "
        "migrate=off; run: stateward migrate sqlite:///PATH"
    )


def damaged(path: str, why: object) -> SchemaError:
    return SchemaError(
        f"{path} is damaged or is no SQLite database ({why}); restore it from a backup"
    )


def _oldest(text: str) -> str:
    """The first line of a migration names the oldest release that can use its result."""
    return text.splitlines()[0].rsplit(":", 1)[1].strip()


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
