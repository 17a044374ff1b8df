"""One connection for blocking callers: a request goes out whole, its answer is read whole."""

from __future__ import annotations

import select
import socket

from stateward.engines.http.answer import Answer, Garbled, Incoming
from stateward.engines.http.failures import lost, unreachable
from stateward.engines.http.settings import CONNECTING, Endpoint, keep_alive
from stateward.wire import Body

CHUNK = 65_536


class Connection:
    """Lent to one exchange at a time. One that broke is never used again."""

    def __init__(self, service: Endpoint) -> None:
        self._service = service
        self.idle_since = 0.0
        self._socket: socket.socket | None = None

    def connect(self, deadline: float) -> None:
        """Connect, and find out who we are to say we are."""
        service = self._service
        self._preamble = service.preamble(None if service.login is None else service.login())
        seconds = max(0.001, min(CONNECTING, service.left(deadline)))
        try:
            made = self._socket = socket.create_connection((service.host, service.port), seconds)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(made)
            if service.tls is not None:
                self._socket = service.tls.wrap_socket(made, server_hostname=service.host)
        except OSError as error:
            self.drop()
            raise unreachable(error, service.name) from error

    def is_stale(self) -> bool:
        """Return True if the service closed the idle connection, or sent something unasked."""
        return self._socket is None or bool(select.select([self._socket], [], [], 0)[0])

    def ask(self, what: str, body: Body, deadline: float) -> Answer:
        """Send one request and return the answer; a failure ends the connection."""
        assert self._socket is not None, "connect() comes first"
        incoming = Incoming()
        answer = None
        try:
            self._socket.settimeout(max(0.001, self._service.left(deadline)))
            unread = self._send(self._service.request(what, self._preamble, body))
            while answer is None:
                self._socket.settimeout(max(0.001, self._service.left(deadline)))
                data = self._socket.recv(CHUNK)
                if not data and not incoming.begun:
                    raise ConnectionError("end of the connection")
                answer = incoming.take(data)
            return answer._replace(last=True) if unread else answer
        except (OSError, Garbled) as error:
            raise lost(error, self._service.name, begun=incoming.begun) from error

    def _send(self, request: bytes) -> bool:
        """Send a request; return whether the other side ended the connection meanwhile.

        A proxy does that with a request that is too large; its answer can be read nevertheless.
        """
        assert self._socket is not None
        try:
            self._socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    def drop(self) -> None:
        """End it, also for a thread that waits for its answer."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other side was faster
                pass
            self._socket.close()

    close = drop
