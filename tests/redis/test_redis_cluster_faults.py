"""A cluster and servers under sentinels, fault by fault and operation by operation.

One cluster serves all cases. Each brings a fault about, asks for what an operation promises
meanwhile, and asks again when the fault is over: nothing acknowledged is lost or doubled.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from servers.ports import free_port
from servers.proxy import Proxy
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster, running_cluster

import stateward
from stateward import Policy, Store, StoreUnavailable, sync
from stateward.engines.redis.client.slots import SLOTS, slot_of
from stateward.engines.redis.keys import keys_of
from stateward.layers.outage.suppression import TOGETHER
from stateward.ops import Entity

PRIMARIES = 3
POLICY = Policy(read_timeout=2.0, threads="raise")  # on a busy machine one second may be short
PATIENCE = 30.0
CALLERS = 16  # more than ever call at once


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """With no replicas: a node that hangs stays the primary of its slots."""
    folder = tmp_path_factory.mktemp("faults")
    with running_cluster(folder, "valkey", replicas=0) as cluster:
        for node in cluster.nodes:  # a node that hangs is not taken for dead meanwhile
            assert node.ask("CONFIG", "SET", "cluster-node-timeout", "120000") == b"+OK\r\n"
        yield cluster


class Blocking:
    """A blocking store, asked from an event loop."""

    def __init__(self, url: str, namespace: str) -> None:
        self._store = sync.open(url, namespace=namespace, policy=POLICY, spill=False)
        # A thread for each caller: those of the event loop are six on a machine with two cores,
        # and callers of a node that hangs would keep all of them.
        self._threads = ThreadPoolExecutor(CALLERS)

    async def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, call, *arguments)

    async def append(self, id: str, message: dict[str, Any]) -> None:
        await self._call(self._store.thread(id).append, message)

    async def load(self, id: str) -> list[Any]:
        return [m["n"] for m in (await self._call(self._store.thread(id).load)).messages]

    async def close(self) -> None:
        await self._call(self._store.close)
        self._threads.shutdown()


class EventLoop:
    """The same for a store of this event loop."""

    def __init__(self, url: str, namespace: str) -> None:
        self._store: Store = stateward.open(url, namespace=namespace, policy=POLICY, spill=False)

    async def append(self, id: str, message: dict[str, Any]) -> None:
        await self._store.thread(id).append(message)

    async def load(self, id: str) -> list[Any]:
        return [m["n"] for m in (await self._store.thread(id).load()).messages]

    async def close(self) -> None:
        await self._store.close()


Client = Blocking | EventLoop


@pytest.fixture(params=[EventLoop, Blocking], ids=["event loop", "blocking"])
def colour(request: pytest.FixtureRequest) -> type[Client]:
    kind: type[Client] = request.param
    return kind


@asynccontextmanager
async def opened(colour: type[Client], url: str, namespace: str) -> AsyncIterator[Client]:
    client = colour(url, namespace)
    try:
        yield client
    finally:
        await client.close()


def node_of(key: str) -> int:
    """The number of the node that has a key."""
    return slot_of(key) * PRIMARIES // SLOTS


def indexed_elsewhere(prefix: str) -> str:
    """A namespace whose indexes, which have when its threads were touched last, are not on node 0.

    They are written once a minute for a thread that goes on, and would wait for a node that hangs.
    """
    names = (f"{prefix}-{n}" for n in count())
    return next(name for name in names if node_of(f"{{{name}:}}") and node_of(f"{{{name}:thread}}"))


def on_node(namespace: str, number: int, count: int) -> list[str]:
    """Ids of threads whose slot the node with this number has."""
    found = []
    for n in range(10_000):
        if node_of(keys_of(Entity(namespace, "thread", f"t{n}")).head) == number:
            found.append(f"t{n}")
        if len(found) == count:
            return found
    raise AssertionError("no such ids")


@asynccontextmanager
async def hanging(node: RedisServer) -> AsyncIterator[None]:
    """A frozen machine: it takes connections, and answers nothing."""
    pid = node.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_one_node_that_hangs_stalls_nobody_but_its_own_callers(
    nodes: RedisCluster, colour: type[Client]
) -> None:
    """While others insist on the dead slots, every call to the healthy ones is answered."""
    namespace = indexed_elsewhere(f"hangs-{colour.__name__}")
    dead = on_node(namespace, 0, 4)
    healthy = [id for number in (1, 2) for id in on_node(namespace, number, 2)]
    ended = asyncio.Event()
    failed = asyncio.Semaphore(0)

    async def insist(call: Callable[[], Awaitable[object]]) -> None:
        while not ended.is_set():
            try:
                await call()
            except StoreUnavailable:
                failed.release()

    async def go_on(id: str) -> int:
        n = 0
        while not ended.is_set():
            n += 1
            await client.append(id, {"n": n})
            assert (await client.load(id))[-1] == n
        return n

    async with opened(colour, nodes.url, namespace) as client:
        for id in (*dead, *healthy):
            await client.append(id, {"n": 0})
        async with hanging(nodes.nodes[0]):
            insisting = [asyncio.ensure_future(insist(partial(client.load, id))) for id in dead]
            turn = {"n": -1}
            insisting += [
                asyncio.ensure_future(insist(partial(client.append, id, turn))) for id in dead
            ]
            going = [asyncio.ensure_future(go_on(id)) for id in healthy]
            for _ in range(2 * len(dead)):
                await failed.acquire()
            ended.set()
            counts = await asyncio.gather(*going)
        await asyncio.gather(*insisting)
        for id, count in zip(healthy, counts, strict=True):
            assert await client.load(id) == list(range(count + 1))


async def test_turns_kept_for_a_node_that_hangs_hold_up_none_for_the_others(
    nodes: RedisCluster, tmp_path: Path
) -> None:
    """More of them than are replayed together."""
    namespace = indexed_elsewhere("kept")
    away, back = on_node(namespace, 0, TOGETHER + 8), on_node(namespace, 1, 5)
    quick = Policy(read_timeout=0.5, write_timeout=0.5)
    async with stateward.open(
        nodes.url, namespace=namespace, policy=quick, spill=tmp_path / "spill"
    ) as store:

        async def say(number: int) -> set[str]:
            said = (store.thread(id).append({"n": number}) for id in away + back)
            return {answer.status for answer in await asyncio.gather(*said)}

        async def replayed(number: int) -> None:
            while store.counters.replayed < number:  # noqa: ASYNC110 - no one is woken by a counter
                await asyncio.sleep(0.05)
            assert store.counters.replayed == number

        async with asyncio.timeout(PATIENCE):
            while await say(1) != {"stored"}:  # on a busy machine half a second may be short
                pass
            before = store.counters.replayed
            async with hanging(nodes.nodes[0]):
                async with hanging(nodes.nodes[1]):
                    assert await say(2) == {"spilled"}
                await replayed(before + len(back))
            await replayed(before + len(away + back))


async def test_who_only_reads_notices_that_its_primary_was_demoted(
    tmp_path: Path, colour: type[Client]
) -> None:
    """The name leads to the new primary; the old one keeps the connections that it has."""
    with (
        running(tmp_path / "old", "valkey", "--appendonly", "no") as old,
        running(tmp_path / "new", "valkey", "--appendonly", "no") as new,
    ):
        for server, count in ((old, 1), (new, 2)):
            async with opened(colour, server.url, "demoted") as writer:
                for n in range(count):
                    await writer.append("t", {"n": n})
        async with (
            Proxy(old.port) as name,
            opened(colour, f"redis://127.0.0.1:{name.port}?timeout=0.2", "demoted") as reader,
        ):
            assert await reader.load("t") == [0]
            name.lead_to(new.port)
            assert old.ask("REPLICAOF", "127.0.0.1", str(free_port())) == b"+OK\r\n"
            async with asyncio.timeout(PATIENCE):
                while await reader.load("t") == [0]:  # noqa: ASYNC110 (nothing announces it)
                    await asyncio.sleep(0.02)
            assert await reader.load("t") == [0, 1]
