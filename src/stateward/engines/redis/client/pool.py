"""Connections to one server, each lent to one round trip at a time."""

from __future__ import annotations

from asyncio import Queue, QueueEmpty  # async only

# sync only: from queue import Empty as QueueEmpty, SimpleQueue as Queue
from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.settings import Address, Server

MOST = 16  # connections to one server; whoever wants another one waits


class Pool:
    """Connections that are idle, and a leave for each that may be lent.

    Whoever has a leave takes an idle connection or makes one; a connection is put back before its
    leave is, so there are never more connections than leaves.
    """

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self.address = address
        self._closed = False
        self._idle: list[Connection] = []  # the last used on top
        self._leaves: Queue[None] = Queue()
        for _ in range(MOST):
            self._leaves.put_nowait(None)

    def idle(self) -> Connection | None:
        """One that waits here, if there is any."""
        try:
            self._leaves.get_nowait()
        except QueueEmpty:
            return None
        link = self._top()
        if link is None:
            self._leaves.put_nowait(None)
        return link

    async def borrow(self) -> Connection:
        """One that waits here, or a new one."""
        await self._leaves.get()
        link = self._top()
        if link is not None:
            return link
        try:
            link = Connection(self._server, self.address)
            await link.connect()
        except BaseException:
            self._leaves.put_nowait(None)
            raise
        return link

    def _top(self) -> Connection | None:
        """The one that was used last, unless the server has ended it since."""
        try:
            link = self._idle.pop()
        except IndexError:
            return None
        if not link.is_stale():
            return link
        link.drop()
        return None

    def give_back(self, link: Connection) -> None:
        """Every one that was borrowed comes back, broken or not: its leave can be used again."""
        if self._closed:
            link.drop()
        if not link.broken:
            self._idle.append(link)
        self._leaves.put_nowait(None)

    def idle_links(self) -> list[Connection]:
        """Those that wait here, for whoever wants to look at them."""
        return list(self._idle)

    async def close(self) -> None:
        """End those that wait here, and each that is still lent when it comes back."""
        self._closed = True
        for link in self.idle_links():
            await link.close()
