"""Reads of a whole file as it was at one moment."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.file import File
from stateward.ops import Op, Outcome
from stateward.world import World


class Snapshot:
    """A read transaction on a connection of its own. Used by one thread at a time.

    Writers continue meanwhile; the write-ahead log holds their writes until the transaction ends,
    so the file beside the store grows for as long as the snapshot is open.
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


class OnThreads:
    """A snapshot for an event loop, which reading a page on the spot would hold up."""

    def __init__(self, snapshot: Snapshot, world: World) -> None:
        self._snapshot = snapshot
        self._offload = world.offload

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        return await self._offload(self._snapshot.execute, ops)
