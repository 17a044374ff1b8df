"""A store that was filled before there was an index of what was touched last lists all it has.

That is one server; a cluster of before is in `test_redis_spread.py`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import pytest
from servers.redis import RedisServer

import stateward
from stateward.engines.redis import backfill
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import looking, parse
from stateward.ops import Append, Commit, Drop, Entity, List, Listed, SetHead
from stateward.world import World

WORLD = World()
USERS = ("u-0", "u-1", "")


def engine_on(url: str) -> RedisEngine:
    """A process of its own: it knows of nothing."""
    return RedisEngine(parse_server(parse(url), WORLD))


async def commit(engine: RedisEngine, namespace: str, id: str, write: Any, **more: Any) -> None:
    entity = Entity(namespace, "thread", id)
    await engine.execute([Commit(entity, WORLD.new_op(), (write,), **more)])


async def fill(server: RedisServer, namespace: str, count: int) -> None:
    """As an older release left it: in every index but those of what was touched."""
    engine = engine_on(server.url)
    await engine.open()
    for number in range(count):
        owner = USERS[number % 3]
        await commit(engine, namespace, f"{number:04}", Append(("{}",)), owner=owner)
    await commit(engine, namespace, "0000", Drop())
    await engine.close()
    for name in server.ask("KEYS", "stateward:*").decode().split("\r\n"):
        if f"{{{quote(namespace)}" in name and (":touched" in name or ":owners:" in name):
            server.ask("DEL", name)


def newest(namespace: str, owner: str | None = None, limit: int = 1000) -> List:
    return List(namespace, "thread", owner, recent=True, limit=limit)


async def listed(engine: RedisEngine, op: List) -> Listed:
    (page,) = await engine.execute([op])
    assert isinstance(page, Listed)
    return page


async def ids(engine: RedisEngine, namespace: str, owner: str | None = None) -> set[str]:
    page = await listed(engine, newest(namespace, owner))
    return {found.entity.id for found in page.entities}


def numbers(*wanted: int, count: int) -> set[str]:
    return {f"{n:04}" for n in range(1, count) if n % 3 in wanted}


async def test_an_old_store_lists_all_it_has(valkey: RedisServer) -> None:
    namespace, count = "old", 40
    await fill(valkey, namespace, count)
    engine = engine_on(valkey.url)
    await engine.open()
    try:
        for number, user in enumerate(USERS):
            assert await ids(engine, namespace, user) == numbers(number, count=count)
        assert await ids(engine, namespace) == numbers(0, 1, 2, count=count)
        owners = await listed(engine, List(namespace, "thread", tally="owner"))
        assert owners.tally == {"u-0": 13, "u-1": 13}
    finally:
        await engine.purge(namespace)
        await engine.close()


async def test_counts_alone_are_right_too(valkey: RedisServer) -> None:
    await fill(valkey, "counted", 40)
    engine = engine_on(valkey.url)
    await engine.open()
    try:
        mine = await listed(engine, List("counted", owner="u-1", tally="kind"))
        assert mine.tally == {"thread": 13}
        owners = await listed(engine, List("counted", tally="owner"))
        assert owners.tally == {"u-0": 13, "u-1": 13}
    finally:
        await engine.purge("counted")
        await engine.close()


async def test_a_large_one_is_entered_by_several_listings_and_a_user_sees_all_at_once(
    valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each listing does a bounded part, in whatever process, and the next goes on from there."""
    monkeypatch.setattr(backfill, "TOGETHER", 5)
    monkeypatch.setattr(backfill, "ROUNDS", 4)
    count = 58
    await fill(valkey, "many", count)
    seen: list[int] = []
    for _ in range(3):
        engine = engine_on(valkey.url)
        await engine.open()
        assert await ids(engine, "many", "u-1") == numbers(1, count=count)
        seen.append(len(await ids(engine, "many")))
        await engine.close()
    assert seen[0] < seen[1] < seen[2] == count - 1
    assert valkey.ask("HGET", "stateward:format:{many}", "touched").endswith(b"2\r\n")
    await purge(valkey, "many")


