"""A small pool of connections.

A connection is lent for one round trip at a time. One that failed, or was left between a request
and its reply, is never lent again; nor are its contemporaries if a server did not answer on it or
takes no writes any more. One that was idle is asked first whether it still works. A blocking caller
waits for a connection no longer than its call may take: see `dial.py`.
"""

from __future__ import annotations

import asyncio  # async only
from collections.abc import Callable, Sequence

import psycopg

from stateward.engines.own_tasks import OwnTasks  # async only
from stateward.engines.postgres.connection import Link, Query, connect
from stateward.engines.postgres.driver import LoopDriver, Slots
from stateward.engines.postgres.failures import (
    ConnectionLost,
    Unanswered,
    is_demoted,
    is_from_pooler,
)
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows

# sync only: from stateward.engines.permits import Permits
# sync only: from stateward.engines.postgres.dial import Dial
# sync only: from stateward.errors import StoreUnavailable
# sync only: from stateward.world import Errand

ANSWER_SECONDS = 4.5  # a round trip takes less, or its connection is given up
IDLE_SECONDS = 1.0  # after which a connection is asked first whether it still works
PING_SECONDS = 1.0  # for the answer to that
SOON = 0.001  # seconds that even a round trip begun too late is given


class Pool:
    """Pool of at most `size` connections, opened when needed and reused while they work."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._free = Slots(size)  # async only
        # sync only: self._free = Permits(size, settings.world.monotonic)
        # sync only: self._dial = Dial(self._connect, self._pop, settings.world.monotonic)
        self._idle: list[Link] = []
        self._letting_go = OwnTasks()  # async only
        # sync only: self._letting_go: set[Errand] = set()
        self._silent = 0.0  # when a connection was last used that did not answer any more
        self._closed = False

    async def run(self, queries: Sequence[Query], deadline: float | None = None) -> list[Rows]:
        """Return the rows of each query, in one round trip. All of them are one transaction.

        A connection that has not answered by the `deadline` is given up then, if not before.
        Raises the driver's error, or `ConnectionLost` if the server may have acted all the same.
        """
        await self._wait_for_slot()  # async only
        # sync only: borrower = object()
        link = None
        try:
            # sync only: if not self._free.take(borrower, deadline):
            # sync only:     raise Unanswered("all connections were in use")
            link = await self._idle_link(deadline)
            if link is None:
                link = await connect(self._settings)  # async only
                # sync only: link = self._dial.next(deadline)
            now = link.clock()
            link.answer_by = now + ANSWER_SECONDS
            if deadline is not None:
                link.answer_by = max(now + SOON, min(link.answer_by, deadline))
            return await link.ask(queries)
        except psycopg.Error as error:
            self._learn_from(error, link)
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
    async def _wait_for_slot(self) -> None:
        if self._free.take():
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise Unanswered("all connections were in use") from None

    def fast_run(self, query: Query, landed: Callable[[Rows, BaseException | None], None]) -> bool:
        """Run one query at once and without a task, if a connection is idle; say whether one was.

        `landed` is called when it has ended. No caller's cancellation reaches it.
        """
        if not (self._settings.wire and self._free.take()):
            return False
        link = self._pop()
        if link is not None and self._was_idle(link):
            self._idle.append(link)  # for `run`, which asks it
            link = None
        if link is None:
            self._free.release()
            return False

        def ended(rows: Rows, error: BaseException | None) -> None:
            if isinstance(error, psycopg.Error):
                self._learn_from(error, link)
                if not link.is_well():
                    error = ConnectionLost(error)
            self._take_back(link)
            landed(rows, error)

        assert link.wire is not None
        LoopDriver(link.wire.ask(*query), link.pgconn.socket, ANSWER_SECONDS, ended)
        return True

    # async only: end
    async def _idle_link(self, deadline: float | None) -> Link | None:
        """Return an idle connection that works; None if there is none.

        If one does not answer, its way has been cut silently, and the others' too: no other that is
        as old is tried.
        """
        link = self._pop()
        if link is None or not self._was_idle(link):
            return link
        seconds = PING_SECONDS
        if deadline is not None:
            seconds = max(SOON, min(seconds, deadline - link.clock()))
        try:
            answers = await link.ping(seconds)
        except BaseException:
            link.pgconn.finish()
            raise
        if answers:
            return link
        link.pgconn.finish()
        self._silent = max(self._silent, link.used)
        return None

    def _was_idle(self, link: Link) -> bool:
        return link.clock() - link.used > IDLE_SECONDS

    def _learn_from(self, error: psycopg.Error, link: Link | None) -> None:
        """Give up the connections that will not work any better."""
        settings = self._settings
        if is_from_pooler(error) and settings.adapts_now:
            settings.met.meet_pooler(settings.safe)
        elif is_demoted(error):
            settings.met.retire()
        elif isinstance(error, Unanswered) and link is not None:
            self._silent = max(self._silent, link.used)

    def _take_back(self, link: Link | None) -> None:
        if link is not None:
            if link.is_well() and not self._closed:
                link.used = link.clock()
                self._idle.append(link)
            elif link.is_asked() and not self._closed:
                return self._let_go(link)
            else:
                link.pgconn.finish()
        return self._free.release()

    def _is_of_use(self, link: Link) -> bool:
        return (
            link.is_well()
            and link.retired == self._settings.met.retired
            and link.used > self._silent
        )

    def _let_go(self, link: Link) -> None:
        """Give the permit of a connection back when the server does not work on it any more."""
        # async only: begin

        def ended(_: object) -> None:
            link.pgconn.finish()  # a task that is cancelled before its first step runs nothing
            self._free.release()

        going = self._letting_go.start(link.let_go(self._settings, lambda: not self._closed))
        going.add_done_callback(ended)
        # async only: end
        # sync only: borrower = object()

        # sync only: def let_go() -> None:
        # sync only:     try:
        # sync only:         link.let_go(self._settings, lambda: not self._closed)
        # sync only:     finally:
        # sync only:         self._end_letting_go(errand, borrower)

        # sync only: errand = Errand(let_go, "stateward-let-go")
        # sync only: try:
        # sync only:     self._letting_go.add(errand)
        # sync only:     self._free.lent.add(borrower)
        # sync only:     errand.wait(0)
        # sync only: except BaseException as error:
        # sync only:     link.pgconn.finish()
        # sync only:     self._end_letting_go(errand, borrower)
        # sync only:     if not isinstance(error, StoreUnavailable):  # no thread can be started
        # sync only:         raise

    # sync only: def _end_letting_go(self, errand: Errand, borrower: object) -> None:
    # sync only:     self._letting_go.discard(errand)
    # sync only:     self._free.lent.discard(borrower)
    # sync only:     self._free.release()

    def _pop(self) -> Link | None:
        """Return a connection that works, as far as the client can know that."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if self._is_of_use(link) and not link.news():
                return link
            link.pgconn.finish()  # ended by the server while idle, or retired
        return None

    # sync only: def _connect(self) -> None:
    # sync only:     self._idle.append(connect(self._settings))
    # sync only:     if self._closed:  # meanwhile: nobody else would close this one
    # sync only:         self.close()

    async def close(self) -> None:
        self._closed = True
        while (link := self._pop()) is not None:
            await link.close()
        await self._letting_go.cancel()  # async only
        # sync only: for errand in [*self._letting_go]:
        # sync only:     errand.wait(None)
