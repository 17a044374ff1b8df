"""One connection for blocking callers: a request goes out whole, its replies come back in order."""

from __future__ import annotations

import select
import socket
from time import monotonic
from typing import Any

import hiredis

from stateward.engines.redis.client.server import DUE_SECONDS, Address, Server, check_greeting
from stateward.engines.redis.client.wire import MORE, Command, pack, parser
from stateward.engines.redis.failures import lost, unreachable
from stateward.engines.transport import keep_alive
from stateward.errors import StoreUnavailable

CHUNK = 65_536
POLLS = hasattr(select, "poll")


class Connection:
    """Lent to one caller at a time. One that was left amid a reply is never used again."""

    def __init__(self, server: Server, address: Address) -> None:
        self.broken = False
        self.busy = False  # replies are still to come
        self._server = server
        self._address = address
        self._socket: socket.socket | None = None
        self._idle: select.poll | None = None  # set: the socket itself never waits
        self._parser = parser()
        self._expected = 0
        self._deadline: float | None = None  # of the request under way
        self.due = False

    @property
    def due(self) -> bool:
        """True once it is time to check that the server is still a primary."""
        return monotonic() >= self._due_at

    @due.setter
    def due(self, _is: bool) -> None:
        self._due_at = monotonic() + min(self._server.timeout, DUE_SECONDS)

    def connect(self, deadline: float | None = None) -> None:
        """Connect and say who we are."""
        login = self._server.login() if self._server.login is not None else None
        greeting = self._server.greeting(login)
        replies: list[Any] = []
        try:
            self._socket = self._dial(deadline)
            if POLLS and self._server.tls is None:  # TLS has messages of its own
                self._idle = select.poll()
                self._idle.register(self._socket, select.POLLIN)
                self._socket.setblocking(False)
            self.send(pack(greeting), len(greeting), deadline)
            replies.extend(self._read() for _ in greeting)  # replies before an end count, too
            self.busy = False
            check_greeting(replies, greeting, self._address)
        except (OSError, hiredis.HiredisError, StoreUnavailable) as error:
            self.drop()
            check_greeting(replies, greeting, self._address)  # and it ended the connection
            raise unreachable(error, str(self._address)) from error
        except BaseException:
            self.drop()
            raise

    def _dial(self, deadline: float | None) -> socket.socket:
        host, port = self._address
        seconds = _until(deadline, self._server.connecting)
        if port:
            connection = socket.create_connection((host, port), seconds)
        else:
            connection = socket.socket(socket.AF_UNIX)
        try:
            if not port:
                connection.settimeout(seconds)
                connection.connect(host)
                return connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(connection)
            if self._server.tls is not None:
                return self._server.tls.wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return connection

    def is_stale(self) -> bool:
        """Return True if the server closed the idle connection, or sent something unasked."""
        return self._idle is not None and bool(self._idle.poll(0))

    def ask(self, *commands: Command) -> list[Any]:
        """The replies to a few commands, error replies among them."""
        return self.round_trip(pack(commands), len(commands))

    def round_trip(self, packed: bytes, replies: int, deadline: float | None = None) -> list[Any]:
        """Send a request, and wait for its replies."""
        self.send(packed, replies, deadline)
        return self.answer()

    def send(self, packed: bytes, replies: int, deadline: float | None = None) -> None:
        """Send a request that will get so many replies; waiting for them ends at `deadline`."""
        assert self._socket is not None, "connect() comes first"
        self._expected, self._deadline = replies, deadline
        self.busy = True
        try:
            sent = 0
            if self._idle is not None:
                try:
                    sent = self._socket.send(packed)
                except BlockingIOError:
                    pass
            if sent < len(packed):
                self._send_rest(packed[sent:])
        except BaseException as error:
            self.drop()
            if isinstance(error, OSError):
                raise lost(error, str(self._address)) from error
            raise

    def _send_rest(self, packed: bytes) -> None:
        """Send the rest of a request that the system took in part; all where there is no `poll`."""
        assert self._socket is not None
        self._socket.settimeout(_until(self._deadline, self._server.timeout))
        self._socket.sendall(packed)
        if self._idle is not None:
            self._socket.setblocking(False)

    def answer(self) -> list[Any]:
        """The replies to what was sent; an error reply is one of them."""
        whole = False
        try:
            self._receive()  # nothing can have come before
            gets, read = self._parser.gets, self._read
            replies = [
                read() if (reply := gets()) is MORE else reply for _ in range(self._expected)
            ]
            self.busy = False
            whole = not self._parser.has_data()  # otherwise it said something nobody asked for
            return replies
        except (OSError, hiredis.HiredisError) as error:
            raise lost(error, str(self._address)) from error
        finally:
            if not whole:
                self.drop()

    def _read(self) -> Any:
        """The next reply."""
        while (reply := self._parser.gets()) is MORE:
            self._receive_more()
        return reply

    def _receive_more(self) -> None:
        """Receive the next piece of a reply; no piece makes a caller wait beyond its deadline."""
        assert self._socket is not None
        if self._idle is None and self._deadline is not None:
            self._socket.settimeout(_until(self._deadline, self._server.timeout))
        self._receive()

    def _receive(self) -> None:
        """Receive what has arrived, by one poll and one call.

        A blocking socket would poll before sends, too, and need another call to set its timeout.
        """
        assert self._socket is not None
        idle = self._idle
        if idle and not idle.poll(_until(self._deadline, self._server.timeout) * 1000):
            raise TimeoutError("timed out")
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

    close = drop


def _until(deadline: float | None, seconds: float) -> float:
    """Return the seconds to wait: these, or fewer if the deadline is sooner."""
    return seconds if deadline is None else max(0.001, min(seconds, deadline - monotonic()))
