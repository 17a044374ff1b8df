"""Connections to one server for blocking callers: the twin of `pool.py`.

A signal handler may raise in any of them at any moment. So there is no permit that could be lost:
what counts are the connections that there are, and one that nobody knows of any more is gone.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from time import monotonic
from weakref import WeakSet

from stateward.engines.permits import LOOK_SECONDS
from stateward.engines.redis.client.connection_sync import Connection
from stateward.engines.redis.client.pool import MOST
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.failures import unreachable


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
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        if not connection.is_stale():
            return connection
        self._end(connection)
        return None

    def borrow(self, deadline: float | None = None) -> Connection:
        """One that waits here, or a new one."""
        while True:
            connection = self.idle()
            if connection is not None:
                return connection
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
