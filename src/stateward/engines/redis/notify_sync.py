"""The blocking twin of `notify.py`: each thread that waits listens on a connection of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import hiredis

from stateward.engines.redis.client.connection_sync import Connection
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.client.wire import MORE, pack
from stateward.engines.redis.keys import head_key
from stateward.engines.redis.notify import LISTENING, POLLING
from stateward.errors import StoreUnavailable
from stateward.ops import Entity

Moved = Callable[[Mapping[Entity, int]], bool]


class Notifications:
    """Connections that listen; unused ones are reused later."""

    def __init__(self, server: Server, address: Callable[[], Address], has_moved: Moved) -> None:
        self._server = server
        self._address = address
        self._has_moved = has_moved
        self._world = server.world
        self._idle: deque[Subscription] = deque()  # append and pop are atomic

    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Wait until a log has left its cursor, or the time is up."""
        end = self._world.monotonic() + timeout
        channels = [head_key(entity).encode() for entity in cursors]
        subscription: Subscription | None = None
        try:
            while True:
                subscription = subscription or self._listen(channels)
                if self._has_moved(cursors):
                    return
                seconds = end - self._world.monotonic()
                if seconds <= 0:
                    return
                if subscription is None:
                    self._world.block(min(POLLING, seconds))
                else:
                    subscription.hear(min(LISTENING, seconds))
                    subscription = None if subscription.broken else subscription
        finally:
            if subscription is not None:
                subscription.hush(channels)
                if not subscription.broken:
                    self._idle.append(subscription)

    def _listen(self, channels: Sequence[bytes]) -> Subscription | None:
        """Return a connection that receives messages of these channels; None without one."""
        try:
            while self._idle:
                try:
                    subscription = self._idle.pop()
                except IndexError:
                    break  # another thread was faster
                if not subscription.is_stale():
                    subscription.listen_to(channels)
                    return subscription
                subscription.drop()
            subscription = Subscription(self._server, self._address())
            subscription.listen_to(channels)
        except StoreUnavailable:
            return None
        return subscription

    def close(self) -> None:
        while self._idle:
            self._idle.pop().drop()


class Subscription(Connection):
    """A connection on which the server speaks when it likes."""

    def is_stale(self) -> bool:
        return self._socket is not None and super().is_stale()

    def listen_to(self, channels: Sequence[bytes]) -> None:
        """Subscribe, and return when the server has confirmed each channel."""
        if self._socket is None:
            self.connect()
        self._change(b"SUBSCRIBE", channels)

    def hush(self, channels: Sequence[bytes]) -> None:
        """Undo `listen_to`, or break the connection."""
        try:
            self._change(b"UNSUBSCRIBE", channels)
        except StoreUnavailable:
            self.drop()

    def hear(self, seconds: float) -> None:
        """Wait until the server sends anything, or the time is up."""
        assert self._socket is not None
        try:
            self._socket.settimeout(max(seconds, 0.001))
            while self._parser.gets() is MORE:
                data = self._socket.recv(65_536)
                if not data:
                    self.drop()
                    return
                self._parser.feed(data)
        except TimeoutError:
            return
        except (OSError, hiredis.HiredisError):
            self.drop()

    def _change(self, word: bytes, channels: Sequence[bytes]) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(self._server.timeout)
            self._socket.sendall(pack([(word, *channels)]))
            confirmed = 0
            while confirmed < len(channels):
                reply = self._read()
                if type(reply) is not list:  # e.g. the access rules forbid to listen
                    raise ConnectionError(str(reply))
                confirmed += reply[0] == word.lower()
        except (OSError, hiredis.HiredisError) as error:
            self.drop()
            raise StoreUnavailable(f"nothing can be heard: {error}") from error
