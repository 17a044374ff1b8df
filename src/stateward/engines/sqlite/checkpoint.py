"""Copying the write-ahead log into the file, beside the writer instead of in its way."""

from __future__ import annotations

import logging
from queue import SimpleQueue

import apsw

from stateward.engines.sqlite.file import File
from stateward.errors import StatewardError, StoreUnavailable
from stateward.world import Helper

logger = logging.getLogger("stateward.sqlite")

PAGES = 1_000  # new WAL pages after which it is worth it


class Checkpoints:
    """A thread that connects when there is something to copy."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._due: SimpleQueue[bool] = SimpleQueue()  # unlike an event, no interrupt wedges it
        self._copied = 0
        self._end_is_left = False
        self._thread: Helper | None = None

    def consider(self, wal_pages: int) -> None:
        """Consider a checkpoint after each write, by the size of the WAL."""
        if wal_pages < self._copied:
            self._copied = 0  # the WAL was begun anew
        if wal_pages - self._copied < PAGES:
            return
        if self._thread is None:
            self._due = SimpleQueue()
            self._thread = Helper(self._run, "stateward-sqlite-checkpoint")
        try:
            self._thread.start()
        except StoreUnavailable:
            return  # a moment without threads; the next write tries again
        self._copied = wal_pages
        self._due.put(True)

    def end_is_due(self) -> bool:
        """Return True if only pages written during the copy are left to copy.

        Only the writer can copy that without more coming in; and unless all of it is copied
        the WAL is never begun anew, but grows. An fsync of a growing file takes twice as long.
        """
        due, self._end_is_left = self._end_is_left, False
        return due

    def close(self) -> None:
        """Stop, and wait for the thread."""
        if self._thread is not None:
            self._due.put(False)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while self._due.get():
            try:
                connection = self._file.connect(busy=0)
            except StatewardError:
                continue  # the writer meets the same disk, and tells a caller
            self._end_is_left = checkpoint(connection)
            connection.close(True)


def checkpoint(connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> bool:
    """Copy what can be copied from the WAL into the file; False if that failed.

    Nothing is lost then: what was committed stays in the WAL, and the next try copies it.
    """
    try:
        connection.wal_checkpoint(mode=mode)
    except apsw.Error as error:
        logger.info("wal_not_copied", extra={"error": type(error).__name__})
        return False
    return True
