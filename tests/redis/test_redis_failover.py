"""A primary dies, or its slots move: acknowledged writes stay, and none is stored twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from servers import until
from servers.redis import RedisServer
from servers.redis_cluster import RedisCluster, running_cluster, running_sentinels

import stateward
from stateward.engines.redis.client.slots import slot_of
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import StoreUnavailable
from stateward.layers.policy import Policy
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Put,
    SetHead,
)
from stateward.world import World

WORLD = World()
PATIENT = Policy(read_timeout=20.0, write_timeout=20.0, threads="raise")
TALKS = 12


class Talks:
    """Conversations that go on whatever happens, and what was acknowledged of each."""

    def __init__(self, store: stateward.Store) -> None:
        self.acknowledged: dict[str, list[int]] = {f"talk {n}": [] for n in range(TALKS)}
        self._store = store
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._talk(id)) for id in self.acknowledged]

    async def _talk(self, id: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                await self._store.thread(id, user=f"user of {id}").append({"n": number})
            except StoreUnavailable:
                continue
            self.acknowledged[id].append(number)
            await asyncio.sleep(0.001)

    async def some_more(self) -> None:
        """Until every conversation has got on."""
        before = {id: len(numbers) for id, numbers in self.acknowledged.items()}
        await until(lambda: all(len(n) >= before[id] + 5 for id, n in self.acknowledged.items()))

    async def end(self) -> None:
        """Everything acknowledged is there, in order, and nothing is there twice."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        for id, numbers in self.acknowledged.items():
            window = await self._store.thread(id, user=f"user of {id}").load()
            stored = [message["n"] for message in window.messages]
            assert stored == sorted(set(stored)), "stored twice or out of order"
            assert set(numbers) <= set(stored), "an acknowledged message is lost"
            owned = [info.id async for info in self._store.threads(f"user of {id}")]
            assert owned == [id]


async def ride_over(url: str, fault: Callable[[], Awaitable[None]]) -> None:
    async with stateward.open(f"{url}?wait_replicas=1&timeout=2", policy=PATIENT) as store:
        talks = Talks(store)
        await talks.some_more()
        await fault()
        await talks.some_more()
        await talks.end()


async def test_a_cluster_loses_nothing_when_a_primary_dies(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "valkey", replicas=1) as cluster:

        async def kill() -> None:
            victim, heir = cluster.nodes[0], cluster.nodes[3]
            assert not cluster.is_primary(heir)
            victim.kill()
            await until(lambda: cluster.is_primary(heir))
            await asyncio.to_thread(victim.start)  # now as the replica that WAIT waits for

        await ride_over(cluster.url, kill)


async def test_sentinels_lead_to_the_new_primary_and_nothing_is_lost(tmp_path: Path) -> None:
    with running_sentinels(tmp_path, "redis") as group:

        async def kill() -> None:
            group.primary.kill()
            await until(lambda: group.heir() is not None)

        await ride_over(group.url, kill)


async def test_a_slot_moves_while_it_is_written(tmp_path: Path) -> None:
    """Key by key, as an operator does it: requests meet ASK, TRYAGAIN and MOVED."""
    with running_cluster(tmp_path, "valkey", replicas=0) as cluster:
        engine = RedisEngine(parse_server(parse(cluster.url), WORLD))
        await engine.open()
        try:
            entity = Entity("moving", "thread", "it")
            slot = slot_of(keys_of(entity).head)
            source, target = nodes_for(cluster, slot)
            stop = asyncio.Event()
            acknowledged = 0

            async def write() -> None:
                nonlocal acknowledged
                while not stop.is_set():
                    op = WORLD.new_id()
                    body = f"{acknowledged}"
                    for _ in range(1000):
                        try:
                            commit = Commit(entity, op, (Append((body,)),), owner="u")
                            await engine.execute((commit,))
                            break
                        except StoreUnavailable:
                            await asyncio.sleep(0.005)
                    acknowledged += 1

            writing = asyncio.create_task(write())
            await until(lambda: acknowledged > 20)
            await move(slot, source, target)
            enough = acknowledged + 20
            await until(lambda: acknowledged > enough)
            stop.set()
            await writing
            (fetched,) = await engine.execute((Fetch(entity, log=Log()),))
            assert isinstance(fetched, Fetched)
            assert fetched.lines.split("\n") == [f"{n}" for n in range(acknowledged)]
            (listed,) = await engine.execute((List("moving", owner="u"),))
            assert isinstance(listed, Listed)
            assert [found.entity for found in listed.entities] == [entity]
        finally:
            await engine.close()


def nodes_for(cluster: RedisCluster, slot: int) -> tuple[RedisServer, RedisServer]:
    """The node that holds a slot, and another one."""
    holder = slot * 3 // 16_384
    return cluster.nodes[holder], cluster.nodes[(holder + 1) % 3]


