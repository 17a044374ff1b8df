"""Being woken when a log changes: the server's messages are hints, the logs themselves decide."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.client.wire import MORE, pack
from stateward.engines.redis.keys import head_key
from stateward.errors import StoreUnavailable
from stateward.ops import Entity

LISTENING = 1.0  # seconds between two looks while messages come: one may have been lost
POLLING = 0.05  # seconds between two looks while none can come
IDLE_CHANNELS = 512  # channels that nobody waits for, before they are given up

Moved = Callable[[Mapping[Entity, int]], Awaitable[bool]]


class Notifications:
    """One connection that receives notifications for all waiters of this event loop."""

    def __init__(
        self, server: Server, address: Callable[[], Awaitable[Address]], has_moved: Moved
    ) -> None:
        self._server = server
        self._address = address
        self._has_moved = has_moved
        self._world = server.world
        self._subscription: Subscription | None = None
        self._connecting: asyncio.Task[Subscription] | None = None
        self._waiting: dict[bytes, set[asyncio.Event]] = {}

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Wait until a log has left its cursor, or the time is up."""
        end = self._world.monotonic() + timeout
        channels = [head_key(entity).encode() for entity in cursors]
        woken = asyncio.Event()
        for channel in channels:
            self._waiting.setdefault(channel, set()).add(woken)
        try:
            while True:
                woken.clear()
                listening = await self._listen(channels)
                if await self._has_moved(cursors):
                    return
                left = end - self._world.monotonic()
                if left <= 0:
                    return
                await _either(woken, min(LISTENING if listening else POLLING, left))
        finally:
            for channel in channels:
                self._waiting[channel].discard(woken)
                if not self._waiting[channel]:
                    del self._waiting[channel]

    async def _listen(self, channels: Sequence[bytes]) -> bool:
        """Subscribe to these channels; return False if their messages will not arrive."""
        subscription = self._subscription
        try:
            if subscription is None or subscription.broken:
                subscription = await self._connected()
            if len(subscription.channels) > IDLE_CHANNELS + len(self._waiting):
                subscription.forget([c for c in subscription.channels if c not in self._waiting])
            await subscription.listen_to(channels)
        except (StoreUnavailable, TimeoutError):
            return False
        return True

    async def _connected(self) -> Subscription:
        """Connect in an attempt that all waiters share and none of them owns."""
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Subscription:
        try:
            subscription = Subscription(self._server, await self._address(), self._wake)
            await subscription.connect()
            self._subscription = subscription
            return subscription
        finally:
            self._connecting = None

    def _wake(self, channel: bytes | None) -> None:
        """Wake the waiters of this channel; None: all of them, because messages may be lost."""
        for name in [channel] if channel is not None else list(self._waiting):
            for woken in self._waiting.get(name, ()):
                woken.set()

    async def close(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None and connecting.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([connecting])
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()


class Subscription(Connection):
    """A connection on which the server speaks when it likes."""

    def __init__(
        self, server: Server, address: Address, heard: Callable[[bytes | None], None]
    ) -> None:
        super().__init__(server, address)
        self.channels: dict[bytes, asyncio.Future[None]] = {}
        self._heard = heard

    async def listen_to(self, channels: Sequence[bytes]) -> None:
        """Subscribe, and return when the server has confirmed each channel."""
        new = [channel for channel in channels if channel not in self.channels]
        if new:
            assert self._transport is not None
            for channel in new:
                self.channels[channel] = self._loop.create_future()
            self._transport.write(pack([(b"SUBSCRIBE", *new)]))
        async with asyncio.timeout(self._server.timeout):
            for channel in channels:
                await asyncio.shield(self.channels[channel])

    def forget(self, channels: Sequence[bytes]) -> None:
        assert self._transport is not None
        for channel in channels:
            del self.channels[channel]
        self._transport.write(pack([(b"UNSUBSCRIBE", *channels)]))

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:  # still saying who we are
            super().data_received(data)
            return
        self._parser.feed(data)
        while (reply := self._parser.gets()) is not MORE:
            if type(reply) is not list:  # e.g. the access rules forbid to listen
                self._fail(ConnectionError(str(reply)))
                return
            kind, channel = reply[0], reply[1]
            if kind == b"message":
                self._heard(channel)
            elif kind == b"subscribe" and channel in self.channels:
                confirmed = self.channels[channel]
                if not confirmed.done():
                    confirmed.set_result(None)

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        for confirmed in self.channels.values():
            if not confirmed.done():
                confirmed.set_exception(StoreUnavailable(f"nothing can be heard: {error}"))
                confirmed.exception()  # perhaps nobody waits for it any more
        self._heard(None)


async def _either(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        pass
