"""A connection that reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from stateward.engine import Description
from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.describe import describe
from stateward.engines.sqlite.fetch import sql
from stateward.engines.sqlite.file import READ_BUSY_SECONDS, File
from stateward.ops import Entity, Op, Outcome


class FileReader:
    """A connection with its session. Used by one thread at a time."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.connection, self._place = file.connect_to(READ_BUSY_SECONDS)
        self._session = Session(self.connection)

    def _renew(self) -> Session:
        """Turn to the file that is there now; keep the old one if there is none."""
        before = self.connection
        self.connection, self._place = self._file.connect_to(READ_BUSY_SECONDS)
        self._session = Session(self.connection)
        before.close(True)
        return self._session

    def read(self, ops: Sequence[Op]) -> list[Outcome]:
        try:
            session = self._renew() if self._place.is_left() else self._session
            return session.read_all(ops, self._file.world.now())
        except (apsw.Error, UnicodeDecodeError, OSError) as error:
            raise self._file.explain(error, "no") from error

    def counter(self) -> tuple[object, int]:
        """Return a value that changes with every write by another connection."""
        try:
            if self._place.is_left():
                self._renew()
            return self._place.identity, self.connection.pragma("data_version")
        except (apsw.Error, OSError) as error:
            raise self._file.explain(error, "no") from error

    def moved(self, cursors: Mapping[Entity, int]) -> bool:
        """Return True if a log has left its cursor."""
        return self.look(cursors, None)[1]

    def look(self, cursors: Mapping[Entity, int], last: int | None) -> tuple[int, bool]:
        """Return the file's change counter and, unless that is `last`, if a log has moved."""
        try:
            if self._place.is_left():
                self._renew()
                last = None
            counter = self.connection.pragma("data_version")
            if counter == last:
                return counter, False
            versions = self._session.versions(list(cursors), self._file.world.now())
        except (apsw.Error, UnicodeDecodeError, OSError) as error:
            raise self._file.explain(error, "no") from error
        return counter, versions != list(cursors.values())

    def describe(self) -> Description:
        """Return the description of the file."""
        self.look({}, None)  # the file may have been replaced by now
        return describe(self._file, self.connection, self._session)

    def namespaces(self) -> list[str]:
        """Return all namespaces of the file, from one to the next along the index."""
        self.look({}, None)
        try:
            return [name for (name,) in self._session.rows(sql.namespaces, ())]
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no") from error

    def close(self) -> None:
        self._file.disconnect(self.connection)
