"""A small pool of connections.

A connection is lent for one round trip at a time. One that failed, or was left between a request
and its reply, is never lent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from stateward.engines.postgres.connection import Link, Query, connect
from stateward.engines.postgres.driver import LoopDriver, Slots
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows

ANSWER_SECONDS = 4.5  # a round trip takes less, or its connection is given up
SOON = 0.001  # seconds that even a round trip begun too late is given


class ConnectionLost(Exception):
    """The connection was lost after something was sent: what became of it is not known."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Pool:
    """At most `size` connections; made when needed, kept when they are well."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._free = Slots(size)
        self._idle: list[Link] = []

    async def run(self, queries: Sequence[Query], deadline: float | None = None) -> list[Rows]:
        """The rows of each query, in one round trip. All of them are one transaction.

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
            return await link.ask(queries)
        except psycopg.Error as error:
            if link is None or link.is_well():
                raise
            raise ConnectionLost(error) from error
        finally:
            self._take_back(link)

    def fast_run(self, query: Query, landed: Callable[[Rows, BaseException | None], None]) -> bool:
        """The same for one query, at once and without a task, if a connection is idle.

        `landed` is called when it has ended. No caller's cancellation reaches it.
        """
        if not (self._settings.wire and self._free.take()):
            return False
        link = self._pop()
        if link is None:
            self._free.release()
            return False

        def ended(rows: Rows, error: BaseException | None) -> None:
            if isinstance(error, psycopg.Error) and not link.is_well():
                error = ConnectionLost(error)
            self._take_back(link)
            landed(rows, error)

        assert link.wire is not None
        LoopDriver(link.wire.ask(*query), link.pgconn.socket, ANSWER_SECONDS, ended)
        return True

    def _take_back(self, link: Link | None) -> None:
        if link is not None:
            if link.is_well():
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
