"""A connection: how it is set up, and how it is asked. Its round trips end in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.driver import drive_to_end, news_of  # async only
from stateward.engines.postgres.failures import is_from_pooler, logger
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows, Wire

# sync only: from stateward.engines.postgres.driver import bounded, news_of

Query = tuple[str, Sequence[Any]]


class Link(AsyncConnection[tuple[Any, ...]]):
    """A connection whose round trips end in time, whatever the server does."""

    answer_by = 0.0  # by this clock; 0: whenever it comes
    clock: Callable[[], float]
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
        if len(queries) == 1:  # in a pipeline the driver does not expect a commit to be refused
            await cursors[0].execute(*queries[0])
        else:
            async with self.pipeline():
                for cursor, (query, params) in zip(cursors, queries, strict=True):
                    await cursor.execute(query, params)
        return [await cursor.fetchall() for cursor in cursors]

    def is_well(self) -> bool:
        """Return whether the connection is open and not between a request and its reply."""
        return not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE


async def connect(settings: Settings) -> Link:
    """Open a connection with our settings.

    If a pooler refuses settings of a session, connections from then on set, prepare and listen for
    nothing.
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
    link.wire = Wire(link, settings.prepares) if settings.wire else None
    link.news = news_of(link.pgconn.socket)
    return link


async def _connect(settings: Settings) -> Link:
    return await Link.connect(
        autocommit=True,
        prepare_threshold=None,  # the driver's names are the same in every process: see `wire.py`
        **await settings.world.offload(settings.connect_arguments),
    )
