"""One connection for blocking callers: a request goes out whole, its replies come back in order."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import hiredis

from stateward.engines.redis.client.wire import MORE, pack, parser
from stateward.engines.redis.commit import Command
from stateward.engines.redis.failures import lost, refused, unreachable
from stateward.engines.redis.settings import Address, Server
from stateward.errors import StoreUnavailable

CHUNK = 65_536
POLLS = hasattr(select, "poll")


class _Told(threading.local):
    deadline: float | None = None


_told = _Told()


@contextmanager
def until(deadline: float | None) -> Iterator[None]:
    """This thread's round trips are of use until then, by the monotonic clock."""
    _told.deadline = deadline
    try:
        yield
    finally:
        _told.deadline = None


def at_most(seconds: float) -> float:
    """So many seconds, or fewer if the caller cannot wait as long."""
    deadline = _told.deadline
    return seconds if deadline is None else max(0.001, min(seconds, deadline - monotonic()))


class Connection:
    """Lent to one caller at a time. One that was left amid a reply is never used again."""

    def __init__(self, server: Server, address: Address) -> None:
        self.broken = False
        self._server = server
        self._address = address
        self._socket: socket.socket | None = None
        self._idle: select.poll | None = None
        self._parser = parser()
        self._expected = 0

    def connect(self) -> None:
        """Connect and say who we are."""
        login = self._server.login() if self._server.login is not None else None
        try:
            self._socket = self._dial()
            if POLLS and self._server.tls is None:  # TLS has messages of its own
                self._idle = select.poll()
                self._idle.register(self._socket, select.POLLIN)
            replies = self.trip(self._server.greeting(login))
        except (OSError, StoreUnavailable) as error:
            self.drop()
            raise unreachable(error, str(self._address)) from error
        except BaseException:
            self.drop()
            raise
        for reply in replies:
            if isinstance(reply, hiredis.ReplyError):
                self.drop()
                raise refused(reply, str(self._address)) from reply

    def _dial(self) -> socket.socket:
        host, port = self._address
        if not port:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(at_most(self._server.connecting))
                connection.connect(host)
            except BaseException:
                connection.close()
                raise
            return connection
        connection = socket.create_connection((host, port), at_most(self._server.connecting))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._server.tls is not None:
                return self._server.tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return connection

    def is_stale(self) -> bool:
        """Whether the server closed it, or sent what nobody asked for, while it was idle."""
        return self._idle is not None and bool(self._idle.poll(0))

    def send(self, commands: Sequence[Command]) -> None:
        """Hand commands over; `answer` waits for their replies."""
        self.hand_over(pack(commands), len(commands))

    def hand_over(self, packed: bytes, replies: int) -> None:
        """Send a request that will get so many replies."""
        assert self._socket is not None, "connect() comes first"
        self._expected = replies
        try:
            self._socket.settimeout(at_most(self._server.timeout))
            self._socket.sendall(packed)
        except BaseException as error:
            self.drop()
            if isinstance(error, OSError):
                raise lost(error, str(self._address)) from error
            raise

    def answer(self) -> list[Any]:
        """The replies to what was sent; an error reply is one of them."""
        whole = False
        try:
            self._receive()  # nothing can have come before
            replies = [self._read() for _ in range(self._expected)]
            whole = not self._parser.has_data()  # otherwise it said something nobody asked for
            return replies
        except (OSError, hiredis.HiredisError) as error:
            raise lost(error, str(self._address)) from error
        finally:
            if not whole:
                self.drop()

    def trip(self, commands: Sequence[Command]) -> list[Any]:
        """Send, and wait for the replies."""
        self.send(commands)
        return self.answer()

    def _read(self) -> Any:
        """The next reply."""
        while (reply := self._parser.gets()) is MORE:
            self._receive()
        return reply

    def _receive(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(CHUNK)
        if not data:
            raise ConnectionError("end of the connection")
        self._parser.feed(data)

    def drop(self) -> None:
        """End it."""
        self.broken = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        """End it."""
        self.drop()
