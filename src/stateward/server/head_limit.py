"""Requests whose heads are neither endless nor take for ever, whoever sends them.

Bodies are limited by the service itself. The head of a request comes before anybody is asked for a
key, and uvicorn keeps what has come of it, however much and however long that takes.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65_536  # bytes
TOO_LARGE = b"431 Request Header Fields Too Large"
TOO_SLOW = b"408 Request Timeout"


class HeadLimit(HttpToolsProtocol):
    """One connection."""

    head_seconds = 30.0  # that the head of a request may take to arrive, also the first

    _in_head = True
    _size = 0  # of what has come of this head
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        super().data_received(data)
        if not self._in_head or not self._size:
            return
        if self._size > LARGEST_HEAD:
            self._refuse(TOO_LARGE)
        elif self._timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._forget()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._size = True, 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._refuse, TOO_SLOW)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes) -> None:
        self._forget()
        if not self.transport.is_closing():
            head = b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head)
            self.transport.close()
