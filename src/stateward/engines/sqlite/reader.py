"""A connection that reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.file import READ_BUSY_SECONDS, File
from stateward.ops import Entity, Op, Outcome


class FileReader:
    """A connection with its session. Used by one thread at a time."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.connection = file.connect(READ_BUSY_SECONDS)
        self._session = Session(self.connection)

    def read(self, ops: Sequence[Op]) -> list[Outcome]:
        try:
            return self._session.read_all(ops, self._file.world.now())
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no") from error

    def look(self, cursors: Mapping[Entity, int], seen: int | None) -> tuple[int, bool]:
        """The file's change counter; unless it is the one `seen`, also whether a log has moved."""
        try:
            counter = self.connection.pragma("data_version")
            if counter == seen:
                return counter, False
            versions = self._session.versions(list(cursors), self._file.world.now())
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no") from error
        return counter, versions != list(cursors.values())

    def close(self) -> None:
        self.connection.close(True)
