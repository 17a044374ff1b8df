"""Connections, and a small pool of them.

A connection is lent for one round trip at a time. One that failed, or was left between a request
and its reply, is never lent again.
"""

from __future__ import annotations

import select

# sync only: import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.driver import LoopDriver, Slots, driven  # async only
from stateward.engines.postgres.failures import is_from_pooler, logger
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import PREPARE_AFTER, Rows, Wire

# sync only: from stateward.engines.postgres.driver import bounded

Statement = tuple[str, Sequence[Any]]

ANSWER_SECONDS = 4.5  # a round trip takes less, or its connection is given up
SOON = 0.001  # seconds that even a round trip begun too late is given
SNAPSHOT_SECONDS = 60.0  # the same for a page of a backup, which nobody waits for


class Link(AsyncConnection[tuple[Any, ...]]):
    """A connection whose round trips end in time, whatever the server does."""

    answer_by = 0.0  # by this clock; 0: whenever it comes
    clock: Callable[[], float]
    wire: Wire  # for single statements
    news: Callable[[], bool]  # whether the server has said something unasked

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        if self.answer_by:
            # async only: begin
            left = self.answer_by - self.clock()
            return await driven(gen, self.pgconn.socket, left)
            # async only: end
            # sync only: gen = bounded(gen, self.clock, self.answer_by)
        return await super().wait(gen, *args, **kwargs)


class ConnectionLost(Exception):
    """The connection was lost after something was sent: what became of it is not known."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Pool:
    """At most `size` connections; made when needed, kept when they are well."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._free = Slots(size)  # async only
        # sync only: self._free = threading.Semaphore(size)
        self._idle: list[Link] = []

    async def run(
        self, statements: Sequence[Statement], deadline: float | None = None
    ) -> list[Rows]:
        """The rows of each statement, in one round trip. All of them are one transaction.

        A connection that has not answered by the `deadline` is given up then, if not before.
        Raises the driver's error, or `ConnectionLost` if the server may have acted all the same.
        """
        await self._free.acquire()
        link = None
        try:
            link = self._pop() or await connect(self._settings)
            now = link.clock()
            link.answer_by = now + ANSWER_SECONDS
            if deadline is not None:
                link.answer_by = max(now + SOON, min(link.answer_by, deadline))
            return await _ask(link, statements)
        except psycopg.Error as error:
            if link is None or _is_well(link):
                raise
            raise ConnectionLost(error) from error
        finally:
            self._take_back(link)

    # async only: begin
    def depart(
        self, statement: Statement, landed: Callable[[Rows, BaseException | None], None]
    ) -> bool:
        """The same for one statement, at once and without a task, if a connection is idle.

        `landed` is called when it has ended. No caller's cancellation reaches it.
        """
        if not self._free.take():
            return False
        link = self._pop()
        if link is None:
            self._free.release()
            return False

        def ended(rows: Rows, error: BaseException | None) -> None:
            if isinstance(error, psycopg.Error) and not _is_well(link):
                error = ConnectionLost(error)
            self._take_back(link)
            landed(rows, error)

        LoopDriver(link.wire.ask(*statement), link.pgconn.socket, ANSWER_SECONDS, ended)
        return True

    # async only: end
    def _take_back(self, link: Link | None) -> None:
        if link is not None:
            if _is_well(link):
                self._idle.append(link)
            else:
                link.pgconn.finish()
        self._free.release()

    def _pop(self) -> Link | None:
        """One that is well, as far as can be told without asking the server."""
        while self._idle:
            link = self._idle.pop()
            if not (link.closed or link.news()):
                return link
            link.pgconn.finish()  # ended by the server while nobody used it
        return None

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()


class Snapshot:
    """One read-only transaction that sees one moment, on a connection of its own."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def begin(self) -> None:
        await self._link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await self._link.execute("SELECT 1")  # the moment is that of the first look

    async def run(self, statements: Sequence[Statement]) -> list[Rows]:
        self._link.answer_by = self._link.clock() + SNAPSHOT_SECONDS
        return await _ask(self._link, statements)

    async def close(self) -> None:
        await self._link.close()


async def connect(settings: Settings) -> Link:
    """A connection set up as every connection of ours is.

    A pooler that refuses what a session is told is obeyed from then on: nothing is told, prepared
    or listened for.
    """
    try:
        link = await _connect(settings)
    except psycopg.OperationalError as error:
        if not (settings.prepares and settings.adapts and is_from_pooler(error)):
            raise
        settings.met.pooler = True
        logger.info("pooler_met", extra={"store": settings.safe})
        link = await _connect(settings)
    link.clock = settings.world.monotonic
    register(link)
    link.wire = Wire(link)
    link.news = _news_of(link)
    return link


async def _connect(settings: Settings) -> Link:
    return await Link.connect(
        autocommit=True,
        prepare_threshold=PREPARE_AFTER if settings.prepares else None,
        **await settings.world.offload(settings.connect_arguments),
    )


async def _ask(link: Link, statements: Sequence[Statement]) -> list[Rows]:
    if len(statements) == 1:
        return [await link.wait(link.wire.ask(*statements[0]))]
    cursors = [link.cursor(binary=True) for _ in statements]
    async with link.pipeline():
        for cursor, (query, params) in zip(cursors, statements, strict=True):
            await cursor.execute(query, params)
    return [await cursor.fetchall() for cursor in cursors]


def _is_well(link: Link) -> bool:
    return not link.closed and link.pgconn.transaction_status == TransactionStatus.IDLE


def _news_of(link: Link) -> Callable[[], bool]:
    """Whether the server has said something unasked: mostly that it has ended the connection."""
    fileno = link.pgconn.socket
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([fileno], [], [], 0)[0])
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return lambda: bool(poll.poll(0))
