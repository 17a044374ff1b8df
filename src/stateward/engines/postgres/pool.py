"""A small pool of connections.

A connection is lent for one round trip at a time. One that failed, or was left between a request
and its reply, is never lent again. A blocking caller waits for a connection no longer than its call
may take: see `dial.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from stateward.engines.postgres.connection import Link, Query, connect
from stateward.engines.postgres.driver import LoopDriver, Slots
from stateward.engines.postgres.failures import ConnectionLost
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows

# sync only: from stateward.engines.permits import Permits
# sync only: from stateward.engines.postgres.dial import Dial
# sync only: from stateward.engines.postgres.failures import Unanswered

ANSWER_SECONDS = 4.5  # a round trip takes less, or its connection is given up
SOON = 0.001  # seconds that even a round trip begun too late is given


class Pool:
    """Pool of at most `size` connections, opened when needed and reused while they work."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._free = Slots(size)  # async only
        # sync only: self._free = Permits(size, settings.world.monotonic)
        # sync only: self._dial = Dial(self._connect, self._pop, settings.world.monotonic)
        self._idle: list[Link] = []
        self._closed = False

    async def run(self, queries: Sequence[Query], deadline: float | None = None) -> list[Rows]:
        """Return the rows of each query, in one round trip. All of them are one transaction.

        A connection that has not answered by the `deadline` is given up then, if not before.
        Raises the driver's error, or `ConnectionLost` if the server may have acted all the same.
        """
        await self._free.acquire()  # async only
        # sync only: borrower = object()
        link = None
        try:
            link = self._pop() or await connect(self._settings)  # async only
            # sync only: if not self._free.take(borrower, deadline):
            # sync only:     raise Unanswered("all connections were in use")
            # sync only: link = self._pop() or self._dial.next(deadline)
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
            # sync only: self._free.lent.discard(borrower)
            try:
                self._take_back(link)
            except BaseException:
                if link is not None:
                    link.pgconn.finish()  # a caller that just took the connection tries again
                raise

    # async only: begin
    def fast_run(self, query: Query, landed: Callable[[Rows, BaseException | None], None]) -> bool:
        """Run one query at once and without a task, if a connection is idle; say whether one was.

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

    # async only: end
    def _take_back(self, link: Link | None) -> None:
        if link is not None:
            if link.is_well():
                self._idle.append(link)
            else:
                link.pgconn.finish()
        self._free.release()

    def _pop(self) -> Link | None:
        """Return a connection that works, as far as the client can know that."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not (link.closed or link.news()):
                return link
            link.pgconn.finish()  # ended by the server while nobody used it
        return None

    # sync only: def _connect(self) -> None:
    # sync only:     self._idle.append(connect(self._settings))
    # sync only:     if self._closed:  # meanwhile: nobody else would close this one
    # sync only:         self.close()

    async def close(self) -> None:
        self._closed = True
        while (link := self._pop()) is not None:
            await link.close()
