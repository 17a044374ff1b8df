"""What the engine says, and what is stored, when the server or the way to it fails."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from servers import until
from servers.proxy import Proxy
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster

import stateward
import stateward.sync
from stateward.engines.redis.client.pool import MOST, Pool
from stateward.engines.redis.describe import description_of
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import SchemaError, StoreUnavailable
from stateward.layers.confirmation import is_replicated
from stateward.layers.policy import Policy
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    KeyReused,
    Log,
    Op,
    Outcome,
    Put,
    Sweep,
    Swept,
)
from stateward.world import World

WORLD = World()


def new_entity() -> Entity:
    return Entity("faults", "thread", WORLD.new_id())


def append_to(
    entity: Entity, *bodies: str, op: str | None = None, key: str | None = None
) -> Commit:
    return Commit(entity, op or WORLD.new_op(), (Append(bodies or ("1",), key),))


def an_engine(url: str) -> RedisEngine:
    return RedisEngine(parse_server(parse(url), WORLD))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisEngine]:
    engine = an_engine(url)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def only(engine: RedisEngine, op: Op) -> Outcome:
    return (await engine.execute((op,)))[0]


def lent(pool: Pool) -> int:
    """How many connections of a pool are in use."""
    return len(pool._made) - len(pool.idle_connections())


async def version_of(engine: RedisEngine, entity: Entity) -> int:
    fetched = await only(engine, Fetch(entity))
    assert isinstance(fetched, Fetched)
    return fetched.head.version


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "durable", "valkey") as server:
        yield server


# --- the server dies --------------------------------------------------------------------


async def survive_kills(server: RedisServer, kills: int) -> None:
    """appendfsync always, kill -9, again and again, while ten conversations are written."""
    acknowledged: dict[str, list[int]] = {f"t{n}": [] for n in range(10)}
    stop = asyncio.Event()

    async def talk(store: stateward.Store, id: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                await store.thread(id).append({"n": number})
            except StoreUnavailable:
                continue
            acknowledged[id].append(number)

    policy = Policy(read_timeout=20.0, write_timeout=10.0, threads="raise")
    async with stateward.open(server.url, policy=policy) as store:
        talking = [asyncio.create_task(talk(store, id)) for id in acknowledged]
        for kill in range(kills):
            enough = sum(map(len, acknowledged.values())) + 50
            await until(lambda: sum(map(len, acknowledged.values())) >= enough)  # noqa: B023
            server.kill()
            await asyncio.sleep(random.Random(kill).uniform(0.0, 0.02))
            await asyncio.to_thread(server.start)
        stop.set()
        await asyncio.gather(*talking)
        for id, numbers in acknowledged.items():
            window = await store.thread(id).load()
            stored = [message["n"] for message in window.messages]
            assert sorted(set(stored)) == sorted(stored), "a retried append was stored twice"
            assert set(numbers) <= set(stored)


async def test_no_acknowledged_write_is_lost_when_the_server_is_killed(
    durable: RedisServer,
) -> None:
    await survive_kills(durable, 20)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["valkey", "redis"])
async def test_a_thousand_kills_lose_no_acknowledged_write(tmp_path: Path, name: str) -> None:
    with running(tmp_path / name, name) as server:
        await survive_kills(server, 1000)


async def test_a_server_that_is_down_was_not_asked(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "down").start()
    try:
        async with opened(server.url) as engine:
            entity = new_entity()
            await only(engine, append_to(entity))
            server.kill()
            await until(lambda: all(c.broken for c in engine._servers._pool.idle_connections()))
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await only(engine, append_to(entity))
            assert caught.value.applied == "no"
            await asyncio.to_thread(server.start)
            assert isinstance(await only(engine, append_to(entity)), Applied)
    finally:
        server.stop()


async def test_opening_a_server_that_is_not_there_says_so() -> None:
    engine = an_engine("redis://127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        await engine.open()
    assert caught.value.applied == "no"
    await engine.close()


# --- the way is cut ---------------------------------------------------------------------


async def test_a_reply_that_is_cut_off_leaves_it_unknown_and_a_retry_counts_once(
    valkey: RedisServer,
) -> None:
    async with Proxy(valkey.port) as proxy, opened(proxy.url) as engine:
        entity = new_entity()
        await only(engine, append_to(entity))
        commit = append_to(entity, "1", "2")
        proxy.cut_replies = True
        with pytest.raises(StoreUnavailable) as caught:
            await only(engine, commit)
        assert caught.value.applied == "unknown"
        assert proxy.cuts == 1
        proxy.cut_replies = False
        again = await only(engine, commit)
        assert isinstance(again, Duplicate)
        assert again.own
        assert again.first.version == 3
        assert await version_of(engine, entity) == 3


async def test_a_store_rides_over_cut_connections_and_counts_every_update_once(
    valkey: RedisServer,
) -> None:
    # On a busy machine every attempt of a second may be cut: nobody is to give up for that.
    patient = Policy(60.0, 60.0, threads="raise", breaker_failures=10_000)
    async with Proxy(valkey.port) as proxy, stateward.open(proxy.url, policy=patient) as store:
        counter = store.shared(WORLD.new_id())
        await counter.put({"n": 0})
        stop = asyncio.Event()

        async def cut_now_and_then() -> None:
            await until(lambda: proxy.cuts > 0)  # the first reply, at least
            chance = random.Random(7)
            for _ in range(200):  # then it is calm: a slow machine must get through, too
                if stop.is_set():
                    break
                await asyncio.sleep(0.01)
                proxy.cut_replies = chance.random() < 0.3
                if chance.random() < 0.2:
                    proxy.cut()
            proxy.cut_replies = False

        proxy.cut_replies = True
        cutting = asyncio.create_task(cut_now_and_then())
        for _ in range(150):
            await counter.update(lambda value: {"n": value["n"] + 1})
        stop.set()
        await cutting
        assert (await counter.get()).value == {"n": 150}


@pytest.mark.timing
async def test_an_answer_that_does_not_come_ends_in_time_and_unknown(valkey: RedisServer) -> None:
    async with Proxy(valkey.port) as proxy, opened(f"{proxy.url}?timeout=0.3") as engine:
        entity = new_entity()
        await only(engine, append_to(entity))
        proxy.freeze()
        start = WORLD.monotonic()
        with pytest.raises(StoreUnavailable, match="did not answer in time") as caught:
            await only(engine, append_to(entity))
        assert caught.value.applied == "unknown"
        assert 0.25 < WORLD.monotonic() - start < 3.0
        proxy.thaw()
        assert isinstance(await only(engine, append_to(entity)), Applied)


# --- callers that are cancelled ---------------------------------------------------------


async def test_a_cancelled_caller_never_leaves_its_reply_to_another(valkey: RedisServer) -> None:
    """Every reader asks for its own thread; none may ever see another's."""
    async with Proxy(valkey.port) as proxy, opened(proxy.url) as engine:
        entities = [new_entity() for _ in range(8)]
        for number, entity in enumerate(entities):
            await only(engine, append_to(entity, f'"{number}"'))
        proxy.delay = 0.002
        chance = random.Random(3)
        cancelled = 0

        async def read(number: int) -> None:
            fetched = await only(engine, Fetch(entities[number], log=Log(last=5)))
            assert isinstance(fetched, Fetched)
            assert fetched.lines == f'"{number}"'

        for number in count():
            assert number < 1000, "nearly all are done before they can be cancelled"
            if number >= 60 and cancelled > 50:
                break
            readers = [asyncio.create_task(read(number)) for number in range(8)]
            await asyncio.sleep(chance.uniform(0.0, 0.006))
            for reader in readers[::2]:
                cancelled += reader.cancel()
            results = await asyncio.gather(*readers, return_exceptions=True)
            for result in results:
                assert result is None or isinstance(result, asyncio.CancelledError), result


