"""Connections to one server, each lent to one round trip at a time.

A signal handler may raise in a blocking caller at any moment. So no permit can be lost: the pool
counts the connections that exist, and a connection that nobody refers to any more is gone.
"""

from __future__ import annotations

import asyncio  # async only
import threading
from asyncio import Queue
from contextlib import suppress
from weakref import WeakSet

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.replica_wait import ReplicaWait
from stateward.engines.redis.client.server import ROLE, Address, Server, check_role
from stateward.engines.redis.client.wire import pack
from stateward.engines.redis.failures import Demoted
from stateward.errors import StoreUnavailable

# sync only: from queue import Empty, SimpleQueue
# sync only: from time import monotonic
# sync only: from stateward.engines.permits import LOOK_SECONDS
# sync only: from stateward.engines.redis.failures import unreachable

MOST = 16  # connections to one server; whoever wants another one waits
SILENT = 0.3  # seconds after which a connection that was idle for long is given up


class Pool:
    """Connections that are idle; new ones are made while there are fewer than `MOST`."""

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self.address = address
        self.replica_wait = ReplicaWait(server)
        self._closed = False
        self._idle: list[Connection] = []  # the last used on top
        self._made: WeakSet[Connection] = WeakSet()
        self._making = threading.Lock()
        self._waiting = 0
        self._freed: Queue[None] = Queue()  # async only
        # sync only: self._freed: SimpleQueue[None] = SimpleQueue()

    def idle(self) -> Connection | None:
        """An idle connection, if there is one that can be used as it is."""
        connection = self._top()
        if connection is None or not connection.due:
            return connection
        self._idle.append(connection)  # for `borrow`, which asks it
        return None

    def _top(self) -> Connection | None:
        """The connection that was used last, unless the server has ended it since."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        if not connection.is_stale():
            return connection
        self._end(connection)
        return None

    async def borrow(self, deadline: float | None = None) -> Connection:
        """An idle connection, or a new one.

        A caller that only reads does not hear that a primary was demoted. So a connection is asked
        from time to time: one to a replica ends, and the next one leads to the primary of now. One
        that says nothing was dropped on its way, as NAT does, and those as old with it.
        """
        while True:
            connection = self._top()
            if connection is not None:
                if not connection.due or await self._leads_to_primary(connection, deadline):
                    return connection
                continue
            connection = self._new()
            if connection is not None:
                break
            await self._wait(deadline)
        try:
            await connection.connect(deadline)
        except BaseException:
            self._end(connection)
            raise
        return connection

    async def _leads_to_primary(self, connection: Connection, deadline: float | None) -> bool:
        connection.due = False
        soon = self._server.world.monotonic() + SILENT
        if deadline is None or soon < deadline:
            deadline = soon
        try:
            async with asyncio.timeout(SILENT):  # async only
                replies = await connection.round_trip(pack([ROLE]), 1, deadline)  # async only
            # sync only: replies = connection.round_trip(pack([ROLE]), 1, deadline)
            check_role(replies, self._server, self.address)
        except BaseException as error:
            self._end(connection)
            is_silent = isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)
            if is_silent:
                self._end_old()
            elif not isinstance(error, StoreUnavailable):
                raise
            if isinstance(error, Demoted) and self._server.service:
                raise  # the sentinels know another one
            return False
        return True

    def _new(self) -> Connection | None:
        with self._making:
            if len(self._made) >= MOST:
                return None
            connection = Connection(self._server, self.address)
            self._made.add(connection)
            return connection

    async def _wait(self, deadline: float | None) -> None:
        """Return when a connection was given back or has ended, or sooner: the caller looks again.

        A blocking caller looks after a moment in any case: a giver may be kept from telling it.
        """
        # sync only: if deadline is not None and monotonic() >= deadline:
        # sync only:     late = TimeoutError("all its connections are in use")
        # sync only:     raise unreachable(late, str(self.address))
        self._waiting += 1
        try:
            await self._freed.get()  # async only
            # sync only: with suppress(Empty):
            # sync only:     self._freed.get(timeout=LOOK_SECONDS)
        finally:
            self._waiting -= 1

    def give_back(self, connection: Connection) -> None:
        """Take back every connection that was borrowed, broken or not.

        A connection with replies still to come would give them to another caller, and is ended.
        """
        if self._closed or connection.busy or connection.broken:
            self._end(connection)
            return
        self._idle.append(connection)
        if self._waiting > 0:
            self._freed.put_nowait(None)

    def _end(self, connection: Connection) -> None:
        self._made.discard(connection)
        connection.drop()
        if self._waiting > 0:
            self._freed.put_nowait(None)

    def _end_old(self) -> None:
        """End the idle connections that nothing has been heard of for long."""
        for connection in self.idle_connections():
            if connection.due:
                with suppress(ValueError):  # lent meanwhile
                    self._idle.remove(connection)
                    self._end(connection)

    def idle_connections(self) -> list[Connection]:
        """Return the idle connections."""
        return list(self._idle)

    def retire(self) -> None:
        """End the idle connections at once, and each that is still lent when it comes back."""
        self._closed = True
        for connection in self.idle_connections():
            self._end(connection)

    async def close(self) -> None:
        """Retire the pool, and wait until its idle connections have ended."""
        self.retire()
        for connection in self.idle_connections():
            await connection.close()
