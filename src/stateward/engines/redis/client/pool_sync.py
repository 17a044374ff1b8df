"""Connections to one server for blocking callers: the twin of `pool.py`.

A signal handler may raise in any of them at any moment. So there is no permit that could be lost:
what counts are the connections that there are, and one that nobody knows of any more is gone.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic
from weakref import WeakSet

from stateward.engines.redis.client.connection_sync import Connection
from stateward.engines.redis.client.pool import MOST
from stateward.engines.redis.client.server import ROLE, Address, Server, check_role
from stateward.engines.redis.client.wire import pack
from stateward.engines.redis.failures import Demoted, unreachable
from stateward.errors import StoreUnavailable

LOOK_SECONDS = 0.01  # between two looks for one, in case a giver was kept from telling


class Pool:
    """Connections that are idle; new ones are made while there are fewer than `MOST`."""

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self.address = address
        self._closed = False
        self._idle: list[Connection] = []  # the last used on top
        self._made: WeakSet[Connection] = WeakSet()
        self._lock = threading.Lock()
        self._waiting = 0
        self._freed: SimpleQueue[None] = SimpleQueue()

    def idle(self) -> Connection | None:
        """One that waits here, if there is any."""
        connection = self._top()
        if connection is None or not connection.due:
            return connection
        self._idle.append(connection)  # for `borrow`, which asks it
        return None

    def _top(self) -> Connection | None:
        """The one that was used last, unless the server has ended it since."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        if not connection.is_stale():
            return connection
        self._end(connection)
        return None

    def borrow(self, deadline: float | None = None) -> Connection:
        """One that waits here, or a new one; see `pool.py` for what is asked of it."""
        while True:
            connection = self._top()
            if connection is not None:
                if not connection.due or self._leads_to_primary(connection, deadline):
                    return connection
                continue
            connection = self._new()
            if connection is not None:
                break
            self._wait(deadline)
        try:
            connection.connect(deadline)
        except BaseException:
            self._end(connection)
            raise
        return connection

    def _leads_to_primary(self, connection: Connection, deadline: float | None) -> bool:
        connection.due = False
        try:
            replies = connection.round_trip(pack([ROLE]), 1, deadline)
            check_role(replies, self._server, self.address)
        except StoreUnavailable as error:
            self._end(connection)
            if isinstance(error, Demoted) and self._server.service:
                raise  # the sentinels know another one
            return False
        return True

    def _new(self) -> Connection | None:
        with self._lock:
            if len(self._made) >= MOST:
                return None
            connection = Connection(self._server, self.address)
            self._made.add(connection)
            return connection

    def _wait(self, deadline: float | None) -> None:
        """Until one was given back, or for a moment: a giver may have been kept from telling."""
        if deadline is not None and monotonic() >= deadline:
            raise unreachable(TimeoutError("all its connections are in use"), str(self.address))
        self._waiting += 1
        try:
            self._freed.get(timeout=LOOK_SECONDS)
        except Empty:
            pass
        finally:
            self._waiting -= 1

    def give_back(self, connection: Connection) -> None:
        """Every one that was borrowed comes back, broken or not.

        One whose replies are still to come would give them to somebody else.
        """
        if self._closed or connection.busy or connection.broken:
            self._end(connection)
        else:
            self._idle.append(connection)
        if self._waiting > 0:
            self._freed.put(None)

    def _end(self, connection: Connection) -> None:
        self._made.discard(connection)
        connection.drop()

    def idle_connections(self) -> list[Connection]:
        """Those that wait here, for whoever wants to look at them."""
        return list(self._idle)

    def close(self) -> None:
        """End those that wait here at once, and each that is still lent when it comes back."""
        self._closed = True
        for connection in self.idle_connections():
            self._end(connection)

    retire = close
