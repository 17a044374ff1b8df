"""A connection: how it is set up, asked and given up. Its round trips end in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.driver import drive_to_end, news_of  # async only
from stateward.engines.postgres.failures import Unanswered, is_from_pooler
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows, Standing, Wire, ping, rest

# sync only: from stateward.engines.postgres.driver import bounded, news_of

CANCEL_SECONDS = 2.0  # a server that takes longer to accept a cancellation is not reached at all
LET_GO_SECONDS = 60.0  # of a backend that cannot be cancelled, because it waits for a disk
LOOK_SECONDS = 1.0  # at most, between two looks whether a backend is still at work

Query = tuple[str, Sequence[Any]]


class Link(AsyncConnection[tuple[Any, ...]]):
    """A connection whose round trips end in time, whatever the server does."""

    answer_by = 0.0  # by this clock; 0: whenever it comes
    clock: Callable[[], float]
    used = 0.0  # when it last answered
    retired: int  # see `Met`: with another number it is not used again
    standing: Standing
    wire: Wire | None  # for single statements; None: cursors for all of them
    news: Callable[[], bool]  # True if the server has sent something unasked

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        if self.answer_by:
            # async only: begin
            left = self.answer_by - self.clock()
            return await drive_to_end(gen, self.pgconn.socket, left)
            # async only: end
            # sync only: gen = bounded(gen, self.clock, self.answer_by)
        return await super().wait(gen, *args, **kwargs)

    async def ask(self, queries: Sequence[Query]) -> list[Rows]:
        """Return the rows of each query from one round trip, which is one transaction."""
        if self.wire is not None:
            if len(queries) == 1:
                return [await self.wait(self.wire.ask(*queries[0]))]
            rows: list[Rows] = await self.wait(self.wire.ask_together(queries))
            return rows
        cursors = [self.cursor(binary=True) for _ in queries]
        if len(queries) == 1:
            await cursors[0].execute(*queries[0])
        else:  # no pipeline: the driver's own is confused by a commit that is refused
            async with self.transaction():
                for cursor, (query, params) in zip(cursors, queries, strict=True):
                    await cursor.execute(query, params)
        self.standing.check()
        return [await cursor.fetchall() for cursor in cursors]

    async def ping(self, seconds: float) -> bool:
        """Return whether the server answers within so many seconds, and still takes writes."""
        self.answer_by = self.clock() + seconds
        try:
            await self.wait(ping(self.pgconn))
            self.standing.check()
        except psycopg.Error:
            return False
        return True

    def is_well(self) -> bool:
        """Return whether the connection is open and not between a request and its reply."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE

    def is_asked(self) -> bool:
        """Return whether the server may still be at work on a request."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.ACTIVE

    async def let_go(self, settings: Settings, wanted: Callable[[], bool]) -> None:
        """End a round trip that was given up; return when the server is not at work on it any more.

        A backend that waits for a standby or a disk does not notice that its client has left, and
        keeps its locks. So it is cancelled, and as long as it goes on, for a minute at most and
        while that is `wanted`, no other connection takes the place of this one.
        """
        end, pause = self.clock() + LET_GO_SECONDS, LOOK_SECONDS / 8
        try:
            await self.cancel_safe(timeout=CANCEL_SECONDS)
            while self.clock() < end and wanted():
                self.answer_by = self.clock() + pause
                try:
                    return await self.wait(rest(self.pgconn))  # type: ignore[no-any-return]
                except Unanswered:
                    pause = min(pause * 2, LOOK_SECONDS)
                if not await _is_at_work(self.pgconn.backend_pid, settings):
                    return None  # only its answer was lost
        except psycopg.Error:
            return None  # the server cannot be reached, or has ended the connection
        finally:
            self.pgconn.finish()
        return None


async def _is_at_work(pid: int, settings: Settings) -> bool:
    """Return whether a backend does something, as far as the server says."""
    link = None
    try:
        link = await connect(settings)
        link.answer_by = link.clock() + LOOK_SECONDS
        query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state <> 'idle'"
        return bool((await link.ask([(query, (pid,))]))[0])
    except psycopg.Error:
        return True
    finally:
        if link is not None:
            link.pgconn.finish()


async def connect(settings: Settings) -> Link:
    """Open a connection with our settings.

    If a pooler refuses settings of a session, connections from then on set, prepare and listen for
    nothing.
    """
    retired = settings.met.retired
    try:
        link = await _connect(settings)
    except psycopg.OperationalError as error:
        if not (settings.adapts_now and is_from_pooler(error)):
            raise
        settings.met.meet_pooler(settings.safe)
        retired = settings.met.retired
        link = await _connect(settings)
    link.clock = settings.world.monotonic
    link.used = link.clock()
    link.retired = retired
    register(link)
    link.standing = Standing(link, settings.wants_writer)
    link.wire = Wire(link, settings.prepares, link.standing) if settings.wire else None
    link.news = news_of(link.pgconn.socket)
    return link


async def _connect(settings: Settings) -> Link:
    return await Link.connect(
        autocommit=True,
        prepare_threshold=None,  # the driver's names are the same in every process: see `wire.py`
        **await settings.world.offload(settings.connect_arguments),
    )
