"""One moment of a file, for as long as it takes to read all of it."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.file import File
from stateward.ops import Op, Outcome


class Snapshot:
    """A read transaction on a connection of its own. Used by one thread at a time.

    Writers go on meanwhile; the write-ahead log keeps what they write until the end of it, so
    the file beside the store grows for as long as this is open.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._connection = file.connect()
        self._session = Session(self._connection)
        try:
            # A transaction sees the moment of its first look, not that of its beginning.
            self._connection.execute("BEGIN; SELECT count(*) FROM stateward").fetchall()
        except (apsw.Error, UnicodeDecodeError) as error:
            self._connection.close(True)
            raise file.explain(error, "no") from error
        self._now = file.world.now()

    def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        try:
            return self._session.read_in_transaction(ops, self._now)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no") from error

    def close(self) -> None:
        self._file.disconnect(self._connection)
