"""A namespace that nobody uses any more is removed without a trace, and no other is touched."""

from __future__ import annotations

from servers.redis import RedisServer
from servers.redis_cluster import RedisCluster

from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.ops import Append, Commit, Drop, Entity, Fetch, Fetched, Put, SetHead
from stateward.world import World

WORLD = World()


async def fill(engine: RedisEngine, namespace: str, count: int) -> None:
    for number in range(count):
        entity = Entity(namespace, f"kind\x00{number % 3}", f"{{id}}:{number}")
        writes = (Append(("1", "2"), key="k"), Put("d", "1"), SetHead(status="s", due=1.0))
        owner = f"u{number % 3}" if number % 2 else None
        await engine.execute((Commit(entity, WORLD.new_op(), writes, owner=owner, retain=100.0),))


async def test_nothing_of_a_purged_namespace_is_left(valkey: RedisServer) -> None:
    engine = RedisEngine(parse_server(parse(valkey.url), WORLD))
    await engine.open()
    try:
        await fill(engine, "purging: kept", 3)
        before = valkey.ask("DBSIZE")
        await fill(engine, "purging: gone", 450)
        assert valkey.ask("DBSIZE") != before
        assert await engine.purge("purging: gone") == 450
        assert valkey.ask("DBSIZE") == before
        assert await engine.purge("purging: gone") == 0
        kept = Entity("purging: kept", "kind\x001", "{id}:1")
        (found,) = await engine.execute((Fetch(kept),))
        assert isinstance(found, Fetched)
        assert found.head.exists
        await fill(engine, "purging: gone", 1)  # and it can be used anew
        assert await engine.purge("purging: gone") == 1
        await engine.purge("purging: kept")
    finally:
        await engine.close()


def names(cluster: RedisCluster) -> set[bytes]:
    """What all nodes keep."""
    return {line for node in cluster.nodes for line in node.ask_all([("KEYS", "*")]).split(b"\r\n")}


async def test_a_cluster_keeps_nothing_either(cluster: RedisCluster) -> None:
    engine = RedisEngine(parse_server(parse(cluster.url), WORLD))
    await engine.open()
    try:
        before = names(cluster)
        await fill(engine, "purging", 60)
        entity = Entity("purging", "kind\x000", "{id}:0")
        await engine.execute((Commit(entity, WORLD.new_op(), (Put("d", "2"),)),))
        assert await engine.purge("purging") == 60
        assert names(cluster) <= before  # some of other tests may have expired
    finally:
        await engine.close()


async def test_a_server_says_how_many_connections_it_takes_and_how_far_replicas_are_behind(
    valkey: RedisServer,
) -> None:
    engine = RedisEngine(parse_server(parse(valkey.url), WORLD))
    await engine.open()
    try:
        said = (await engine.describe()).settings
        assert said["maxclients"] == 10_000
        assert said["connected_clients"] >= 1
        assert said["replication_lag_bytes"] == 0
    finally:
        await engine.close()


async def test_a_dropped_entity_is_not_listed_and_so_stays_a_mark(valkey: RedisServer) -> None:
    engine = RedisEngine(parse_server(parse(valkey.url), WORLD))
    await engine.open()
    try:
        await fill(engine, "purging: dropped", 2)
        first = Entity("purging: dropped", "kind\x000", "{id}:0")
        await engine.execute((Commit(first, WORLD.new_op(), (Drop(),)),))
        assert await engine.purge("purging: dropped") == 1
    finally:
        await engine.close()
