"""The connection that writes: a batch is one transaction, and so one fsync."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import apsw

from stateward.engines.sqlite.checkpoint import checkpoint
from stateward.engines.sqlite.commit import Session
from stateward.engines.sqlite.file import File
from stateward.errors import InvalidInput, StoreTooSlow, StoreUnavailable
from stateward.ops import Commit, Op, Outcome, Sweep, Swept, check_shape

BUSY_SECONDS = 0.3  # most that one try of a write waits; the deadline limits the tries
RETRY = 0.0014  # seconds, jittered: the steps of busy_timeout are unfair
CHECKPOINT_AT_ONCE = 8_000  # WAL pages at which the writer itself makes room
EMPTY_WAL_SECONDS = 1.0  # most that emptying the WAL after a sweep waits for readers


class Writer:
    """The one connection of a store that writes. Used by one thread at a time."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.connection: apsw.Connection | None = None
        self.wal_pages = 0
        self._version: object = None  # of the file, as other processes have changed it

    def write(self, ops: Sequence[Commit | Sweep], deadline: float | None = None) -> list[Outcome]:
        """Write the whole batch in one transaction with one fsync. A failure undoes all of it."""
        for op in ops:
            if type(op) is Commit:
                check_shape(op)
        connection = self.connection or self._connect()
        try:
            self._begin(connection, deadline)
            return self.commit(self._stage(connection, ops), deadline)
        except BaseException:
            self.undo()
            raise

    def stage_at_once(self, ops: Sequence[Commit]) -> list[Outcome] | None:
        """Stage a batch of appends without waiting; return the outcomes after `commit`.

        None: it has to be written the other way, and nothing was begun.
        """
        connection = self.connection
        if connection is None:
            return None
        try:
            try:
                self._session.run("BEGIN IMMEDIATE")
            except apsw.Error:
                return None  # another process writes, or what is wrong will show again
            return self._stage(connection, ops)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Roll back a transaction that will not be committed, for any exception."""
        connection = self.connection
        # After SQLITE_FULL the transaction may already be gone.
        if connection is not None and connection.in_transaction:
            self._session.run("ROLLBACK")

    def _stage(self, connection: apsw.Connection, ops: Sequence[Commit | Sweep]) -> list[Outcome]:
        """Run everything but the COMMIT."""
        now = self._file.world.now()
        try:
            return self._session.write(ops, now)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._file.explain(error, "no", connection.system_errno) from error
        except (OverflowError, UnicodeEncodeError) as error:
            raise InvalidInput(f"{self._file.path} cannot hold such a value: {error}") from error

    def commit(self, outcomes: list[Outcome], deadline: float | None = None) -> list[Outcome]:
        """Make what was staged durable; gives the outcomes back when it is.

        Refused after the deadline: a process that was paused may have lost the right to the file.
        Until the COMMIT no other process can write to the file, so the two are one step.
        """
        connection = self.connection
        assert connection is not None, "staged before"
        if deadline is not None and self._file.world.monotonic() >= deadline:
            self.undo()
            raise StoreTooSlow(f"{self._file.path} was not written in time", applied="no")
        try:
            self._session.run("COMMIT")
            if self._place.is_left():
                raise FileNotFoundError(self._file.full)  # and what was written to it is lost
        except (apsw.Error, OSError) as error:
            number = connection.system_errno
            self.close()  # the outcome is unknown: reopen the file
            raise self._file.explain(error, "unknown", number) from error
        if Swept in map(type, outcomes) and _has_swept(outcomes):
            self._empty_wal(connection)
        elif self.wal_pages > CHECKPOINT_AT_ONCE:
            checkpoint(connection)
        return outcomes

    def read(self, ops: Sequence[Op]) -> list[Outcome]:
        """Read on the writing connection, between two writes."""
        try:
            session = self._moved() if self._place.is_left() else self._session
            return session.read_all(ops, self._file.world.now())
        except (apsw.Error, UnicodeDecodeError, OSError) as error:
            raise self._file.explain(error, "no") from error

    def _moved(self) -> Session:
        self.close()
        self._connect()
        return self._session

    def end_checkpoint(self) -> None:
        """Copy pages written during the last copy; the next write then restarts the WAL."""
        if self.connection is not None:
            checkpoint(self.connection)

    def _empty_wal(self, connection: apsw.Connection) -> None:
        """Empty the write-ahead log of what was swept; readers get a moment to end."""
        try:
            connection.set_busy_timeout(int(EMPTY_WAL_SECONDS * 1000))
            checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(0)

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(True)

    def _connect(self) -> apsw.Connection:
        connection, self._place = self._file.connect_to(0)
        connection.set_wal_hook(self._note_wal)
        self._session = Session(connection)
        self.connection = connection
        return connection

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _begin(self, connection: apsw.Connection, deadline: float | None) -> None:
        world = self._file.world
        end: float | None = None
        while True:
            try:
                self._session.run("BEGIN IMMEDIATE")
                return
            except apsw.BusyError as error:
                now = world.monotonic()
                if end is None:
                    end = now + BUSY_SECONDS
                    end = end if deadline is None else min(end, deadline)
                if now > end:
                    failure = self._file.explain(error, "no")
                    assert isinstance(failure, StoreUnavailable)
                    failure.is_busy = self._others_were_served(connection)
                    raise failure from error
                world.block(RETRY * (0.1 + world.random()))
            except apsw.Error as error:
                raise self._file.explain(error, "no", connection.system_errno) from error

    def _others_were_served(self, connection: apsw.Connection) -> bool:
        """Return whether another process has committed since the last time this was asked."""
        before = self._version
        with suppress(apsw.Error):
            self._version = connection.pragma("data_version")
        return before is not None and self._version != before


def _has_swept(outcomes: Sequence[Outcome]) -> bool:
    """Return True if a sweep has ended."""
    return any(type(outcome) is Swept and not outcome.more for outcome in outcomes)
