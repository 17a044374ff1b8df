"""One connection of an event loop: a request goes out whole, its replies come back in order.

The replies belong to the connection, not to the caller that waits for them: a cancelled caller
leaves nothing unread behind, because the connection continues to read.
"""

from __future__ import annotations

import asyncio
from typing import Any

import hiredis

from stateward.engines.lookup import connect_by_name
from stateward.engines.redis.client.server import DUE_SECONDS, Address, Server, check_greeting
from stateward.engines.redis.client.wire import MORE, Command, pack, parser
from stateward.engines.redis.failures import lost, unreachable
from stateward.engines.transport import Transported
from stateward.errors import StoreUnavailable


class Connection(Transported):
    """Lent to one round trip at a time. One that broke is never used again."""

    def __init__(self, server: Server, address: Address) -> None:
        super().__init__()
        self.broken = False
        self.busy = False  # replies are still to come
        self.due = False  # to be asked whether the server is a primary still
        self._server = server
        self._address = address
        self._parser = parser()
        self._replies: list[Any] = []
        self._expected = 0
        self._sent: asyncio.Future[list[Any]] | None = None
        self._answer: asyncio.Future[list[Any]] | None = None  # the same, until it is answered
        self._unheard: asyncio.Future[list[Any]] | None = None  # its caller was just cancelled
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self, _deadline: float | None = None) -> None:
        """Connect and say who we are."""
        server = self._server
        login = await server.world.offload(server.login) if server.login is not None else None
        greeting = server.greeting(login)
        try:
            async with asyncio.timeout(server.connecting):
                await self._dial()
                check_greeting(await self.ask(*greeting), greeting, self._address)
        except (OSError, TimeoutError, StoreUnavailable) as error:
            self.drop()
            check_greeting(self._replies, greeting, self._address)  # and it ended the connection
            raise unreachable(error, str(self._address)) from error
        except BaseException:
            self.drop()
            raise

    async def _dial(self) -> None:
        host, port = self._address
        if port:
            await connect_by_name(self._server.world, self, host, port, self._server.tls)
        else:
            await self._loop.create_unix_connection(lambda: self, host)

    def is_stale(self) -> bool:
        """Return True if the connection has ended, which the event loop reports at once."""
        return self.broken

    def ask(self, *commands: Command) -> asyncio.Future[list[Any]]:
        """Send a few commands; the future gets their replies, error replies among them."""
        return self.send(pack(commands), len(commands))

    def send(
        self, packed: bytes, replies: int, _deadline: float | None = None
    ) -> asyncio.Future[list[Any]]:
        """Send a request that will get so many replies.

        A cancelled caller cancels the future as well: see `taken_over`.
        The deadline is not used here: a caller has a timer of its own.
        """
        assert self._answer is None, "one round trip at a time"
        answer = self._sent = self._loop.create_future()
        if self.broken or self._transport is None:
            answer.set_exception(lost(ConnectionError("it is closed"), str(self._address), "no"))
            return answer
        self._answer = answer
        self.busy = True
        self._expected = replies
        self._replies = []
        self._deadline = self._loop.time() + self._server.timeout
        if self._timer is None:
            soon = min(self._deadline, self._loop.time() + DUE_SECONDS)
            self._timer = self._loop.call_at(soon, self._check_deadline)
        self._transport.write(packed)
        return answer

    round_trip = send  # the same here: callers await the future

    def answer(self) -> asyncio.Future[list[Any]]:
        """The replies to what was sent; an error reply is one of them."""
        assert self._sent is not None, "send() comes first"
        return self._sent

    def taken_over(self) -> asyncio.Future[list[Any]]:
        """Return the replies, or raise the failure, for a caller that was cancelled."""
        answer = self.answer()
        if not answer.cancelled():
            return answer
        if self._answer is answer:  # still to come
            self._answer = self._sent = self._loop.create_future()
            return self._answer
        assert self._unheard is not None, "the future was answered by this connection"
        return self._unheard

    def _check_deadline(self) -> None:
        """Check the deadline. One timer serves many round trips: only its end moves it."""
        self._timer = None
        self.due = True
        if self._answer is None:
            return
        if self._loop.time() >= self._deadline:
            self._fail(TimeoutError(f"no answer within {self._server.timeout:g} s"))
        else:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    # --- called by the event loop ---------------------------------------------------

    def data_received(self, data: bytes) -> None:
        gets = self._parser.gets
        try:
            self._parser.feed(data)
            while (reply := gets()) is not MORE:
                self._replies.append(reply)
        except hiredis.HiredisError as error:
            self._fail(error)
            return
        if len(self._replies) < self._expected:
            return
        answer, self._answer = self._answer, None
        self.busy = False
        if answer is None or len(self._replies) > self._expected:
            self.drop()  # the server sent something unasked
        if answer is not None:
            self._heard_by(answer).set_result(self._replies[: self._expected])

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("end of the connection"))
        super().connection_lost(error)

    def _fail(self, error: BaseException) -> None:
        answer, self._answer = self._answer, None
        self.drop()
        if answer is not None:
            failure = lost(error, str(self._address))
            failure.__cause__ = error
            heard_by = self._heard_by(answer)
            heard_by.set_exception(failure)
            if heard_by is not answer:
                heard_by.exception()  # perhaps nobody takes it over

    def _heard_by(self, answer: asyncio.Future[list[Any]]) -> asyncio.Future[list[Any]]:
        """Return the future, or another one if its caller was cancelled a moment ago."""
        if not answer.done():
            return answer
        self._unheard = self._loop.create_future()
        return self._unheard

    def drop(self) -> None:
        """End it at once."""
        self.broken = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().drop()
