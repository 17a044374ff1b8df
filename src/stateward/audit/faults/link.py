"""The way to a server, through a proxy that can cut, freeze, slow, choke and refuse it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import Any, Literal

Kind = Literal["cut", "unanswered", "freeze", "slow", "throttle", "exhaust", "refuse"]
LABELS: dict[Kind, str] = {
    "cut": "the link is cut repeatedly",
    "unanswered": "requests arrive and their answers are lost",
    "freeze": "the link is frozen",
    "slow": "the link is slow (300 ms)",
    "throttle": "the link is throttled (4 kB/s)",
    "exhaust": "only one connection is accepted",
    "refuse": "connections are refused",
}
SLOW = 0.3
FROZEN = 9.0  # seconds: a call that has no limit of its own shows only after some time
REFUSED = 3.6  # and a read that waits for the store to come back
RATE = 4000.0  # bytes a second, of all connections together
CUTS = 0.2  # seconds between two cuts
UNANSWERED = 8  # one answer in so many is lost, so that connections can still be made


class ProxiedConnection:
    """Connection that passes through the link."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.answers = 0  # answers passed on


class Proxy:
    """Between the replicas and one server, or each of several: what is done is done to all.

    With `tls` it speaks that to the replicas, and plainly to the servers.
    """

    def __init__(
        self, targets: Sequence[tuple[str, int]], tls: ssl.SSLContext | None = None
    ) -> None:
        self._targets = list(targets)
        self._tls = tls
        self.ports: list[int] = []  # ports of this machine, one for each target
        self.refusing = False
        self.delay = 0.0
        self.most: int | None = None  # connections to each server; None: any number
        self.touched = 0  # connections or pieces that a fault has met: none proves nothing
        self._rate = 0.0
        self._due = 0.0  # when all that was let through at this rate has passed
        self._frozen = False
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._opened = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._unanswered = 0
        self.unanswered = 0  # answers that were lost
        self._tasks: dict[asyncio.Task[None], ProxiedConnection] = {}  # the oldest first

    @property
    def connections(self) -> int:
        """Return the number of connections that pass through now."""
        return len(self._tasks)

    async def open(self) -> None:
        for target in self._targets:
            server = await asyncio.start_server(
                self._accepting(target), "127.0.0.1", 0, ssl=self._tls
            )
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self.throttle(0.0)
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

    def throttle(self, rate: float) -> None:
        """Let this many bytes a second pass; 0 lifts the limit, also for bytes that wait."""
        self._rate = rate
        self._due = 0.0
        self._opened.set()
        if rate:
            self._opened = asyncio.Event()

    def lose_answers(self, each: int) -> None:
        """Lose the next answer on every connection, then every `each`th; 0: none."""
        self._unanswered = each
        for connection in self._tasks.values():
            connection.answers = each - 1

    def cut(self, but: int = 0) -> None:
        """End all connections but so many to each server, the oldest."""
        for target in self._targets:
            for task in self._to_server(target)[but:]:
                self.touched += 1
                task.cancel()

    def _to_server(self, target: tuple[str, int]) -> list[asyncio.Task[None]]:
        return [task for task, passing in self._tasks.items() if passing.target == target]

    def _accepting(self, target: tuple[str, int]) -> Any:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(target, reader, writer)

        return accept

    async def _accept(
        self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        full = self.most is not None and len(self._to_server(target)) >= self.most
        if self.refusing or full:
            self.touched += 1
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        connection = self._tasks[task] = ProxiedConnection(target)
        try:
            await self._connect(connection, reader, writer)
        except (asyncio.CancelledError, OSError):
            pass  # this very connection was cut
        finally:
            del self._tasks[task]
            writer.transport.abort()

    async def _connect(
        self,
        connection: ProxiedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if self._frozen:  # who gives up and connects again must not fill the server up
            self.touched += 1
            await self._thawed.wait()
        there, back = await asyncio.open_connection(*connection.target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, back))
                both.create_task(self._pass_on(there, writer, connection))
        except* (ConnectionError, EOFError):
            pass
        finally:
            back.transport.abort()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answering: ProxiedConnection | None = None,
    ) -> None:
        while data := await reader.read(65_536):
            if self.delay or self._frozen or self._rate:
                self.touched += 1
            if self.delay:
                await asyncio.sleep(self.delay)
            if self._rate:
                await self._choke(len(data))
            await self._thawed.wait()
            if answering is not None and self._is_lost(answering):
                raise ConnectionResetError("cut between request and answer")
            writer.write(data)
            await writer.drain()
        raise EOFError

    def _is_lost(self, connection: ProxiedConnection) -> bool:
        connection.answers += 1
        if not self._unanswered or connection.answers < self._unanswered:
            return False
        self.touched += 1
        self.unanswered += 1
        return True

    async def _choke(self, size: int) -> None:
        """Wait until this many bytes may have passed, or the throttle was opened."""
        now = time.monotonic()
        self._due = max(now, self._due) + size / self._rate
        try:
            async with asyncio.timeout(self._due - now):
                await self._opened.wait()
        except TimeoutError:
            pass


class LinkFault:
    """One kind of trouble on a link."""

    def __init__(self, proxy: Proxy, kind: Kind, changed: dict[str, Any]) -> None:
        self.label = LABELS[kind]
        self.changed = changed
        lasts = {"freeze": FROZEN, "refuse": REFUSED}
        self.least = lasts.get(kind, 0.0)  # seconds that it lasts, at least
        self.every = 0.02 if kind == "unanswered" else 0.1  # only one call of several is hit
        self._proxy = proxy
        self._kind = kind
        self._touched = 0
        self._cutting: asyncio.Task[None] | None = None

    async def begin(self, replica: object) -> None:
        proxy = self._proxy
        self._touched = proxy.touched
        if self._kind == "freeze":
            proxy.freeze()
        elif self._kind == "unanswered":
            proxy.lose_answers(UNANSWERED)
        elif self._kind == "slow":
            proxy.delay = SLOW
        elif self._kind == "throttle":
            proxy.throttle(RATE)
        elif self._kind == "exhaust":
            proxy.most = 1
            proxy.cut(but=1)
            # Whoever needs but one continues with that: then it was met too, and does no harm.
            self._touched = proxy.touched - (1 if proxy.connections else 0)
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
        self._proxy.most = None
        self._proxy.throttle(0.0)
        self._proxy.lose_answers(0)
        self._proxy.thaw()

    def fired(self, tried: Sequence[object]) -> bool:
        return self._proxy.touched > self._touched and bool(tried)
