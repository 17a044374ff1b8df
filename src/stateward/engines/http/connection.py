"""One connection of an event loop: a request goes out whole, its answer is read whole."""

from __future__ import annotations

import asyncio
from typing import cast

from stateward.engines.http.answer import Answer, Garbled, Incoming
from stateward.engines.http.failures import lost, unreachable
from stateward.engines.http.settings import CONNECTING, Endpoint
from stateward.wire import Body


class Connection(asyncio.Protocol):
    """Lent to one exchange at a time. One that broke is never used again."""

    def __init__(self, service: Endpoint) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._incoming = Incoming()
        self._answer: asyncio.Future[Answer] | None = None

    async def connect(self, deadline: float) -> None:
        """Connect, and find out who we are to say we are."""
        service = self._service
        login = None if service.login is None else await service.world.offload(service.login)
        self._preamble = service.preamble(login)
        try:
            async with asyncio.timeout(min(CONNECTING, service.left(deadline))):
                await self._loop.create_connection(
                    lambda: self, service.host, service.port, ssl=service.tls
                )
        except (OSError, TimeoutError) as error:
            raise unreachable(error, service.name) from error

    def is_stale(self) -> bool:
        """Whether the service closed it while it was idle."""
        return self._ended.done()

    async def ask(self, what: str, body: Body, deadline: float) -> Answer:
        """One exchange; the connection ends if it fails."""
        assert self._transport is not None, "connect() comes first"
        self._incoming = Incoming()
        self._answer = self._loop.create_future()
        self._transport.write(self._service.request(what, self._preamble, body))
        try:
            async with asyncio.timeout(self._service.left(deadline)):
                return await self._answer
        except (OSError, TimeoutError, Garbled) as error:
            raise lost(error, self._service.name, begun=self._incoming.begun) from error

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not derived from it

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._incoming.take(data)
        except (Garbled, ConnectionError) as error:
            self._settle(error)
            return
        if answer is not None:
            self._settle(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._loop.is_closed() and not self._ended.done():
            self._ended.set_result(None)
        if self._answer is None or self._answer.done():
            return
        if error is None and self._incoming.begun:
            self.data_received(b"")
        else:
            self._settle(error or ConnectionError("end of the connection"))

    def _settle(self, what: Answer | Exception) -> None:
        if self._answer is None or self._answer.done():
            self.drop()  # it said something that nobody waits for
        elif isinstance(what, Answer):
            self._answer.set_result(what)
        else:
            self._answer.set_exception(what)

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
