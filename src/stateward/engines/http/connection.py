"""One connection of an event loop: a request goes out whole, its answer is read whole."""

from __future__ import annotations

import asyncio

from stateward.engines.http.answer import Answer, Garbled, Incoming
from stateward.engines.http.failures import lost, unreachable
from stateward.engines.http.settings import CONNECTING, Endpoint
from stateward.engines.lookup import connect_by_name
from stateward.engines.transport import Transported
from stateward.wire import Body


class Connection(Transported):
    """Lent to one exchange at a time. One that broke is never used again."""

    def __init__(self, service: Endpoint) -> None:
        super().__init__()
        self._service = service
        self.idle_since = 0.0
        self._incoming = Incoming()
        self._answer: asyncio.Future[Answer] | None = None

    async def connect(self, deadline: float) -> None:
        """Connect, and find out who we are to say we are."""
        service = self._service
        login = None if service.login is None else await service.world.offload(service.login)
        self._preamble = service.preamble(login)
        try:
            async with asyncio.timeout(min(CONNECTING, service.left(deadline))):
                where = service.host, service.port
                await connect_by_name(service.world, self, *where, service.tls)
        except (OSError, TimeoutError, RuntimeError) as error:  # or no thread to look up the name
            raise unreachable(error, service.name) from error

    def is_stale(self) -> bool:
        """Return True if the service closed the connection while it was idle."""
        return self._ended.done()

    async def ask(self, what: str, body: Body, deadline: float) -> Answer:
        """Send one request and return the answer; a failure ends the connection."""
        assert self._transport is not None, "connect() comes first"
        self._incoming = Incoming()
        self._answer = self._loop.create_future()
        self._transport.write(self._service.request(what, self._preamble, body))
        try:
            async with asyncio.timeout(self._service.left(deadline)):
                answer = await self._answer
        except (OSError, TimeoutError, Garbled) as error:
            raise lost(error, self._service.name, begun=self._incoming.begun) from error
        if self._transport.get_write_buffer_size():  # refused before it was read
            return answer._replace(last=True)
        return answer

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._incoming.take(data)
        except (Garbled, ConnectionError) as error:
            self._settle(error)
            return
        if answer is not None:
            self._settle(answer)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._answer is None or self._answer.done():
            return
        if error is None and self._incoming.begun:
            self.data_received(b"")
        else:
            self._settle(error or ConnectionError("end of the connection"))

    def _settle(self, result: Answer | Exception) -> None:
        if self._answer is None or self._answer.done():
            self.drop()  # the service sent something that no call waits for
        elif isinstance(result, Answer):
            self._answer.set_result(result)
        else:
            self._answer.set_exception(result)
