"""A reverse proxy for HTTP before the service, with a rule that says which requests it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self


class Refusal(NamedTuple):
    """An answer of the proxy's own."""

    status: int
    body: bytes = b""
    kind: str = "text/html"
    is_early: bool = False  # answered, and the connection ended, before the body is read


class Gateway:
    """Passes requests on and answers back, unless `rule` of a request's size and body objects."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self.rule: Callable[[int, bytes], Refusal | None] = lambda size, body: None
        self.refused = 0
        self.ignored = 0  # requests
        self._forgotten = self._connections = 0
        self._serving: set[asyncio.Task[None] | None] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._serving:
            assert task is not None
            task.cancel()
        if self._serving:
            await asyncio.wait([task for task in self._serving if task is not None])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        self._connections += 1
        number = self._connections
        answers, behind = await asyncio.open_connection("127.0.0.1", self._behind)
        copying = asyncio.create_task(self._copy(answers, writer))
        try:
            await self._pass_on(reader, writer, behind, number)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            copying.cancel()
            behind.close()
            writer.close()
            await asyncio.wait([copying])
            self._serving.discard(asyncio.current_task())

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        behind: asyncio.StreamWriter,
        number: int,
    ) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if number <= self._forgotten:
                self.ignored += 1
                await reader.read()  # without an answer, until the client gives up
                return
            lines = head.lower().split(b"\r\n")
            size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            refusal = self.rule(size, b"")
            if refusal is not None and refusal.is_early:
                self._answer(writer, refusal)
                await writer.drain()
                return
            body = await reader.readexactly(size)
            refusal = refusal or self.rule(size, body)
            if refusal is None:
                behind.write(head + body)
            else:
                self._answer(writer, refusal)

    def forget(self) -> None:
        """Forget all connections without a word, as a firewall does with idle ones."""
        self._forgotten = self._connections

    def _answer(self, writer: asyncio.StreamWriter, refusal: Refusal) -> None:
        self.refused += 1
        head = f"HTTP/1.1 {refusal.status} Refused\r\ncontent-type: {refusal.kind}\r\n"
        writer.write(f"{head}content-length: {len(refusal.body)}\r\n\r\n".encode() + refusal.body)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
