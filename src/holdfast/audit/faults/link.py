"""The way to a server, through a proxy that can cut, freeze, slow and refuse it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

PORTS = {"redis": 6379, "postgres": 5432, "postgresql": 5432}
Kind = Literal["cut", "freeze", "slow", "refuse"]
LABELS: dict[Kind, str] = {
    "cut": "the link is cut again and again",
    "freeze": "the link is frozen",
    "slow": "the link is slow (300 ms)",
    "refuse": "connections are refused",
}
SLOW = 0.3
CUTS = 0.2  # seconds between two cuts


def address(url: str) -> tuple[str, int] | None:
    """Where one server listens; None if it is not one server, or not reached by plain TCP."""
    scheme, _, rest = url.partition("://")
    if scheme not in PORTS or "," in rest.partition("/")[0]:
        return None
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or PORTS[scheme]


def through(url: str, port: int) -> str:
    """The same URL, by way of a port of this machine."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{port}"))


class Proxy:
    """Between the replicas and a server."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.port = 0
        self.refusing = False
        self.delay = 0.0
        self.touched = 0  # connections or pieces that a fault has met: none proves nothing
        self._frozen = False
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.thaw()
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def freeze(self) -> None:
        self._frozen = True
        self._thawed.clear()

    def thaw(self) -> None:
        self._frozen = False
        self._thawed.set()

    def cut(self) -> None:
        for task in self._tasks:
            self.touched += 1
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            self.touched += 1
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
        there, back = await asyncio.open_connection(*self._target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, back))
                both.create_task(self._pass_on(there, writer))
        except* (ConnectionError, EOFError):
            pass
        finally:
            back.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.delay or self._frozen:
                self.touched += 1
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._thawed.wait()
            writer.write(data)
            await writer.drain()
        raise EOFError


class LinkFault:
    """One way in which a link can be bad."""

    def __init__(self, proxy: Proxy, kind: Kind, changed: dict[str, Any]) -> None:
        self.label = LABELS[kind]
        self.changed = changed
        self._proxy = proxy
        self._kind = kind
        self._touched = 0
        self._cutting: asyncio.Task[None] | None = None

    async def begin(self, replica: object) -> None:
        proxy = self._proxy
        self._touched = proxy.touched
        if self._kind == "freeze":
            proxy.freeze()
        elif self._kind == "slow":
            proxy.delay = SLOW
        elif self._kind == "refuse":
            proxy.refusing = True
            proxy.cut()
        else:
            self._cutting = asyncio.create_task(self._cut())

    async def _cut(self) -> None:
        while True:
            self._proxy.cut()
            await asyncio.sleep(CUTS)

    async def end(self, replica: object) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
        self._proxy.refusing = False
        self._proxy.delay = 0.0
        self._proxy.thaw()

    def fired(self, tried: Sequence[object]) -> bool:
        return self._proxy.touched > self._touched and bool(tried)
