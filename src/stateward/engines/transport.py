"""The life of a connection on an event loop, whatever is said on it."""

from __future__ import annotations

import asyncio
from typing import cast


class Transported(asyncio.Protocol):
    """A connection of the event loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not derived from it

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