async def move(slot: int, source: RedisServer, target: RedisServer) -> None:
    ids = [node.ask("CLUSTER", "MYID").split()[1].decode() for node in (source, target)]
    number = str(slot)
    assert target.ask("CLUSTER", "SETSLOT", number, "IMPORTING", ids[0]) == b"+OK\r\n"
    assert source.ask("CLUSTER", "SETSLOT", number, "MIGRATING", ids[1]) == b"+OK\r\n"
    moved = 0
    while True:
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", number, "100").split(b"\r\n")[2::2]
        if not keys:
            break
        for key in keys:
            where = ("127.0.0.1", str(target.port), key.decode(), "0", "5000")
            assert source.ask("MIGRATE", *where) in (b"+OK\r\n", b"+NOKEY\r\n")
            moved += 1
            await asyncio.sleep(0.01)
    assert moved >= 3
    for node in (target, source):
        assert node.ask("CLUSTER", "SETSLOT", number, "NODE", ids[1]) == b"+OK\r\n"


async def test_two_callers_create_one_entity_and_the_index_has_it(tmp_path: Path) -> None:
    """On a cluster the index is written first: whoever wins, every entity is listed."""
    with running_cluster(tmp_path, "redis", replicas=0) as cluster:
        engines = [RedisEngine(parse_server(parse(cluster.url), WORLD)) for _ in range(3)]
        for engine in engines:
            await engine.open()
        try:
            entities = [Entity("index", "thread", f"{n}") for n in range(60)]

            async def create(engine: RedisEngine, entity: Entity) -> None:
                commit = Commit(entity, WORLD.new_op(), (Append(("1",)),), owner="u")
                (outcome,) = await engine.execute((commit,))
                assert isinstance(outcome, Applied)
                (listed,) = await engine.execute((List("index", owner="u", limit=100),))
                assert isinstance(listed, Listed)
                assert entity in [found.entity for found in listed.entities]

            await asyncio.gather(*[create(e, it) for e in engines for it in entities])
        finally:
            for engine in engines:
                await engine.close()


async def test_what_has_moved_can_be_used_before_the_move_is_done(tmp_path: Path) -> None:
    """In the midst of a move the old node says ASK: for reads, for scripts and for listings."""
    with running_cluster(tmp_path, "valkey", replicas=0) as cluster:
        engine = RedisEngine(parse_server(parse(cluster.url), WORLD))
        await engine.open()
        try:
            entity = Entity("moving", "thread", "it")
            writes = (Append(("1", "2"), key="k"), Put("doc", "{}"), SetHead(status="on"))
            await engine.execute((Commit(entity, WORLD.new_op(), writes, owner="u"),))
            slot = slot_of(keys_of(entity).head)
            source, target = nodes_for(cluster, slot)
            ids = [node.ask("CLUSTER", "MYID").split()[1].decode() for node in (source, target)]
            number = str(slot)
            assert target.ask("CLUSTER", "SETSLOT", number, "IMPORTING", ids[0]) == b"+OK\r\n"
            assert source.ask("CLUSTER", "SETSLOT", number, "MIGRATING", ids[1]) == b"+OK\r\n"
            for key in source.ask("CLUSTER", "GETKEYSINSLOT", number, "100").split(b"\r\n")[2::2]:
                where = ("127.0.0.1", str(target.port), key.decode(), "0", "5000")
                assert source.ask("MIGRATE", *where) == b"+OK\r\n"
            for _ in range(2):
                await all_is_found(engine, entity)
            commit = Commit(entity, WORLD.new_op(), (Append(("3",)),), owner="u")
            (outcome,) = await engine.execute((commit,))
            assert isinstance(outcome, Applied)
            await all_is_found(engine, entity)
            for node in (target, source):
                assert node.ask("CLUSTER", "SETSLOT", number, "NODE", ids[1]) == b"+OK\r\n"
            (outcome,) = await engine.execute((commit,))
            assert isinstance(outcome, Duplicate)
            await all_is_found(engine, entity)
        finally:
            await engine.close()


async def all_is_found(engine: RedisEngine, entity: Entity) -> None:
    """By single commands, by transactions, and by listings."""
    for fetch in (Fetch(entity), Fetch(entity, "u", Log(last=2), all_documents=True)):
        (fetched,) = await engine.execute((fetch,))
        assert isinstance(fetched, Fetched)
        assert fetched.head.status == "on"
    assert fetched.count == 2
    assert list(fetched.documents) == ["doc"]
    (listed,) = await engine.execute((List("moving", owner="u", documents=("doc",)),))
    assert isinstance(listed, Listed)
    assert [found.entity for found in listed.entities] == [entity]
