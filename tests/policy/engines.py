"""Stores that can be made to fail for real: one class an engine, its faults as async functions.

To try another engine, add its class to `ENGINES`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import apsw
from servers.postgres import PostgresServer
from servers.proxy import Proxy
from servers.redis import DURABLE, running

Step = Callable[[], Awaitable[None]]
_numbers = itertools.count(1)


class Target(Protocol):
    """A store under test. `url` is the way that fails, `direct` one that does not."""

    url: str
    direct: str
    faults: dict[str, tuple[Step, Step]]  # by name: how it begins, how it ends


class SqliteTarget:
    """A file that another connection keeps locked."""

    ordinary = ("locked", "flapping")
    soak: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.url = self.direct = f"sqlite:///{path}"
        self._path = path
        self._holder: apsw.Connection | None = None
        self._flapping: asyncio.Task[None] | None = None
        self.faults: dict[str, tuple[Step, Step]] = {
            "locked": (self._lock, self._unlock),
            "flapping": (self._begin_flapping, self._end_flapping),
        }

    async def _lock(self) -> None:
        self._holder = apsw.Connection(str(self._path))
        self._holder.set_busy_timeout(10_000)
        await asyncio.to_thread(self._holder.execute, "BEGIN IMMEDIATE")

    async def _unlock(self) -> None:
        assert self._holder is not None
        self._holder.execute("ROLLBACK")
        self._holder.close()
        self._holder = None

    async def _begin_flapping(self) -> None:
        async def flap() -> None:
            while True:
                await self._lock()
                try:
                    await asyncio.sleep(1.2)
                finally:
                    await self._unlock()
                await asyncio.sleep(0.01)

        self._flapping = asyncio.create_task(flap())

    async def _end_flapping(self) -> None:
        assert self._flapping is not None
        self._flapping.cancel()
        await asyncio.wait([self._flapping])


class Server(Protocol):
    """What the servers of the tests can be made to do."""

    def kill(self) -> None: ...
    def restart(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class ServerTarget:
    """A server behind a proxy on this machine, which keeps every write."""

    ordinary = ("frozen", "killed")
    soak = ("cut", "refused", "paused")

    def __init__(self, url: str, server: Server, port: int, proxy: Proxy) -> None:
        self.direct = url
        self.url = url.replace(f":{port}", f":{proxy.port}")
        self._server = server
        self._proxy = proxy
        self.faults: dict[str, tuple[Step, Step]] = {
            "frozen": (self._freeze, self._thaw),
            "killed": (self._kill, self._restart),
            "cut": (self._cut, self._mend),
            "refused": (self._refuse, self._accept),
            "paused": (self._pause, self._resume),
        }

    async def _freeze(self) -> None:
        self._proxy.freeze()

    async def _thaw(self) -> None:
        self._proxy.thaw()

    async def _kill(self) -> None:
        self._server.kill()

    async def _restart(self) -> None:
        await asyncio.to_thread(self._server.restart)

    async def _cut(self) -> None:
        self._proxy.cut_replies = True

    async def _mend(self) -> None:
        self._proxy.cut_replies = False

    async def _refuse(self) -> None:
        self._proxy.refusing = True
        self._proxy.cut()

    async def _accept(self) -> None:
        self._proxy.refusing = False

    async def _pause(self) -> None:
        self._server.pause()

    async def _resume(self) -> None:
        self._server.resume()


@asynccontextmanager
async def valkey(folder: Path) -> AsyncIterator[Target]:
    with running(folder / "valkey", "valkey", *DURABLE) as server:
        async with Proxy(server.port) as proxy:
            yield ServerTarget(server.url, server, server.port, proxy)


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Target]:
    yield SqliteTarget(folder / "agents.db")


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Target]:
    server = await asyncio.to_thread(PostgresServer().start)
    try:
        async with Proxy(server.port) as proxy:
            url = server.url_of(f"outage{next(_numbers)}")
            yield ServerTarget(url, server, server.port, proxy)
    finally:
        await asyncio.to_thread(server.remove)


ENGINES = {
    "sqlite": (sqlite, SqliteTarget.ordinary, SqliteTarget.soak),
    "valkey": (valkey, ServerTarget.ordinary, ServerTarget.soak),
    "postgres": (postgres, ServerTarget.ordinary, ServerTarget.soak),
}