async def test_what_a_cancelled_caller_has_handed_over_is_stored(valkey: RedisServer) -> None:
    """Also where the server has to be given its scripts again first."""
    async with Proxy(valkey.port) as proxy, opened(proxy.url) as engine:
        for forget in (False, True):
            entity = new_entity()
            await only(engine, append_to(entity))
            proxy.freeze()
            if forget:
                assert valkey.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
            caller = asyncio.create_task(only(engine, append_to(entity)))
            await until(lambda: lent(engine._servers._pool) > 0)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            proxy.thaw()
            await until(lambda: not engine._tasks)
            assert await version_of(engine, entity) == 2


async def test_closing_waits_for_what_is_under_way(valkey: RedisServer) -> None:
    async with Proxy(valkey.port) as proxy:
        engine = an_engine(proxy.url)
        await engine.open()
        entity = new_entity()
        await only(engine, append_to(entity))
        proxy.freeze()
        caller = asyncio.create_task(only(engine, append_to(entity)))
        await until(lambda: lent(engine._servers._pool) > 0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        assert not closing.done()
        proxy.thaw()
        await closing
        async with opened(valkey.url) as other:
            assert await version_of(other, entity) == 2


# --- the server says no -----------------------------------------------------------------


async def test_scripts_that_the_server_forgets_are_given_again(valkey: RedisServer) -> None:
    """SCRIPT FLUSH under load: nobody notices."""
    async with opened(valkey.url) as engine:
        entities = [new_entity() for _ in range(20)]

        async def talk(entity: Entity) -> None:
            for number in range(30):
                commit = Commit(entity, WORLD.new_op(), (Append(("1",)), Put("doc", f"{number}")))
                assert isinstance(await only(engine, commit), Applied)
                await only(engine, Fetch(entity, log=Log(after=number, details=True)))

        async def forget() -> None:
            for _ in range(40):
                connection = await engine._servers._pool.borrow()
                await connection.ask(("SCRIPT", "FLUSH"))
                engine._servers._pool.give_back(connection)
                await asyncio.sleep(0.002)

        await asyncio.gather(forget(), *[talk(entity) for entity in entities])
        for entity in entities:
            assert await version_of(engine, entity) == 30


async def test_out_of_memory_says_so_and_reads_go_on(tmp_path: Path) -> None:
    with running(tmp_path / "small", "valkey", "--maxmemory", "6mb") as server:
        async with opened(server.url) as engine:
            entity = new_entity()
            body = '"' + "x" * 100_000 + '"'
            stored = 0
            with pytest.raises(StoreUnavailable, match="maxmemory") as caught:
                for _ in range(200):
                    await only(engine, append_to(entity, body))
                    stored += 1
            assert caught.value.applied == "no"
            assert stored > 5
            assert await version_of(engine, entity) == stored
            another = new_entity()
            with pytest.raises(StoreUnavailable, match="maxmemory") as caught:
                await only(engine, append_to(another, body))
            assert caught.value.applied == "no"
            assert await version_of(engine, another) == 0
            assert isinstance(await only(engine, Commit(entity, "drop", (Drop(),))), Applied)
            assert isinstance(await only(engine, append_to(another, body)), Applied)


@pytest.mark.parametrize("name", ["valkey", "redis8", "cluster"])
async def test_a_full_server_is_read_and_emptied(name: str, request: pytest.FixtureRequest) -> None:
    """Above its limit it queues nothing for a transaction. What only reads or deletes goes on."""
    it = request.getfixturevalue(name)
    nodes: list[RedisServer] = it.nodes if name == "cluster" else [it]
    patient = Policy(threads="raise", read_timeout=20.0, write_timeout=20.0)
    async with (
        stateward.open(it.url, namespace=WORLD.new_id(), policy=patient) as store,
        opened(it.url) as engine,
    ):
        thread = store.thread("t", user="u")
        await thread.append({"n": 1}, {"n": 2}, {"n": 3})
        await thread.edit({2: None})
        await thread.vars.put({"topic": "x"})
        await store.user("u").put({"a": 1})
        for number in range(20):
            await store.thread(f"{number}", user="u").append({"n": number})
        try:
            for node in nodes:
                assert node.ask("CONFIG", "SET", "maxmemory", "100kb") == b"+OK\r\n"
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await only(engine, append_to(new_entity()))
            window = await thread.load(last=2)
            assert [message["n"] for message in window.messages] == [1, 3]
            assert (await store.user("u").get()).value == {"a": 1}
            assert (await thread.vars.get()).value == {"topic": "x"}
            seen = await store.context(user="u", thread="t", last=2)
            assert [message["n"] for message in seen.thread.messages] == [1, 3]
            assert len([info async for info in store.threads(user="u")]) == 21
            assert len([change async for change in thread.changes(follow=False)]) == 2
            await thread.delete()
            assert not (await thread.load()).exists
            async for info in store.threads(user="u"):
                await store.thread(info.id, user="u").delete()
            assert [info async for info in store.threads(user="u")] == []
        finally:
            for node in nodes:
                node.ask("CONFIG", "SET", "maxmemory", "0")


async def test_one_node_that_would_evict_is_named(cluster: RedisCluster) -> None:
    """A cluster keeps only what each of its nodes does."""
    node = cluster.nodes[-1]
    async with opened(cluster.url) as engine:
        assert "DELETES" not in (await engine.describe()).durability
        node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            said = await engine.describe()
        finally:
            node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert f"pressure redis://127.0.0.1:{node.port} DELETES state" in said.durability
        assert said.settings["maxmemory_policy"] == "allkeys-lru"


def test_of_nodes_that_are_set_apart_the_weakest_counts() -> None:
    nodes = {
        "one": {"appendonly": "yes", "appendfsync": "always", "maxmemory_policy": "noeviction"},
        "two": {"appendonly": "yes", "appendfsync": "everysec", "maxmemory_policy": "noeviction"},
    }
    said = description_of(nodes, 1)
    assert "a crash of two loses about the last second" in said.durability
    assert said.settings["appendfsync_nodes"] == "two"
    assert "maxmemory_policy_nodes" not in said.settings
    said = description_of({**nodes, "three": {"appendonly": "no"}}, 1)
    assert "a crash of three loses everything since its last snapshot" in said.durability


async def test_a_user_is_erased_from_a_full_server(tmp_path: Path) -> None:
    """There is no room for the mark of it, until what the user had is gone."""
    impatient = Policy(threads="raise", write_timeout=0.5, breaker_failures=1_000_000)
    with running(tmp_path, "valkey", "--appendonly", "no", "--maxmemory", "6mb") as server:
        async with stateward.open(server.url, policy=impatient) as store:
            thread = store.thread("t", user="u")
            await store.thread("other", user="v").append({"n": 1})
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                for _ in range(10_000):
                    await thread.append({"text": "x" * 10_000})
            used = server.ask("INFO", "memory").decode().split("used_memory:")[1].split()[0]
            server.ask("CONFIG", "SET", "maxmemory", f"{int(used) - 100_000}")
            assert (await store.user("u").erase()).removed == {"thread": 1}
            assert not (await thread.load()).exists
            await thread.append({"n": "a new beginning"})

            server.ask("CONFIG", "SET", "maxmemory", "100kb")
            with pytest.raises(StoreUnavailable, match="make room, and erase again"):
                await store.user("v").erase()
            assert not (await store.thread("other").load()).exists
            server.ask("CONFIG", "SET", "maxmemory", "0")
            assert (await store.user("v").erase()).removed == {}


async def test_an_open_breaker_keeps_no_room_from_being_made(tmp_path: Path) -> None:
    policy = Policy(threads="raise", breaker_failures=3, breaker_seconds=600.0)
    with running(tmp_path, "valkey", "--appendonly", "no", "--maxmemory", "6mb") as server:
        async with stateward.open(server.url, policy=policy) as store:
            thread = store.thread("t", user="u")
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                for _ in range(10_000):
                    await thread.append({"text": "x" * 10_000})
            assert store.breaker == "open"
            assert (await store.user("u").erase()).removed == {"thread": 1}
            assert not (await thread.load()).exists


async def test_a_full_server_is_swept_of_what_has_expired(tmp_path: Path) -> None:
    """Also if the sweep meets what is not over yet: there it only corrects when that will be."""
    with running(tmp_path, "valkey", "--appendonly", "no") as server:
        start, day = time.time(), 86_400.0
        clock = [start - 5 * day]
        engine = RedisEngine(parse_server(parse(server.url), WORLD), lambda: clock[0])
        await engine.open()
        try:

            async def append(id: str, at: float, retain: float) -> None:
                clock[0] = at
                it = Entity("faults", "thread", id)
                writes = (Append(('"' + "x" * 5000 + '"',)),)
                await only(engine, Commit(it, WORLD.new_op(), writes, retain=retain))

            for number in range(50):
                await append(f"dead {number}", start - 5 * day, 3600.0)
                await append(f"late {number}", start - 31 * day - 60.0, 30 * day)
                await append(f"late {number}", start - 31 * day + 7000.0, 30 * day)
            clock[0] = start
            server.ask("CONFIG", "SET", "maxmemory", "100kb")
            removed, more = 0, True
            while more:
                swept = await only(engine, Sweep(100))
                assert isinstance(swept, Swept)
                removed, more = removed + swept.entities, swept.more
            assert removed == 50
            late = keys_of(Entity("faults", "thread", "late 0")).head
            assert server.ask("EXISTS", late) == b":1\r\n"
        finally:
            await engine.close()


async def test_a_server_that_is_loading_is_unavailable_until_it_has_loaded(tmp_path: Path) -> None:
    server = RedisServer(
        tmp_path / "loading", "valkey", "--appendonly", "yes", "--enable-debug-command", "yes"
    ).start()
    try:
        assert server.ask("DEBUG", "POPULATE", "200000", "filler", "10") == b"+OK\r\n"
        assert server.ask("BGREWRITEAOF").startswith(b"+")
        done = b"aof_rewrite_in_progress:0"
        await until(lambda: done in server.ask("INFO", "persistence"))
        server.kill()
        slowly = ("--key-load-delay", "50", "--loading-process-events-interval-bytes", "1024")
        server.settings = (*server.settings, *slowly)
        server.start(wait=False)
        await until(lambda: server.ask("PING").startswith(b"-LOADING"))
        engine = an_engine(server.url)
        with pytest.raises(StoreUnavailable, match="loading") as caught:
            await engine.open()
        assert caught.value.applied == "no"
        await engine.close()
    finally:
        server.stop()


async def test_a_server_that_is_busy_with_somebody_elses_script_is_unavailable(
    tmp_path: Path,
) -> None:
    settings = ("--busy-reply-threshold", "10", "--appendonly", "no")
    with running(tmp_path / "busy", "valkey", *settings) as server:
        async with opened(server.url) as engine:
            entity = new_entity()
            await only(engine, append_to(entity))
            endless = asyncio.create_task(
                asyncio.to_thread(server.ask, "EVAL", "while true do end", "0")
            )
            await until(lambda: server.ask("PING").startswith(b"-BUSY"))
            with pytest.raises(StoreUnavailable, match="busy") as caught:
                await only(engine, append_to(entity))
            assert caught.value.applied == "no"
            assert server.ask("SCRIPT", "KILL") == b"+OK\r\n"
            await endless
            assert isinstance(await only(engine, append_to(entity)), Applied)
            assert await version_of(engine, entity) == 2


async def test_a_replica_takes_no_writes(tmp_path: Path, valkey: RedisServer) -> None:
    replica = ("--replicaof", f"127.0.0.1 {valkey.port}", "--appendonly", "no")
    with running(tmp_path / "replica", "valkey", *replica) as server:
        async with opened(server.url) as engine:
            with pytest.raises(StoreUnavailable, match="replica") as caught:
                await only(engine, append_to(new_entity()))
            assert caught.value.applied == "no"


async def test_too_many_clients_is_unavailable(tmp_path: Path) -> None:
    with running(tmp_path / "full", "valkey", "--maxclients", "1", "--appendonly", "no") as server:
        async with opened(server.url):
            other = an_engine(server.url)
            with pytest.raises(StoreUnavailable) as caught:
                await other.open()
            assert caught.value.applied == "no"
            assert "clients" in str(caught.value)
            await other.close()


async def test_a_wrong_password_says_so(tmp_path: Path) -> None:
    with running(tmp_path / "locked", "valkey", "--requirepass", "a b@c") as server:
        async with opened(f"redis://:a%20b%40c@127.0.0.1:{server.port}") as engine:
            assert isinstance(await only(engine, append_to(new_entity())), Applied)
        for url, words in (
            (server.url, "password"),
            (f"redis://:wrong@127.0.0.1:{server.port}", "refused"),
        ):
            engine = an_engine(url)
            with pytest.raises(StoreUnavailable, match=words) as caught:
                await engine.open()
            assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
            await engine.close()


# --- replicas ---------------------------------------------------------------------------


async def test_a_write_waits_for_its_replicas_and_says_when_they_fall_short(tmp_path: Path) -> None:
    primary = RedisServer(tmp_path / "primary", "valkey", "--appendonly", "no").start()
    async with Proxy(primary.port) as link:
        settings = (
            *("--replicaof", f"127.0.0.1 {link.port}"),
            *("--appendonly", "no", "--repl-timeout", "60"),
        )
        replica = RedisServer(tmp_path / "replica", "valkey", *settings)
        try:
            replica.start()
            up = b"master_link_status:up"
            await until(lambda: up in replica.ask("INFO", "replication"))
            async with opened(f"{primary.url}?wait_replicas=1&timeout=0.6") as engine:
                entity = new_entity()
                commit = append_to(entity)
                assert isinstance(await only(engine, append_to(entity)), Applied)
                assert isinstance(await only(engine, commit), Applied)
                assert (await engine.describe()).settings["replicas"] == 1
                link.freeze()
                for again in (append_to(entity), commit, commit):
                    assert not is_replicated(await only(engine, again))
                reused = append_to(entity, key="k")
                assert not is_replicated(await only(engine, reused))
                refused = await only(engine, append_to(entity, "other", key="k"))
                assert isinstance(refused, KeyReused), "it is not stored, replicated or not"
                link.thaw()
                async with asyncio.timeout(20):
                    while not is_replicated(outcome := await only(engine, commit)):
                        pass
                assert isinstance(outcome, Duplicate)
        finally:
            replica.stop()
            primary.stop()


async def test_no_connection_is_lost_by_failures_and_cancellations(valkey: RedisServer) -> None:
    """As many callers as there may be connections, and more, can go on afterwards."""
    async with Proxy(valkey.port) as proxy, opened(f"{proxy.url}?timeout=2") as engine:
        chance = random.Random(11)
        entity = new_entity()
        await only(engine, append_to(entity))

        async def one() -> None:
            with suppress(StoreUnavailable, UnicodeEncodeError):
                if chance.random() < 0.1:
                    await only(engine, append_to(Entity("faults", "thread", "\ud800")))
                await only(engine, append_to(new_entity()))

        for _ in range(15):
            proxy.cut_replies = chance.random() < 0.3
            callers = [asyncio.create_task(one()) for _ in range(30)]
            await asyncio.sleep(chance.uniform(0.0, 0.01))
            for caller in callers[::3]:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
        proxy.cut_replies = False
        await until(lambda: not engine._tasks)
        pool = engine._servers._pool
        assert lent(pool) == 0
        borrowed = [await pool.borrow() for _ in range(MOST)]
        for connection in borrowed:
            assert await connection.ask(("PING",)) == [b"PONG"]
            pool.give_back(connection)


# --- keys that somebody removed ---------------------------------------------------------


def damaged(server: RedisServer, namespace: str) -> list[str]:
    """Threads, of one of which somebody has deleted a key by hand; that one is the eighth."""
    ids = [f"t{n}" for n in range(20)]
    with stateward.sync.open(server.url, namespace=namespace, spill=False) as store:
        for id in ids:
            store.thread(id).append({"said": id})
    _, log, *_ = keys_of(Entity(namespace, "thread", ids[7])).own
    assert server.ask("DEL", log) == b":1\r\n"
    return ids


async def test_one_damaged_thread_fails_only_those_who_read_it(valkey: RedisServer) -> None:
    ids = await asyncio.to_thread(damaged, valkey, "damaged")
    async with stateward.open(valkey.url, namespace="damaged", spill=False) as store:
        reads = (store.thread(id).load() for id in ids)
        found = await asyncio.gather(*reads, return_exceptions=True)
    assert [id for id, each in zip(ids, found, strict=True) if isinstance(each, Exception)] == [
        "t7"
    ]
    assert isinstance(found[7], SchemaError)


def test_one_damaged_thread_fails_only_the_threads_that_read_it(valkey: RedisServer) -> None:
    ids = damaged(valkey, "damaged-too")
    start = threading.Barrier(len(ids))
    with (
        stateward.sync.open(valkey.url, namespace="damaged-too", spill=False) as store,
        ThreadPoolExecutor(len(ids)) as pool,
    ):

        def read(id: str) -> Exception | None:
            start.wait()
            try:
                assert store.thread(id).load().messages == [{"said": id}]
            except SchemaError as error:
                return error
            return None

        failed = list(pool.map(read, ids))
    assert [id for id, error in zip(ids, failed, strict=True) if error] == ["t7"]
