"""What each setting of the server loses, and what it does not: as `docs/explanation/durability.md`
says it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from servers import until
from servers.proxy import Proxy
from servers.redis import RedisServer, running

import stateward
from stateward.errors import Reset, StoreUnavailable

MOMENTS = 2.5  # seconds: "about the last second", on a busy machine
TRIES = 12
NOISE = b"x" * 48_000_000  # the quicker the disk, the more it takes to keep it busy
BODY = "x" * 20_000  # a second of these keeps the disk busy for a moment
HASTY = stateward.Policy(read_timeout=10.0, write_timeout=3.0, threads="raise")


class Talk:
    """Conversations that go on until the first failure, and when each message was acknowledged."""

    def __init__(self, store: stateward.Store, conversations: int, body: str = "") -> None:
        self._store = store
        self._body = body
        self.acknowledged: dict[str, dict[int, float]] = {f"t{n}": {} for n in range(conversations)}
        self._tasks = [asyncio.create_task(self._talk(id)) for id in self.acknowledged]

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def _talk(self, id: str) -> None:
        number = 0
        while True:
            number += 1
            try:
                await self._store.thread(id).append({"n": number, "body": self._body})
            except StoreUnavailable:
                return
            self.acknowledged[id][number] = time.monotonic()

    async def ended(self) -> None:
        await asyncio.gather(*self._tasks)

    async def lost(self, store: stateward.Store) -> list[float]:
        """When those were acknowledged that are not there: always the last ones."""
        times: list[float] = []
        for id, numbers in self.acknowledged.items():
            stored = [message["n"] for message in (await store.thread(id).load()).messages]
            assert stored == list(range(1, len(stored) + 1)), "a gap: not only the last were lost"
            times += [at for number, at in numbers.items() if number > len(stored)]
        return times


def kill_before_the_disk_has_it(server: RedisServer) -> None:
    """At a moment when the server has answered, but waits with writing until the disk is ready."""
    end = time.monotonic() + 5.0
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        while time.monotonic() < end:
            connection.sendall(b"INFO persistence\r\n")
            said = connection.recv(65_536)
            busy = re.search(rb"aof_pending_bio_fsync:1\b", said)
            waiting = re.search(rb"aof_buffer_length:(\d+)", said)
            if busy and waiting and int(waiting[1]) > len(BODY):
                break
        server.kill()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk that is kept busy, wherever other tests have theirs.

    In memory nothing is ever late. A disk that has nothing else to do may be as fast.
    """
    stop = threading.Event()

    def write() -> None:
        with open(Path(folder) / "noise", "wb", buffering=0) as file:
            while not stop.is_set():
                file.seek(0)
                file.write(NOISE)
                os.fsync(file.fileno())

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        noise = threading.Thread(target=write)
        noise.start()
        try:
            yield Path(folder)
        finally:
            stop.set()
            noise.join()


async def test_everysec_loses_the_last_moments_and_nothing_older(disk: Path) -> None:
    settings = ("--appendonly", "yes", "--appendfsync", "everysec")
    lost: list[float] = []
    for number in range(TRIES):
        with running(disk / f"server {number}", "redis", *settings) as server:
            async with stateward.open(server.url, policy=HASTY) as store:
                talk = Talk(store, 20, BODY)
                await until(lambda: talk.count > 500)  # noqa: B023
                await asyncio.to_thread(kill_before_the_disk_has_it, server)
                killed = time.monotonic()
                await talk.ended()
                await asyncio.to_thread(server.start)
                lost += [killed - at for at in await talk.lost(store)]
        if lost:
            break
    assert lost, "the documentation says that something may be lost"
    assert max(lost) < MOMENTS


async def test_a_server_without_a_file_forgets_and_a_follower_is_told(tmp_path: Path) -> None:
    with running(tmp_path / "server", "valkey", "--appendonly", "no") as server:
        async with stateward.open(server.url) as store:
            thread = store.thread("t")
            for number in range(5):
                await thread.append({"n": number})
            cursor = (await thread.load()).cursor
            async with store.lock("name") as lease:
                first = lease.token
            server.kill()
            await asyncio.to_thread(server.start)
            assert not (await thread.load()).exists
            for number in range(5):  # the numbers agree again, the history does not
                await thread.append({"n": number})
            with pytest.raises(Reset):
                async for _ in thread.changes(cursor, follow=False):
                    pass
            async with store.lock("name") as lease:
                assert lease.token > first, "a token grows even over lost state"


@asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[tuple[RedisServer, RedisServer, Proxy]]:
    """A primary, its replica, and the link between them."""
    with running(folder / "primary", "valkey", "--appendonly", "no") as primary:
        async with Proxy(primary.port) as link:
            settings = ("--replicaof", f"127.0.0.1 {link.port}", "--appendonly", "no")
            with running(folder / "replica", "valkey", *settings) as replica:
                up = b"master_link_status:up"
                await until(lambda: up in replica.ask("INFO", "replication"))
                yield primary, replica, link


@pytest.mark.parametrize("wait_replicas", [0, 1])
async def test_a_failover_loses_what_was_not_waited_for(tmp_path: Path, wait_replicas: int) -> None:
    """The primary is cut off from its replica, answers on, and dies."""
    async with pair(tmp_path) as (primary, replica, link):
        options = f"wait_replicas={wait_replicas}&timeout=1"
        async with stateward.open(f"{primary.url}?{options}", policy=HASTY) as store:
            talk = Talk(store, 5)
            await until(lambda: talk.count > 50)
            link.freeze()
            if wait_replicas:
                await talk.ended()  # "not replicated": nothing more is acknowledged
            else:
                enough = talk.count + 200
                await until(lambda: talk.count > enough)
            primary.kill()
            await talk.ended()
        assert replica.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        async with stateward.open(replica.url) as store:
            lost = len(await talk.lost(store))
        if wait_replicas:
            assert lost == 0
        else:
            assert lost >= 100, "the documentation says that they may be lost"
