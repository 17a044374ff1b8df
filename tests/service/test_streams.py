"""Many streams, slow readers and half requests: they cost little, and nobody else anything."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec.structs import replace

import stateward
from service.conftest import Served
from service.test_serve import Process
from stateward import sync
from stateward.ops import Fetch, Fetched
from stateward.server import service, stream
from stateward.server.keys import DOCUMENT, key_entity, record_of, storing
from stateward.world import World

WORLD = World()
PATIENCE = 120.0
LARGEST = 60_000  # bytes that a stream may take in the service
LARGE = "x" * 100_000
TURNS = 160  # of these: more than all buffers between a service and its client hold


def memory_of(pid: int) -> int:
    """Resident bytes."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Clients:
    """Connections by hand, ended with the test."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*(w.wait_closed() for w in self._open), return_exceptions=True)

    async def say(self, said: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        self._open.append(writer)
        writer.write(said.encode())
        return reader

    async def follow(self, path: str, headers: str = "") -> asyncio.StreamReader:
        """A stream whose head has come. A machine that is too busy is asked again."""
        while True:
            reader = await self.say(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 503 " not in head:
                assert b" 200 " in head, head
                return reader


async def event_of(reader: asyncio.StreamReader) -> tuple[str, str]:
    """The id and the data of the next event."""
    id, data = b"", b""
    while not data:
        line = await reader.readline()
        assert line, "the stream has ended"
        if line.startswith(b"id: "):
            id = line[4:].strip()
        if line.startswith(b"data: "):
            data = line[6:].strip()
    return id.decode(), data.decode()


# --- thousands that are idle ------------------------------------------------------------


async def idle_streams(url: str, count: int) -> None:
    process = Process(url, "--port", "0", "--insecure-local")
    port = int(process.url.rsplit(":", 1)[1])
    try:
        async with (
            asyncio.timeout(10 * PATIENCE),
            stateward.open(process.url) as store,
            Clients(port) as clients,
        ):
            await store.thread("first").append({"n": 0})
            streams = [await clients.follow("/v1/threads/first/changes?after=1")]
            before = memory_of(process.process.pid)
            for first in range(0, count, 50):
                paths = [f"/v1/threads/t-{number}/changes" for number in range(first, first + 50)]
                streams += await asyncio.gather(*map(clients.follow, paths))
            each = (memory_of(process.process.pid) - before) / count
            print(f"{count:,} idle streams take {each / 1000:.1f} KB each in the service")
            assert each <= LARGEST
            await store.thread(f"t-{count - 1}").append({"n": 1})
            assert '"n":1' in (await event_of(streams[-1]))[1]
            await store.thread("first").append({"n": 2})
            assert '"n":2' in (await event_of(streams[0]))[1]
        async with stateward.open(process.url) as store:
            assert (await store.thread("first").load()).version == 2
        assert process.stop() == 0, process.complaints()
    finally:
        process.end()


async def test_idle_streams_are_cheap(tmp_path: Path, many_files: None) -> None:
    await idle_streams(f"sqlite:///{tmp_path}/agents.db", 200)


@pytest.mark.soak
async def test_two_thousand_idle_streams_are_cheap(tmp_path: Path, many_files: None) -> None:
    await idle_streams(f"sqlite:///{tmp_path}/agents.db", 2_000)


# --- one that does not read -------------------------------------------------------------


async def test_a_slow_reader_is_cut_off_and_goes_on_where_it_was(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.3)
    ends: list[bool] = []

    async def watched(*said: Any) -> bool:
        ends.append(await stream.streamed(*said))
        return ends[-1]

    monkeypatch.setattr(service, "streamed", watched)
    served = serve(insecure_local=True)
    with sync.open(served.direct, heartbeat=None) as store:
        for number in range(TURNS):
            store.thread("t").append({"n": number, "text": LARGE})
    path = f"/{served.url.rsplit('/', 1)[1]}/v1/threads/t/changes?follow=false"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE), Clients(served.port) as clients:
            reader = await clients.follow(path)
            found = [await event_of(reader) for _ in range(TURNS)]
            assert [turn_of(data) for _, data in found] == list(range(TURNS))
            while False not in ends:
                await WORLD.pause(0.01)
            last = await asyncio.to_thread(last_of, slow)
            read = [id for id, _ in found].index(last) + 1
            assert read < TURNS
            again = await clients.follow(path, f"last-event-id: {last}\r\n")
            assert turn_of((await event_of(again))[1]) == read


@pytest.mark.soak
async def test_who_never_reads_keeps_no_connection(tmp_path: Path) -> None:
    """Cut off after half a minute, and ended by the operating system a minute later."""
    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url, heartbeat=None) as store:
        for number in range(TURNS):
            store.thread("t").append({"n": number, "text": LARGE})
    process = Process(url, "--port", "0", "--insecure-local")
    try:
        async with asyncio.timeout(300), stateward.open(process.url) as store:
            await store.thread("other").append({"n": 0})
            before = open_files(process.process.pid)
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.connect(("127.0.0.1", int(process.url.rsplit(":", 1)[1])))
                slow.sendall(b"GET /v1/threads/t/changes HTTP/1.1\r\nhost: localhost\r\n\r\n")
                while open_files(process.process.pid) == before:
                    await WORLD.pause(0.01)
                while open_files(process.process.pid) > before:
                    await WORLD.pause(0.5)
        assert process.stop() == 0
    finally:
        process.end()


def turn_of(data: str) -> int:
    number: int = json.loads(data)["message"]["n"]
    return number


def last_of(slow: socket.socket) -> str:
    """The id of the last whole event that a client finds which reads on too late."""
    slow.settimeout(PATIENCE)
    said = b""
    while part := slow.recv(1 << 20):
        said += part
    assert not said.endswith(b"0\r\n\r\n"), "a stream that was cut off has no end"
    ids = [line[4:] for line in said.split(b"\n") if line.startswith(b"id: ")]
    whole = said.count(b"\n\n")
    return ids[whole - 1].strip().decode()


# --- requests that do not come whole ----------------------------------------------------


async def test_requests_that_never_come_whole_keep_nobody_waiting(
    serve: Callable[..., Served],
) -> None:
    served = serve(insecure_local=True)
    head = f"POST {'/'.join(served.url.split('/')[2:])}/v1/execute HTTP/1.1\r\nhost: localhost\r\n"
    halves = (head[:9], head, f"{head}content-length: 100\r\n\r\n", f"{head}x: {'y' * 2000}")
    async with asyncio.timeout(PATIENCE), Clients(served.port) as clients:
        for number in range(200):
            await clients.say(halves[number % len(halves)])
        async with stateward.open(served.url, heartbeat=None) as store:
            for number in range(20):
                await store.thread("t").append({"n": number})
            assert (await store.thread("t").load()).version == 20


def next_event(answer: Any) -> bytes:
    """The next line of a stream; b"" at its end."""
    try:
        line: bytes = answer.fp.readline()
    except OSError:
        return b""
    return line


@pytest.mark.parametrize("end", ["revoked", "expired", "narrowed"])
def test_a_stream_ends_with_its_key(serve: Callable[..., Served], end: str) -> None:
    served = serve()
    key = served.key("read", lifetime=2.0 if end == "expired" else None)
    with sync.open(served.direct, heartbeat=None) as store:
        store.thread("t").append({"n": 1})
        read = Fetch(key_entity(key.split(".")[1]), documents=(DOCUMENT,))
        (fetched,) = store.sections["workflows"].execute([read])
        assert isinstance(fetched, Fetched)
        record = record_of(fetched.documents[DOCUMENT].json)
    path = f"/{served.url.rsplit('/', 1)[1]}/v1/threads/t/changes"
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection:
        connection.request("GET", path, headers={"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        assert next_event(answer)
        if end != "expired":
            change: Any = {"revoked": 1.0} if end == "revoked" else {"namespaces": ("other",)}
            with sync.open(served.direct, heartbeat=None) as store:
                changed = storing(replace(record, **change), 1, World().new_op())
                store.sections["workflows"].execute([changed])
        while line := next_event(answer):
            assert not line.startswith(b": still"), "it lives longer than its key"
