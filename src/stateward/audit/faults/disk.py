"""Disk faults of a store of files: the disk is full, or a file is locked."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import apsw

ROOM = 16_384  # bytes that any one file may have once the disk is "full"
SMALL_ROOM = 256  # for files of which none grows much


class DiskFull:
    """Full disk: no file of the replica may grow any more, and its writes fail accordingly."""

    label = "the disk is full"
    every = 0.1
    least = 0.0

    def __init__(self, small: bool = False) -> None:
        self.changed: dict[str, Any] = {}
        self._room = SMALL_ROOM if small else ROOM
        self._before: tuple[int, int] | None = None

    async def begin(self, replica: Any) -> None:
        import resource  # missing on some systems, see can_fill

        self._before = resource.prlimit(replica.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(replica.pid, resource.RLIMIT_FSIZE, (self._room, self._before[1]))

    async def end(self, replica: Any) -> None:
        import resource

        if self._before is not None and replica.alive:
            resource.prlimit(replica.pid, resource.RLIMIT_FSIZE, self._before)

    def fired(self, tried: Sequence[Any]) -> bool:
        """Return True if a turn was not stored: only such a turn has met the fault."""
        return any(each.what == "append" and each.outcome != "stored" for each in tried)


def can_fill() -> bool:
    """Return True if this system lets one process limit another's files."""
    if find_spec("resource") is None:
        return False
    import resource

    return hasattr(resource, "prlimit")


class Locked:
    """Lock of the file by another process whose write does not end."""

    label = "the file is locked by another process"
    every = 0.1
    least = 0.0

    def __init__(self, path: str) -> None:
        self.changed: dict[str, Any] = {}
        self.path = path
        self._connection: apsw.Connection | None = None

    async def begin(self, replica: object) -> None:
        self._connection = apsw.Connection(self.path)
        self._connection.set_busy_timeout(5000)
        self._connection.execute("BEGIN IMMEDIATE")

    async def end(self, replica: object) -> None:
        if self._connection is not None:
            self._connection.execute("ROLLBACK")
            self._connection.close()
            self._connection = None

    def fired(self, tried: Sequence[Any]) -> bool:
        """Return True if any append had to wait or failed."""
        return any(
            each.what == "append" and (each.seconds > 0.1 or each.outcome != "stored")
            for each in tried
        )
