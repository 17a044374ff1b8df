"""A proxy before a PostgreSQL server that knows where one message ends and the next begins."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from types import TracebackType
from typing import Literal, NamedTuple, Self

from servers.postgres import PostgresServer

ENCRYPTION = (80877103, 80877104)  # a client's wishes for TLS and GSSAPI
CANCEL = 80877102
FLUSH = b"H\x00\x00\x00\x04"


class Fault(NamedTuple):
    """Trouble at the first message of this kind, before it is passed on.

    `end` ends the connection on both sides. `terminate` ends the backend alone, after it has
    answered all that was sent before; the client gets these answers and the backend's last words.
    """

    sender: Literal["client", "server"]
    kind: str
    action: Literal["end", "terminate"]


class Passing:
    """A connection that passes through the proxy."""

    def __init__(self) -> None:
        self.pid = 0
        self.is_silent = False
        self.wasted = 0  # messages that came when it was
        self.completed = asyncio.Event()  # the last statement, if not its transaction


class MessageProxy:
    """Passes on all messages but for one `fault`, and for the connections that are forgotten."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._passing: dict[asyncio.Task[None], Passing] = {}
        self.fault: Fault | None = None
        self.hit: Passing | None = None  # the connection that met the fault

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        for task in self._passing:
            task.cancel()
        while self._passing:
            await asyncio.wait(self._passing)

    def url_of(self, schema: str, **options: str) -> str:
        """The URL of a store in that schema, by way of this proxy."""
        return self._server.url_of(schema, **options).replace(
            f":{self._server.port}/", f":{self.port}/"
        )

    def arm(self, fault: Fault) -> None:
        self.fault, self.hit = fault, None

    def forget(self) -> list[Passing]:
        """Let nothing through on the connections of now, without a word to either side."""
        forgotten = [*self._passing.values()]
        for passing in forgotten:
            passing.is_silent = True
        return forgotten

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        passing = self._passing[task] = Passing()
        there, back = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_requests(passing, reader, writer, back))
                both.create_task(self._pass_answers(passing, there, writer))
        except* (ConnectionError, EOFError, asyncio.CancelledError):
            pass
        finally:
            del self._passing[task]
            back.transport.abort()
            if not writer.transport.is_closing():
                with suppress(ConnectionError):  # the server's last words come first
                    writer.close()

    async def _pass_requests(
        self,
        passing: Passing,
        client: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
    ) -> None:
        while True:
            size = await client.readexactly(4)
            body = await client.readexactly(struct.unpack("!i", size)[0] - 4)
            if struct.unpack("!i", body[:4])[0] not in ENCRYPTION:
                break
            back.write(b"N")
        server.write(size + body)
        while True:
            kind, message = await _message(client)
            if passing.is_silent:
                passing.wasted += kind != "X"  # a client's goodbye
                continue
            if self.fault is not None and self.fault[:2] == ("client", kind):
                await self._meet(passing, server)
            passing.completed.clear()
            server.write(message)
            await server.drain()

    async def _pass_answers(
        self, passing: Passing, server: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        while True:
            kind, message = await _message(server)
            if passing.is_silent:
                continue
            if kind == "K":
                (passing.pid,) = struct.unpack("!i", message[5:9])
            if self.fault is not None and self.fault[:2] == ("server", kind):
                await self._meet(passing, None)
            client.write(message)
            await client.drain()
            if kind in "C12nTtEZ":
                passing.completed.set()

    async def _meet(self, passing: Passing, server: asyncio.StreamWriter | None) -> None:
        fault, self.fault, self.hit = self.fault, None, passing
        assert fault is not None
        if fault.action == "end":
            raise ConnectionResetError("ended by the proxy")
        assert server is not None
        server.write(FLUSH)  # so that the client has the rows before their transaction ends
        end = f"SELECT pg_terminate_backend({passing.pid}, 5000)"
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await passing.completed.wait()
        await asyncio.to_thread(self._server.run_sql, end)


async def _message(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = await reader.readexactly(5)
    body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
    return head[:1].decode(), head + body
