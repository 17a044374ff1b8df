"""The life of a connection on an event loop, whatever is said on it."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

# Seconds until an idle connection is probed, and between probes; and the probes until it is dead.
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


def keep_alive(connection: socket.socket) -> None:
    """Have the system probe an idle connection, so that no NAT or load balancer forgets it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Transported(asyncio.Protocol):
    """A connection of the event loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not derived from it
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            keep_alive(connection)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._loop.is_closed() and not self._ended.done():
            self._ended.set_result(None)

    def drop(self) -> None:
        """End it at once."""
        if self._transport is None:
            return
        try:
            self._transport.abort()
        except RuntimeError:  # its event loop was closed before the store was: nobody else will
            finish = getattr(self._transport, "_call_connection_lost", None)
            if finish is not None:
                self._transport = None
                finish(None)

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        self.drop()
        if self._transport is not None and not self._loop.is_closed():
            await self._ended
