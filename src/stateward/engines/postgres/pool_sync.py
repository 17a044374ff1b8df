"""The blocking twin of `pool.py`: nobody waits for a connection longer than its call may take.

A connection is made on a thread of its own, one at a time, for whoever comes first when it is
there. So it is made also where that takes longer than a call may, and no name that is not resolved
and no server that takes connections and says nothing keeps a caller.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from stateward.engines.permits import Permits
from stateward.engines.postgres.connection import Query
from stateward.engines.postgres.failures import Unanswered
from stateward.engines.postgres.pool import ANSWER_SECONDS, SOON, ConnectionLost
from stateward.engines.postgres.settings import Settings
from stateward.engines.postgres.wire import Rows
from stateward.world import Errand

if TYPE_CHECKING:
    from stateward.sync.engines.postgres.connection import Link

__all__ = ["ConnectionLost", "Pool"]


class Pool:
    """At most `size` connections; made when needed, kept when they are well."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings = settings
        self._clock = settings.world.monotonic
        self._free = Permits(size, self._clock)
        self._idle: list[Link] = []
        self._dialing = threading.Lock()
        self._dial: Errand | None = None  # the last connection that was begun
        self._closed = False

    def run(self, queries: Sequence[Query], deadline: float | None = None) -> list[Rows]:
        """The rows of each query, in one round trip. All of them are one transaction.

        A connection that has not answered by the `deadline` is given up then, if not before.
        Raises the driver's error, or `ConnectionLost` if the server may have acted all the same.
        """
        borrower = object()
        link = None
        try:
            if not self._free.take(borrower, deadline):
                raise Unanswered("all connections were in use")
            link = self._pop() or self._new(deadline)
            now = link.clock()
            link.answer_by = now + ANSWER_SECONDS
            if deadline is not None:
                link.answer_by = max(now + SOON, min(link.answer_by, deadline))
            return link.ask(queries)
        except psycopg.Error as error:
            if link is None or link.is_well():
                raise
            raise ConnectionLost(error) from error
        finally:
            self._free.lent.discard(borrower)
            try:
                self._take_back(link)
            except BaseException:
                if link is not None:
                    link.pgconn.finish()  # who has it by now, if anybody, asks again
                raise

    def _take_back(self, link: Link | None) -> None:
        if link is not None:
            if link.is_well():
                self._idle.append(link)
            else:
                link.pgconn.finish()
        self._free.tell()

    def _pop(self) -> Link | None:
        """One that is well, as far as can be told without asking the server."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not (link.closed or link.news()):
                return link
            link.pgconn.finish()  # ended by the server while nobody used it
        return None

    def _new(self, deadline: float | None) -> Link:
        """The next that is made, for one who has a permit. So there are never too many."""
        while True:
            with self._dialing:
                dial = self._dial
                over = dial is None or dial.ended  # seen before looking for what it has made
                link = self._pop()
                if link is not None:
                    return link
                if dial is None or over:
                    dial = Errand(partial(copy_context().run, self._connect), "stateward-connect")
                    self._dial = dial
            if not dial.wait(None if deadline is None else max(0.0, deadline - self._clock())):
                raise Unanswered("no connection in time")
            if dial.error is not None:
                raise dial.error

    def _connect(self) -> None:
        from stateward.sync.engines.postgres.connection import connect

        self._idle.append(connect(self._settings))
        if self._closed:  # meanwhile: nobody else would close this one
            self.close()

    def close(self) -> None:
        self._closed = True
        while (link := self._pop()) is not None:
            link.close()
