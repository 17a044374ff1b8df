"""A TCP proxy on a loopback port that can cut, freeze, refuse and delay what passes through it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """Between a client and a server on this machine.

    `cut_replies` drops every connection as soon as the server answers on it, so that requests
    arrive and their replies do not; `freeze` lets nothing through and keeps connections open. With
    `tls` it speaks that to the client and plainly to the server.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = port
        self._tls = tls
        self.port = 0
        self.cut_replies = False
        self.refusing = False
        self.delay = 0.0
        self.cuts = 0  # replies that were cut: a fault that did not happen proves nothing
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def cut(self) -> None:
        """End every connection there is."""
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass  # this very connection was cut
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, back, False))
                both.create_task(self._pass_on(there, writer, True))
        except* (ConnectionError, EOFError):
            pass
        finally:
            back.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool
    ) -> None:
        while data := await reader.read(65_536):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._thawed.wait()
            if replies and self.cut_replies:
                self.cuts += 1
                raise ConnectionResetError("cut between request and reply")
            writer.write(data)
            await writer.drain()
        raise EOFError


class TlsProxy(Proxy):
    """Answers a client's wish for TLS as a PostgreSQL server does, and is plain behind."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._context = context

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wish = await reader.readexactly(8)
        assert wish[4:] == (80877103).to_bytes(4, "big"), "a client that asks for no TLS"
        writer.write(b"S")
        await writer.start_tls(self._context)
        await super()._connect(reader, writer)


def server_tls() -> ssl.SSLContext:
    """TLS of a server that asks its clients for a certificate. Valid for a hundred years."""
    folder = Path(__file__).parent / "tls"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_tls() -> dict[str, str]:
    """Paths of the authority, and of a client's certificate and key."""
    folder = Path(__file__).parent / "tls"
    files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    return {name: str(folder / file) for name, file in files.items()}
