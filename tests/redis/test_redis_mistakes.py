"""What the server rejects because of the call itself is no failure of the store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from servers.redis import RedisServer
from servers.redis_cluster import RedisCluster
from test_redis_cluster_sweep import Asked

import stateward
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.keys import head_key
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.ops import Append, Commit, Entity, Fetch, List, Log, Op, Sweep
from stateward.world import World

EDGES = (2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1)


@pytest.fixture(params=["one server", "cluster"])
def url(request: pytest.FixtureRequest, valkey: RedisServer, cluster: RedisCluster) -> str:
    return valkey.url if request.param == "one server" else cluster.url


def calls(thread: Entity) -> list[Op]:
    """Every number of a read, far beyond any sense."""
    space = thread.namespace
    asked: list[Op] = []
    for edge in EDGES:
        for details in (False, True):
            logs = (Log(after=edge), Log(upto=edge), Log(first=edge), Log(last=edge))
            asked += [Fetch(thread, log=replace(log, details=details)) for log in logs]
        if edge > 0:
            asked += [List(space, "thread", limit=edge), List(space, "thread", "u", limit=edge)]
            asked += [List(space, "thread", recent=True, limit=edge), Sweep(edge)]
            asked += [List(space, "thread", due=True, limit=edge), List(space, within=thread)]
            asked += [List(space, tally="owner", limit=edge)]
    return asked


@pytest.mark.parametrize("blocking", [False, True], ids=["loop", "blocking"])
async def test_no_number_is_taken_for_an_outage(url: str, blocking: bool) -> None:
    thread = Entity(World().new_id(), "thread", "t")
    refused = 0
    async with Asked(url, blocking) as engine:
        await engine.execute([Commit(thread, "op", (Append(("1", "2")),), (), "u")])
        for op in calls(thread):
            try:
                await engine.execute([op])
            except StoreUnavailable as error:
                raise AssertionError(f"{op}: {error}") from error
            except (InvalidInput, stateward.SchemaError):
                refused += 1
    assert refused > 5, "the server has rejected some"


async def test_a_key_of_another_type_fails_its_own_entity_alone(url: str) -> None:
    """Neither are others refused who share a batch with it, nor does the breaker open."""
    space = World().new_id()
    async with stateward.open(url, namespace=space) as store:
        await asyncio.gather(*[store.thread(f"t{n}").append({"n": 0}) for n in range(10)])
        async with Asked(url, False) as engine:
            servers = engine._engine._servers
            key = head_key(Entity(space, "thread", "t0"))
            for command in (("UNLINK", f"{key}:log"), ("HSET", f"{key}:log", "a", "b")):
                await servers.trip([PipelineStep(key, (command,))])
        for number in range(1, 30):
            mine = [store.thread(f"t{n}").append({"n": number}) for n in range(10)]
            first, *others = await asyncio.gather(*mine, return_exceptions=True)
            assert isinstance(first, InvalidInput), first
            assert "WRONGTYPE" in str(first)
            statuses = [getattr(other, "status", other) for other in others]
            assert statuses == ["stored"] * 9
        health = await store.health()
        assert (health.breaker, health.spill_depth) == ("closed", 0)
