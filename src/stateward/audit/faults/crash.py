"""A server that is killed and comes back: by the audit, if it has started it, or by a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from stateward.audit.servers.server import OwnServer

NOTICING = 1.0  # seconds for the end of a connection to be seen


class Killed:
    """SIGKILL to a server of the audit's own, and a start of the same."""

    label = "the server is killed and restarted"

    def __init__(self, server: OwnServer) -> None:
        self.fired = False
        self._server = server

    async def strike(self) -> None:
        """End the server and wait until it runs again; raises if it does not."""
        self._server.kill()
        self.fired = True
        await self._server.start()


class Restarted:
    """The user's own command, for a server that the audit has not started."""

    label = "the server is restarted by your command"

    def __init__(self, command: Callable[[], None], addresses: Sequence[tuple[str, int]]) -> None:
        self.fired = False
        self._command = command
        self._addresses = addresses

    async def strike(self) -> None:
        """Run the command and wait for its end; raises if it fails.

        A connection stays open all the while: if the server ended, the connection did too.
        """
        witnesses = [await asyncio.open_connection(*address) for address in self._addresses]
        try:
            await asyncio.to_thread(self._command)
            ended = [await _has_ended(reader) for reader, _ in witnesses]
            self.fired = self.fired or any(ended)
        finally:
            for _, writer in witnesses:
                writer.transport.abort()


async def _has_ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(NOTICING):
            return await reader.read(1) == b""
    except TimeoutError:
        return reader.at_eof()
    except OSError:
        return True
