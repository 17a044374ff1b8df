"""The audit's TCP proxy before a server of the tests, with the words that tests use."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

from stateward.audit.faults import link


class Proxy(link.Proxy):
    """Between a client and a server on this machine.

    `cut_replies` drops every connection as soon as the server answers on it, so that requests
    arrive and their replies do not; `freeze` lets nothing through and keeps connections open. With
    `tls` it speaks that to the client and plainly to the server.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__([("127.0.0.1", port)], tls)
        self._leads_to = 0

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def cuts(self) -> int:
        """Replies that were cut: a fault that did not happen proves nothing."""
        return self.unanswered

    @property
    def cut_replies(self) -> bool:
        raise AttributeError("can only be set")

    @cut_replies.setter
    def cut_replies(self, cutting: bool) -> None:
        self.lose_answers(1 if cutting else 0)

    def lead_to(self, port: int) -> None:
        """New connections go to another server, as those of a name do after a failover."""
        self._leads_to = port

    async def _connect(
        self,
        connection: link.ProxiedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if self._leads_to:
            connection.target = ("127.0.0.1", self._leads_to)
        await super()._connect(connection, reader, writer)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class TlsProxy(Proxy):
    """Answers a client's wish for TLS as a PostgreSQL server does, and is plain behind."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._context = context

    async def _connect(
        self,
        connection: link.ProxiedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        wish = await reader.readexactly(8)
        assert wish[4:] == (80877103).to_bytes(4, "big"), "a client that asks for no TLS"
        writer.write(b"S")
        await writer.start_tls(self._context)
        await super()._connect(connection, reader, writer)


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
