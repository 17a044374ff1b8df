"""Read-only access to the database of another framework: SQLite or PostgreSQL.

A source reads pages that begin after a key, so that no long transaction blocks agents that still
use the database.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import apsw

from stateward.engines.registry import parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, StoreUnavailable

SCHEMES = ("sqlite", "postgresql", "postgres")
FILES = SCHEMES[:1]  # those of them that are SQLite's
PAGE = 100  # rows of one query
DRIVERS = re.compile(r"^(sqlite|postgres(?:ql)?)(\+\w+)?://")  # SQLAlchemy names a driver, too
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ForeignDatabase:
    """A database that answers queries with `?` parameters. `is_file`: SQLite, not PostgreSQL."""

    def __init__(self, url: EngineURL, own: Sequence[str] = ()) -> None:
        """Open a database; `own` names the options of the URL that belong to the reader."""
        self.safe = url.safe
        self._postgres: Any = None
        self._sqlite: apsw.Connection | None = None
        self.is_file = url.scheme in FILES
        self.dialect = "sqlite" if self.is_file else "postgresql"
        if self.is_file:
            self._open_file(url)
        else:
            self._connect(url, own)

    def _open_file(self, url: EngineURL) -> None:
        path = url.rest.removeprefix("/")
        if not os.path.exists(path):
            raise InvalidInput(f"there is no file {path}; an absolute path has four slashes")
        with self._driver_errors():
            self._sqlite = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            self._sqlite.set_busy_timeout(30_000)

    def _connect(self, url: EngineURL, own: Sequence[str]) -> None:
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"{url.safe} needs a driver: pip install 'stateward[postgres]'"
            ) from error
        options = {name: value for name, value in url.options.items() if name not in own}
        text = url.text.partition("?")[0]
        with self._driver_errors():
            self._postgres = psycopg.connect(
                f"{text}?{urlencode(options)}" if options else text, autocommit=True
            )
            self._postgres.read_only = True

    def query(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        with self._driver_errors():
            if self._sqlite is not None:
                return list(self._sqlite.execute(sql, args))
            cursor = self._postgres.execute(sql.replace("%", "%%").replace("?", "%s"), args)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def has_table(self, name: str) -> bool:
        if self._sqlite is not None:
            return bool(self.query("SELECT 1 FROM sqlite_master WHERE name = ?", name))
        return self.query("SELECT to_regclass(?) IS NOT NULL", name)[0][0] is True

    def seconds(self, column: str) -> str:
        """Return SQL that converts a time without a zone to seconds since 1970."""
        if self._sqlite is not None:  # SQLAlchemy writes such times in UTC
            return f"unixepoch({column}, 'subsec')"
        zone = "current_setting('TimeZone')"
        return f"extract(epoch FROM {column} AT TIME ZONE {zone})::float8"

    def close(self) -> None:
        for connection in (self._sqlite, self._postgres):
            if connection is not None:
                connection.close()

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        """Report a driver's error as `StoreUnavailable`."""
        try:
            yield
        except (InvalidInput, StoreUnavailable):
            raise
        except Exception as error:
            text = " ".join(str(error).split())
            raise StoreUnavailable(f"{self.safe} cannot be read: {text}") from error


def database_url(text: str) -> EngineURL:
    """Parse a URL of SQLite or PostgreSQL, also in the form of SQLAlchemy."""
    return parse(DRIVERS.sub(lambda found: f"{found[1]}://", text))


def table_name(url: EngineURL, option: str, default: str) -> str:
    """Return a table name from the URL, checked because the name becomes part of SQL."""
    name = url.options.get(option, default)
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise InvalidInput(f"{option}={name!r} in the URL is not the name of a table")
    return name
