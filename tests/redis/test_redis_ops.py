"""Remembered ops: an everyday append is known by its mark alone, and still stored only once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from servers.redis import RedisServer

from stateward.engines.redis import scripts
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import SchemaError
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    List,
    Log,
    Op,
    Outcome,
    Put,
    SetHead,
    Sweep,
    Trim,
    Write,
)
from stateward.world import World

WORLD = World()
DAY = 86_400.0


class Clock:
    now = 1_700_000_100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(server: RedisServer, clock: Clock | None = None) -> AsyncIterator[RedisEngine]:
    engine = RedisEngine(parse_server(parse(server.url), WORLD), clock)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def new_thread() -> Entity:
    return Entity("ops", "thread", WORLD.new_id())


def commit(entity: Entity, *writes: Write, op: str | None = None) -> Commit:
    return Commit(entity, op or WORLD.new_op(), writes or (Append(('"1"', '"2"')),))


async def only(engine: RedisEngine, op: Op) -> Outcome:
    return (await engine.execute((op,)))[0]


async def version_of(engine: RedisEngine, entity: Entity) -> int:
    fetched = await only(engine, Fetch(entity))
    assert isinstance(fetched, Fetched)
    return fetched.head.version


def length_of(server: RedisServer, key: str) -> int:
    return int(server.ask("HLEN", key)[1:])


async def stored(engine: RedisEngine, *commits: Commit) -> list[Applied]:
    """One after the other, and everyone of them."""
    outcomes = []
    for each in commits:
        outcome = await only(engine, each)
        assert isinstance(outcome, Applied)
        outcomes.append(outcome)
    return outcomes


async def check_known(engine: RedisEngine, commits: list[Commit], first: list[Applied]) -> None:
    """Each is answered as it was at first, and nothing is stored."""
    for again, outcome in zip(commits, first, strict=True):
        duplicate = await only(engine, again)
        assert isinstance(duplicate, Duplicate)
        assert duplicate.own
        assert duplicate.first == outcome


async def test_everyday_appends_are_known_by_their_marks(valkey: RedisServer) -> None:
    async with opened(valkey) as engine:
        thread = new_thread()
        ops = keys_of(thread).own[5]
        commits = [
            commit(thread, Append(('"0"',), key="k")),
            commit(thread),
            commit(thread, Append(('"3"',), key="k3")),
            commit(thread, Append(('"4"',), note='"a note"')),
            commit(thread, Append(('"5"',), key="k5", note='"a note"')),
            commit(thread, Append(('"6"', '"7"', '"8"'))),
        ]
        first = await stored(engine, *commits)
        assert length_of(valkey, ops) == 1  # that which created it
        await check_known(engine, commits, first)
        assert await version_of(engine, thread) == 9


async def test_a_first_try_that_arrives_after_its_repetition_is_not_stored(
    valkey: RedisServer,
) -> None:
    """It was held up on its way; meanwhile another process has tried again, and others went on."""
    async with opened(valkey) as engine, opened(valkey) as other:
        thread = new_thread()
        await stored(engine, commit(thread))
        late, later = commit(thread), commit(thread)
        await stored(other, later, late, commit(thread))
        assert isinstance(await only(engine, late), Duplicate)
        assert isinstance(await only(engine, later), Duplicate)
        assert await version_of(engine, thread) == 8


@pytest.mark.parametrize("order", ["reversed", "in turns"])
async def test_ops_in_another_order_than_they_were_drawn_in_are_stored_once(
    valkey: RedisServer, order: str
) -> None:
    async with opened(valkey) as engine:
        thread = new_thread()
        drawn = [commit(thread) for _ in range(80)]
        commits = drawn[::-1] if order == "reversed" else drawn[::2] + drawn[1::2]
        first = await stored(engine, *commits)
        await check_known(engine, commits, first)
        assert await version_of(engine, thread) == 160


async def test_ops_are_compared_by_bytes_whatever_the_server_s_language_is(
    valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scripts.WORDS, "BY_BYTES", "(false)")
    script = scripts._load("append_one").text
    async with opened(valkey) as engine:
        thread = new_thread()
        await stored(engine, commit(thread, op="m-Z"), commit(thread, op="m-a"))
        told = [
            valkey.ask("EVAL", script, "1", keys_of(thread).head, op, "", '"3"')[:2]
            for op in ("m", "m-_", "m-a", "m-a0", "m-a", "é", "z")
        ]
        refused, applied = b":0", b"*2"
        assert told == [refused, refused, refused, applied, refused, applied, refused]
        assert await version_of(engine, thread) == 6


async def test_ops_are_known_after_their_entries_are_gone(valkey: RedisServer) -> None:
    async with opened(valkey) as engine:
        trimmed, dropped = new_thread(), new_thread()
        for thread, end in ((trimmed, Trim(5)), (dropped, Drop())):
            commits = [commit(thread) for _ in range(3)]
            first = await stored(engine, *commits)
            await stored(engine, commit(thread, end))
            await check_known(engine, commits, first)
            after = [commit(thread) for _ in range(2)]
            later = await stored(engine, *after)
            await check_known(engine, [*commits, *after], [*first, *later])
        assert await version_of(engine, trimmed) == 10
        assert await version_of(engine, dropped) == 4


async def test_ops_are_known_in_the_life_after_their_own(valkey: RedisServer) -> None:
    clock = Clock()
    async with opened(valkey, clock) as engine:
        thread = new_thread()
        commits = [
            Commit(thread, WORLD.new_op(), (Append(('"1"',)),), retain=10.0) for _ in range(3)
        ]
        first = await stored(engine, *commits)
        clock.now += 11
        await check_known(engine, commits, first)
        (applied,) = await stored(engine, commit(thread))
        assert (applied.version, applied.created) == (2, True)
        await check_known(engine, commits, first)


async def test_all_ops_of_a_call_s_time_are_known_however_many(valkey: RedisServer) -> None:
    """And long after it at least the last 64."""
    clock = Clock()
    async with opened(valkey, clock) as engine:
        thread = new_thread()
        commits = [commit(thread, Append(('"1"',))) for _ in range(1200)]
        first = await stored(engine, *commits)
        await check_known(engine, commits[:3], first[:3])
        clock.now += 3600
        quiet = new_thread()
        commits = [commit(quiet, Append(('"1"',))) for _ in range(100)]
        first = await stored(engine, *commits)
        clock.now += 3600
        await check_known(engine, commits[-64:], first[-64:])


async def test_an_outcome_with_documents_outlives_the_appends_around_it(
    valkey: RedisServer,
) -> None:
    async with opened(valkey) as engine:
        thread = new_thread()
        written = commit(thread, Append(('"1"',)), Put("d", "1"))
        commits = [commit(thread), commit(thread), written, commit(thread), commit(thread)]
        first = await stored(engine, *commits)
        assert first[2].documents == {"d": 1}
        await stored(engine, commit(thread, Trim(2)))
        await check_known(engine, commits, first)


# --- another format ---------------------------------------------------------------------


async def test_what_has_another_format_is_refused_and_left_alone(valkey: RedisServer) -> None:
    """A head without a tip, as no release has written it."""
    async with opened(valkey) as engine:
        thread, task = new_thread(), Entity("ops", "task", WORLD.new_id())
        due = Commit(task, WORLD.new_op(), (SetHead(due=1.0),), retain=DAY)
        await stored(engine, commit(thread), due)
        for entity in (thread, task):
            head = keys_of(entity).head
            assert valkey.ask("HDEL", head, "tip") == b":1\r\n"
            assert valkey.ask("HSET", head, "version", "2", "updated", "1.5") == b":2\r\n"

        def stored_heads() -> list[list[bytes]]:
            heads = (valkey.ask("HGETALL", keys_of(entity).head) for entity in (thread, task))
            return [sorted(head.split(b"\r\n")) for head in heads]

        before = stored_heads()
        for op in (
            commit(thread),
            commit(thread, Put("d", "1")),
            commit(thread, Drop()),
            Fetch(thread, log=Log(last=5)),
            Fetch(thread, log=Log(after=1, details=True)),
            List("ops", "thread"),
            List("ops", "thread", recent=True),
            List("ops", "task", due=True),
            List("ops", within=thread),
        ):
            with pytest.raises(SchemaError, match="With the version that wrote it"):
                await only(engine, op)
        keys = keys_of(task)
        valkey.ask("ZADD", keys.sweep, "1", keys.tag)
        with pytest.raises(SchemaError):
            await only(engine, Sweep())
        assert stored_heads() == before
        assert await engine.purge("ops") > 0