async def purge(server: RedisServer, namespace: str) -> None:
    engine = engine_on(server.url)
    await engine.open()
    await engine.purge(namespace)
    await engine.close()


async def test_writers_beside_it_are_not_overwritten(
    valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They append, drop and give away while it is entered; sizes of indexes are right after it."""
    monkeypatch.setattr(backfill, "TOGETHER", 3)
    count = 60
    await fill(valkey, "busy", count)
    engine, writer = engine_on(valkey.url), engine_on(valkey.url)
    await engine.open()
    await writer.open()

    async def write() -> None:
        for number in range(1, count):
            id = f"{number:04}"
            if number % 4 == 0:
                await commit(writer, "busy", id, Drop())
            elif number % 4 == 1:
                await commit(writer, "busy", id, SetHead(owner="u-2"))
            elif number % 4 == 2:
                await commit(writer, "busy", id, Append(("{}",)))

    try:
        async with asyncio.timeout(60):
            await asyncio.gather(write(), *[ids(engine, "busy", user) for user in USERS])
            await engine.migrate()
        kept = {n for n in range(1, count) if n % 4}
        given = {n for n in kept if n % 4 == 1}
        for number, user in enumerate((*USERS, "u-2")):
            wanted = given if user == "u-2" else {n for n in kept - given if n % 3 == number}
            (tally,) = await engine.execute([List("busy", owner=user, tally="kind")])
            assert isinstance(tally, Listed)
            assert tally.tally == {"thread": len(wanted)}
            assert await ids(engine, "busy", user) == {f"{n:04}" for n in wanted}
        page = await listed(engine, newest("busy"))
        times = [found.head.updated for found in page.entities]
        assert times == sorted(times, reverse=True)
    finally:
        await engine.purge("busy")
        await engine.close()
        await writer.close()


def migrated(url: str) -> Any:
    words = [sys.executable, "-m", "stateward", "migrate", url, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["applied"]


async def test_the_command_enters_all_there_is_and_says_so_once(valkey: RedisServer) -> None:
    url = valkey.url
    for namespace in ("one", "two of them"):
        await fill(valkey, namespace, 10)
    assert await asyncio.to_thread(migrated, url) == ["0002_touched"]
    assert await asyncio.to_thread(migrated, url) == []
    engine = engine_on(url)
    await engine.open()
    try:
        for namespace in ("one", "two of them"):
            assert await ids(engine, namespace) == numbers(0, 1, 2, count=10)
    finally:
        for namespace in ("one", "two of them"):
            await engine.purge(namespace)
        await engine.close()


async def test_a_sidebar_shows_conversations_from_before(valkey: RedisServer) -> None:
    await fill(valkey, "sidebar", 10)
    async with stateward.open(valkey.url, namespace="sidebar") as store:
        shown = [it.id async for it in store.threads(user="u-1", order="recent", limit=50)]
        assert sorted(shown) == ["0001", "0004", "0007"]
    await purge(valkey, "sidebar")


async def test_who_only_looks_enters_nothing(valkey: RedisServer) -> None:
    await fill(valkey, "looked-at", 10)
    before = sorted(valkey.ask("KEYS", "stateward:*").split())
    engine = engine_on(looking(parse(valkey.url)).text)
    await engine.open()
    assert await ids(engine, "looked-at") == set()
    await engine.close()
    assert sorted(valkey.ask("KEYS", "stateward:*").split()) == before


@pytest.mark.parametrize("namespace", ["full", "new"])
async def test_a_server_that_is_full_still_lists(valkey: RedisServer, namespace: str) -> None:
    await fill(valkey, "full", 10)
    engine = engine_on(valkey.url)
    await engine.open()
    try:
        valkey.ask("CONFIG", "SET", "maxmemory", "1")
        assert await ids(engine, namespace) == set()
        valkey.ask("CONFIG", "SET", "maxmemory", "0")
        expected = numbers(0, 1, 2, count=10) if namespace == "full" else set()
        assert await ids(engine, namespace) == expected
    finally:
        valkey.ask("CONFIG", "SET", "maxmemory", "0")
        await engine.purge("full")
        await engine.close()
