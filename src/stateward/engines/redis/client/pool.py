"""Connections to one server, each lent to one round trip at a time."""

from __future__ import annotations

from asyncio import Queue, QueueEmpty

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.server import ROLE, Address, Server, check_role
from stateward.engines.redis.failures import Demoted
from stateward.errors import StoreUnavailable

MOST = 16  # connections to one server; whoever wants another one waits


class Pool:
    """Connections that are idle, and a permit for each that may be lent.

    Whoever has a permit takes an idle connection or makes one; a connection is put back before its
    permit is, so there are never more connections than permits.
    """

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self.address = address
        self._closed = False
        self._idle: list[Connection] = []  # the last used on top
        self._permits: Queue[None] = Queue()
        for _ in range(MOST):
            self._permits.put_nowait(None)

    def idle(self) -> Connection | None:
        """One that waits here, if there is any."""
        try:
            self._permits.get_nowait()
        except QueueEmpty:
            return None
        connection = self._top()
        if connection is None or connection.due:
            if connection is not None:
                self._idle.append(connection)  # for `borrow`, which asks it
            self._permits.put_nowait(None)
            return None
        return connection

    async def borrow(self, deadline: float | None = None) -> Connection:
        """One that waits here, or a new one.

        Who only reads is not told when a primary is demoted. So a connection is asked from time to
        time: one to a replica ends, and the next one leads to where the primary is now.
        """
        await self._permits.get()
        connection = self._top()
        try:
            if connection is not None and (
                not connection.due or await self._leads_to_primary(connection)
            ):
                return connection
            connection = Connection(self._server, self.address)
            await connection.connect(deadline)
        except BaseException:
            self._permits.put_nowait(None)
            raise
        return connection

    async def _leads_to_primary(self, connection: Connection) -> bool:
        connection.due = False
        try:
            check_role(await connection.ask(ROLE), self._server, self.address)
        except StoreUnavailable as error:
            connection.drop()
            if isinstance(error, Demoted) and self._server.service:
                raise  # the sentinels know another one
            return False
        return True

    def _top(self) -> Connection | None:
        """The one that was used last, unless the server has ended it since."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        if not connection.is_stale():
            return connection
        connection.drop()
        return None

    def give_back(self, connection: Connection) -> None:
        """Every one that was borrowed comes back, broken or not: its permit can be used again.

        One whose replies are still to come would give them to somebody else.
        """
        if self._closed or connection.busy:
            connection.drop()
        if not connection.broken:
            self._idle.append(connection)
        self._permits.put_nowait(None)

    def idle_connections(self) -> list[Connection]:
        """Those that wait here, for whoever wants to look at them."""
        return list(self._idle)

    def retire(self) -> None:
        """End those that wait here at once, and each that is still lent when it comes back."""
        self._closed = True
        for connection in self.idle_connections():
            connection.drop()

    async def close(self) -> None:
        """The same, and wait until those that wait here have ended."""
        self._closed = True
        for connection in self.idle_connections():
            await connection.close()
