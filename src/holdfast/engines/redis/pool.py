"""Connections to one server, each lent to one round trip at a time."""

from __future__ import annotations

from asyncio import LifoQueue, QueueEmpty  # async only

# sync only: from queue import Empty as QueueEmpty, LifoQueue
from holdfast.engines.redis.link import Link
from holdfast.engines.redis.server import Address, Server

MOST = 16  # connections to one server; whoever wants another one waits


class Pool:
    """Connections that are idle, the last used on top; below them the room for new ones."""

    def __init__(self, server: Server, address: Address) -> None:
        self._server = server
        self.address = address
        self._closed = False
        self._places: LifoQueue[Link | None] = LifoQueue()
        for _ in range(MOST):
            self._places.put_nowait(None)

    def idle(self) -> Link | None:
        """One that waits here, if there is any."""
        try:
            link = self._places.get_nowait()
        except QueueEmpty:
            return None
        if link is not None and not link.is_stale():
            return link
        if link is not None:
            link.drop()
        self._places.put_nowait(None)
        return None

    async def borrow(self) -> Link:
        """One that waits here, or a new one."""
        link = await self._places.get()
        if link is not None:
            if not link.is_stale():
                return link
            link.drop()
        try:
            link = Link(self._server, self.address)
            await link.connect()
        except BaseException:
            self._places.put_nowait(None)
            raise
        return link

    def give_back(self, link: Link) -> None:
        """Every one that was borrowed comes back, broken or not: its place can be used again."""
        if self._closed:
            link.drop()
        self._places.put_nowait(None if link.broken else link)

    def idle_links(self) -> list[Link]:
        """Those that wait here, for whoever wants to look at them."""
        # async only: begin
        waiting = self._places._queue  # type: ignore[attr-defined]
        return [link for link in waiting if link is not None]
        # async only: end
        # sync only: return [link for link in self._places.queue if link is not None]

    async def close(self) -> None:
        """End those that wait here, and each that is still lent when it comes back."""
        self._closed = True
        for link in self.idle_links():
            await link.close()
