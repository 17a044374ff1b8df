"""The index of a cluster is in parts: each node has that of what it has, and none has all of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from servers.redis import RedisServer
from servers.redis_cluster import PRIMARIES, RedisCluster, running_cluster

import stateward
from stateward import Policy, StoreUnavailable
from stateward.engines.redis.batch import Batch, plan_of
from stateward.engines.redis.client.slots import SLOTS, slot_of
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import TAGS, keys_of, owner_index, spread_keys
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import SchemaError
from stateward.ops import Append, Applied, Commit, Entity, List, Listed, SetHead
from stateward.world import World

WORLD = World()
HOUR = 3600.0


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisEngine]:
    """A process of its own: it knows of nothing."""
    engine = RedisEngine(parse_server(parse(url), WORLD))
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def node_of(key: str) -> int:
    return slot_of(key) * PRIMARIES // SLOTS


async def listed(engine: RedisEngine, op: List) -> Listed:
    (page,) = await engine.execute([op])
    assert isinstance(page, Listed)
    return page


async def all_of(engine: RedisEngine, namespace: str, **asked: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await listed(engine, List(namespace, after=after, **asked))
        found += [each.entity.id for each in page.entities]
        after = page.next
        if after is None:
            return found


async def begin(engine: RedisEngine, entity: Entity, *more: Any, **options: Any) -> None:
    commit = Commit(entity, WORLD.new_op(), (Append(("{}",)), *more), **options)
    (outcome,) = await engine.execute([commit])
    assert isinstance(outcome, Applied)


def keys_on(node: RedisServer, text: str) -> list[str]:
    names = node.ask("KEYS", f"*{text}*").decode(errors="replace").split("\r\n")
    return [name for name in names if name.startswith("stateward:")]


# --- where things are -------------------------------------------------------------------


def test_every_part_is_in_the_middle_of_the_slots_that_it_is_for() -> None:
    for part, tag in enumerate(TAGS):
        place = slot_of(f"{{{tag}}}") * len(TAGS) / SLOTS - part
        assert 0.25 < place < 0.75
    for nodes in (2, 3, 4, 6, 8, 12):
        shares = Counter(slot_of(f"{{{tag}}}") * nodes // SLOTS for tag in TAGS)
        assert set(shares.values()) == {len(TAGS) // nodes}


def test_a_node_has_the_index_of_what_it_has() -> None:
    for number in range(500):
        entity = Entity("where", "thread", f"t-{number}")
        keys = spread_keys(entity)
        index = {
            keys.kinds,
            keys.ids,
            keys.statuses,
            keys.due,
            keys.sweep,
            keys.touched,
            keys.owners,
        }
        assert {node_of(key) for key in index} == {node_of(keys.head)}


async def test_new_conversations_are_spread_over_all_nodes(cluster: RedisCluster) -> None:
    """Each primary has about a third of the index, and nothing of the form of one server."""
    async with opened(cluster.url) as engine:
        try:
            for number in range(150):
                entity = Entity("spread-out", "thread", f"t-{number}")
                await begin(engine, entity, owner=f"u-{number}", retain=HOUR)
            members = []
            for node in cluster.nodes:
                names = keys_on(node, "spread-out")
                assert not [name for name in names if "{spread-out}" in name]
                assert not [name for name in names if "{spread-out:thread}" in name]
                ids = [name for name in names if name.endswith(":kind:spread-out:thread")]
                members.append(sum(int(node.ask("ZCARD", name)[1:]) for name in ids))
            assert sum(members) == 150
            assert min(members) > 30
        finally:
            await engine.purge("spread-out")


async def test_one_server_keeps_its_index_in_one_place(valkey: RedisServer) -> None:
    async with opened(valkey.url) as engine:
        try:
            for number in range(30):
                entity = Entity("not-spread", "thread", f"t-{number}")
                await begin(engine, entity, owner=f"u-{number}", retain=HOUR)
            assert not [name for name in keys_on(valkey, "not-spread") if ":part:" in name]
            assert valkey.ask("ZCARD", "stateward:kind:{not-spread:thread}") == b":30\r\n"
        finally:
            await engine.purge("not-spread")


async def rounds_of(engine: RedisEngine, op: Any) -> int:
    """How many round trips an operation takes, to all nodes at once."""
    batch, taken = Batch([plan_of(op, engine._traits)], engine._traits), 0
    settled = False
    while not settled:
        settled = batch.go_on(await engine._servers.trip(batch.steps))
        taken += 1
    return taken


async def test_a_listing_takes_no_more_rounds_than_with_one_index(cluster: RedisCluster) -> None:
    """The index and then the heads; what was as short a moment ago is guessed."""
    async with opened(cluster.url) as engine:
        try:
            for number in range(300):
                owner = "u" if number % 2 else ""
                await begin(engine, Entity("rounds", "thread", f"t-{number}"), owner=owner)
            await begin(engine, Entity("rounds", "lone", "t"))
            await listed(engine, List("rounds", "lone", limit=100))
            for limit in (1, 20, 100):
                for op in (
                    List("rounds", "thread", limit=limit),
                    List("rounds", "thread", limit=limit, reverse=True),
                    List("rounds", "thread", limit=limit, recent=True),
                    List("rounds", "thread", "u", limit=limit, recent=True),
                ):
                    assert await rounds_of(engine, op) == 2
            assert await rounds_of(engine, List("rounds", "lone", limit=100)) == 1
        finally:
            await engine.purge("rounds")


async def test_a_first_append_takes_two_rounds_and_the_next_one(cluster: RedisCluster) -> None:
    async with opened(cluster.url) as engine:
        try:
            entity = Entity("begun", "thread", "t")
            for taken in (2, 1):
                commit = Commit(entity, WORLD.new_op(), (Append(("{}",)),), owner="u", retain=HOUR)
                assert await rounds_of(engine, commit) == taken
        finally:
            await engine.purge("begun")


@pytest.mark.parametrize("off", [-HOUR, HOUR])
async def test_a_caller_whose_clock_is_wrong_begins_conversations_too(
    cluster: RedisCluster, off: float
) -> None:
    """The entity's node does not agree, and the index is written by the servers' clocks."""

    class Wrong(World):
        def now(self) -> float:
            return super().now() + off

    engine = RedisEngine(parse_server(parse(cluster.url), Wrong()))
    await engine.open()
    try:
        ids = [f"t-{number}" for number in range(5)]
        for id in ids:
            await begin(engine, Entity("wrong", "thread", id), owner="u", retain=HOUR)
        assert not engine._traits.agreed
        assert await all_of(engine, "wrong", kind="thread") == ids
        assert sorted(await all_of(engine, "wrong", kind="thread", recent=True)) == ids
    finally:
        await engine.purge("wrong")
        await engine.close()


# --- pages ------------------------------------------------------------------------------


async def test_pages_go_through_all_parts_in_order(cluster: RedisCluster) -> None:
    """Also where one part has most of a page: the ids are of few slots."""
    async with opened(cluster.url) as engine:
        draw = (Entity("paged", "thread", f"t-{number:05}") for number in count())
        few = {0, 1, 7}
        entities = [
            next(
                e for e in draw if number % 4 == 0 or slot_of(keys_of(e).head) * 24 // SLOTS in few
            )
            for number in range(160)
        ]
        ids = [entity.id for entity in entities]
        try:
            for at, entity in enumerate(entities):
                head = SetHead(status="open" if at % 2 else "done", due=1.0 + at)
                await begin(engine, entity, head, owner="u")
            for limit in (3, 17, 50):
                asked: dict[str, Any] = {"kind": "thread", "limit": limit}
                assert await all_of(engine, "paged", **asked) == ids
                assert await all_of(engine, "paged", limit=limit) == ids
                assert await all_of(engine, "paged", reverse=True, **asked) == ids[::-1]
                assert await all_of(engine, "paged", status="open", **asked) == ids[1::2]
                assert await all_of(engine, "paged", due=True, **asked) == ids
                assert await all_of(engine, "paged", due=True, reverse=True, **asked) == ids[::-1]
                for owner in (None, "u"):
                    recent = await all_of(engine, "paged", owner=owner, recent=True, **asked)
                    assert sorted(recent) == ids
        finally:
            await engine.purge("paged")


# --- keys that were copied from one server ----------------------------------------------


async def test_a_cluster_with_the_index_of_one_server_is_not_listed(
    valkey: RedisServer, cluster: RedisCluster
) -> None:
    """All is there, but for whoever lists it, it would not be."""
    entity = Entity("copied", "thread", "t")
    async with opened(valkey.url) as engine:
        await begin(engine, entity, owner="u")
    for name in keys_on(valkey, "copied"):
        to = ("127.0.0.1", str(cluster.nodes[node_of(name)].port), name, "0", "5000", "REPLACE")
        assert valkey.ask("MIGRATE", *to) == b"+OK\r\n"
    async with opened(cluster.url) as engine:
        for op in (
            List("copied"),
            List("copied", "thread"),
            List("copied", "thread", "u", recent=True),
            List("copied", tally="owner"),
        ):
            with pytest.raises(SchemaError, match="stateward copy"):
                await listed(engine, op)
        assert (await listed(engine, List("another", "thread"))).entities == ()
    cluster.empty()


# --- a node that hangs ------------------------------------------------------------------

# What asks the node that hangs is not given up before everything else has been done.
PATIENT = Policy(read_timeout=5.0, write_timeout=60.0, threads="raise")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """With no replicas: a node that hangs stays the primary of its slots."""
    with running_cluster(tmp_path_factory.mktemp("hanging"), replicas=0) as cluster:
        for node in cluster.nodes:
            assert node.ask("CONFIG", "SET", "cluster-node-timeout", "120000") == b"+OK\r\n"
        yield cluster


def node_of_thread(id: str) -> int:
    return node_of(keys_of(Entity("hung", "thread", id)).head)


def owner_at(node: int) -> str:
    names = (f"u-{each}" for each in count())
    return next(name for name in names if node_of(owner_index("hung", name)) == node)


HUNG = 1
ELSEWHERE = [f"t-{n}" for n in range(40) if node_of_thread(f"t-{n}") != HUNG]
THERE = next(f"t-{n}" for n in range(40) if node_of_thread(f"t-{n}") == HUNG)


async def test_a_node_that_hangs_holds_up_only_what_it_has(nodes: RedisCluster) -> None:
    """Its neighbours' conversations are begun, appended to and loaded; a listing fails in time."""
    nodes.empty()
    old, new = ELSEWHERE[::2], ELSEWHERE[1::2]
    url = f"{nodes.url}?timeout=60"
    async with stateward.open(url, namespace="hung", policy=PATIENT, spill=False) as store:
        for number, id in enumerate(old):
            await store.thread(id, user=owner_at(number % 3)).append({"role": "user"})
        nodes.nodes[HUNG].pause()
        try:
            held = asyncio.create_task(store.thread(THERE).append({"role": "user"}))
            async with asyncio.timeout(50):
                for number, id in enumerate(old):
                    thread = store.thread(id, user=owner_at(number % 3))
                    await thread.append({"role": "assistant"})
                    assert len((await thread.load()).messages) == 2
                for id in new:
                    await store.thread(id, user=owner_at(0)).append({"role": "user"})
                assert not held.done()
                with pytest.raises(StoreUnavailable):
                    [each async for each in store.threads()]
        finally:
            nodes.nodes[HUNG].resume()
        await held
        assert {each.id async for each in store.threads()} == {*old, *new, THERE}


async def test_so_it_does_when_the_index_is_told_of_another_minute(nodes: RedisCluster) -> None:
    """Also of owners whose list is on the node that hangs."""
    nodes.empty()
    now = [1_700_000_000.0]
    engine = RedisEngine(parse_server(parse(f"{nodes.url}?timeout=5"), WORLD), lambda: now[0])
    await engine.open()
    try:
        for number, id in enumerate(ELSEWHERE):
            await begin(engine, Entity("hung", "thread", id), owner=owner_at(number % 3))
        nodes.nodes[HUNG].pause()
        try:
            now[0] += 60.0
            for id in ELSEWHERE:
                await begin(engine, Entity("hung", "thread", id))
        finally:
            nodes.nodes[HUNG].resume()
        now[0] += 60.0
        await begin(engine, Entity("hung", "thread", THERE))
        newest = await all_of(engine, "hung", kind="thread", recent=True)
        assert newest == [THERE, *sorted(ELSEWHERE, reverse=True)]
    finally:
        await engine.close()
