"""The fast path: what is unusual must end as it would the ordinary way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from servers.redis import RedisServer

from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.fast import fast_request
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Conflict,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    KeyReused,
    List,
    Listed,
    Log,
    LogAt,
    NotYours,
    Op,
    Outcome,
    Put,
    Replace,
    SetHead,
)
from stateward.world import World

WORLD = World()
MONTH = 30 * 86_400.0


def new_entity(kind: str = "thread") -> Entity:
    return Entity("fast", kind, WORLD.new_id())


def append_to(
    entity: Entity, *bodies: str, key: str | None = None, owner: str = "u", **more: Any
) -> Commit:
    append = Append(bodies or ("1",), key)
    return Commit(entity, WORLD.new_op(), (append,), owner=owner, retain=MONTH, **more)


@asynccontextmanager
async def opened(server: RedisServer) -> AsyncIterator[RedisEngine]:
    engine = RedisEngine(parse_server(parse(server.url), WORLD))
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def only(engine: RedisEngine, op: Op) -> Outcome:
    return (await engine.execute((op,)))[0]


async def lines_of(engine: RedisEngine, entity: Entity) -> str:
    fetched = await only(engine, Fetch(entity, log=Log(last=1000)))
    assert isinstance(fetched, Fetched)
    return fetched.lines


def is_fast(engine: RedisEngine, *ops: Op) -> bool:
    """Whether these go the fast path, so that a test is about what it says."""
    return fast_request(ops, engine._traits) is not None


async def test_each_of_a_batch_of_appends_gets_its_own_answer(valkey: RedisServer) -> None:
    """Those that are refused go the ordinary way; the others were stored, and once."""
    async with opened(valkey) as engine:
        entities = [new_entity() for _ in range(7)]
        first = [append_to(entity, '"first"', key="k") for entity in entities]
        await engine.execute(first)
        await only(engine, Commit(entities[5], WORLD.new_op(), (Drop(),), owner="u"))
        batch = [
            append_to(entities[0], '"é"', '"2"'),
            append_to(entities[1], checks=(LogAt(7),)),
            append_to(entities[2], owner="somebody else"),
            first[3],
            append_to(entities[4], '"another"', key="k"),
            append_to(entities[5], '"a new life"'),
            append_to(entities[6], '"last"', key="k2", checks=(LogAt(1, first[6].op),)),
        ]
        assert is_fast(engine, *batch)
        outcomes = await engine.execute(batch)
        expected = [Applied, Conflict, NotYours, Duplicate, KeyReused, Applied, Applied]
        assert [type(outcome) for outcome in outcomes] == expected
        assert [o.version for o in outcomes if isinstance(o, Applied)] == [3, 1, 2]
        assert [o.stamp for o in outcomes if isinstance(o, Applied)] == [
            batch[0].op,
            batch[5].op,
            batch[6].op,
        ]
        lines = [(await lines_of(engine, entity)).split("\n") for entity in entities]
        assert lines == [
            ['"first"', '"é"', '"2"'],
            ['"first"'],
            ['"first"'],
            ['"first"'],
            ['"first"'],
            ['"a new life"'],
            ['"first"', '"last"'],
        ]


async def test_a_long_append_stands_beside_short_ones(valkey: RedisServer) -> None:
    async with opened(valkey) as engine:
        entities = [new_entity() for _ in range(3)]
        await engine.execute([append_to(entity) for entity in entities])
        bodies = [["2"], [str(number) for number in range(700)], ["3", "4", "5"]]
        pairs = zip(entities, bodies, strict=True)
        batch = [append_to(entity, *its) for entity, its in pairs]
        assert is_fast(engine, *batch)
        outcomes = await engine.execute(batch)
        assert [o.version for o in outcomes if isinstance(o, Applied)] == [2, 701, 4]
        for entity, its in zip(entities, bodies, strict=True):
            assert (await lines_of(engine, entity)).split("\n") == ["1", *its]


@pytest.mark.parametrize("name", ["valkey", "redis8"])
async def test_a_batch_of_appends_is_one_script(name: str, request: pytest.FixtureRequest) -> None:
    """But for large ones: the server does nothing else while a script runs."""
    server: RedisServer = request.getfixturevalue(name)
    async with opened(server) as engine:
        entities = [new_entity() for _ in range(50)]
        await engine.execute([append_to(entity) for entity in entities])

        async def scripts(body: str) -> int:
            before = scripts_run(server)
            outcomes = await engine.execute([append_to(entity, body) for entity in entities])
            assert all(isinstance(outcome, Applied) for outcome in outcomes)
            return scripts_run(server) - before

        assert await scripts('"small"') == 1
        assert await scripts('"' + "x" * 20_000 + '"') == 4


def scripts_run(server: RedisServer) -> int:
    told = server.ask("INFO", "commandstats").decode()
    return sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)", told))


@pytest.mark.parametrize("owner", ["u", "", "é: {%41} ~*"])
async def test_an_append_in_another_minute_moves_its_thread_to_the_front(
    valkey: RedisServer, owner: str
) -> None:
    """The script makes the names of the index itself, whatever the owner and the id are."""
    now = 6_000_000.0
    engine = RedisEngine(parse_server(parse(valkey.url), WORLD), clock=lambda: now)
    await engine.open()
    try:
        namespace = WORLD.new_id()
        older, newer = Entity(namespace, "a:kind", "ü {1}%7B"), Entity(namespace, "a:kind", "2")
        await engine.execute([append_to(older, owner=owner)])
        now += 60
        await engine.execute([append_to(newer, owner=owner)])
        now += 60
        again = append_to(older, owner=owner)
        assert is_fast(engine, again)
        await engine.execute([again])
        for asked in (None, owner):
            listed = await only(engine, List(namespace, "a:kind", asked, recent=True))
            assert isinstance(listed, Listed)
            assert [found.entity for found in listed.entities] == [older, newer]
    finally:
        await engine.close()


async def test_each_of_many_reads_gets_its_own_answer(valkey: RedisServer) -> None:
    """More than share a transaction; one has lost entries, one never was, one is another's."""
    async with opened(valkey) as engine:
        entities = [new_entity() for _ in range(70)]
        await engine.execute([append_to(e, f"{n}", f"{n}") for n, e in enumerate(entities)])
        await only(engine, Commit(entities[40], WORLD.new_op(), (Replace({2: None}),), owner="u"))
        asked: list[Op] = [Fetch(entity, "u", Log(last=1)) for entity in entities]
        asked[50] = Fetch(new_entity(), "u", Log(last=1))
        asked[60] = Fetch(entities[60], "somebody else", Log(last=1))
        assert is_fast(engine, *asked)
        outcomes = await engine.execute(asked)
        assert isinstance(outcomes[60], NotYours)
        fetched = [outcome for outcome in outcomes if isinstance(outcome, Fetched)]
        wanted = [str(number) for number in range(70)]
        wanted[50] = ""
        del wanted[60]
        assert [each.lines for each in fetched] == wanted
        assert fetched[40].first == 1


async def test_a_server_that_forgot_its_scripts_gets_them_again(valkey: RedisServer) -> None:
    async with opened(valkey) as engine:
        entities = [new_entity() for _ in range(3)]
        await engine.execute([append_to(entity) for entity in entities])
        assert valkey.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
        batch = [append_to(entity, "2") for entity in entities]
        assert is_fast(engine, *batch)
        outcomes = await engine.execute(batch)
        assert [o.version for o in outcomes if isinstance(o, Applied)] == [2, 2, 2]


async def test_an_append_that_met_another_type_fails_alone(valkey: RedisServer) -> None:
    """A key that another program has overwritten: the script stops at it, and only there."""
    async with opened(valkey) as engine:
        entities = [new_entity() for _ in range(3)]
        await engine.execute([append_to(entity) for entity in entities])
        log = keys_of(entities[1]).own[1]
        assert valkey.ask("SET", log, "no list") == b"+OK\r\n"
        batch = [append_to(entity, "2") for entity in entities]
        assert is_fast(engine, *batch)
        with pytest.raises(InvalidInput, match="WRONGTYPE"):
            await engine.execute(batch)
        assert await lines_of(engine, entities[0]) == "1\n2"
        assert await lines_of(engine, entities[2]) == "1\n2"


@pytest.mark.parametrize("fast", [True, False])
async def test_a_reply_that_meets_a_cancelled_caller_is_nobody_elses(
    valkey: RedisServer, fast: bool
) -> None:
    """The caller is cancelled after its reply has arrived, and before it has heard of it."""
    async with opened(valkey) as engine:
        entity, other = new_entity(), new_entity()
        await engine.execute([append_to(entity), append_to(other, '"other"')])
        (connection,) = engine._servers._pool.idle_connections()
        op = append_to(entity, "2")
        if not fast:
            op = Commit(entity, WORLD.new_op(), (Append(("2",)), Put("d", "1")), owner="u")
        assert is_fast(engine, op) == fast
        received = connection.data_received

        def cancel_first(data: bytes) -> None:
            caller.cancel()
            received(data)

        connection.data_received = cancel_first  # type: ignore[method-assign]
        caller = asyncio.create_task(only(engine, op))
        with pytest.raises(asyncio.CancelledError):
            await caller
        connection.data_received = received  # type: ignore[method-assign]
        assert await lines_of(engine, other) == '"other"'
        while engine._tasks:
            await asyncio.wait(engine._tasks)
        assert not connection.broken
        assert connection in engine._servers._pool.idle_connections()
        assert await lines_of(engine, entity) == "1\n2"


@pytest.mark.parametrize("name", ["valkey", "redis8"])
async def test_a_busy_conversation_finds_its_ops_in_a_table(
    name: str, request: pytest.FixtureRequest
) -> None:
    """If they come in another order than they were drawn in; each of them is still known."""
    server: RedisServer = request.getfixturevalue(name)
    async with opened(server) as engine:
        entity = new_entity()
        commits = [append_to(entity) for _ in range(70)][::-1]
        for commit in commits[:60]:
            assert isinstance(await only(engine, commit), Applied)
        ops = keys_of(entity).own[5]
        assert b"listpack" in server.ask("OBJECT", "ENCODING", ops)
        for commit in commits[60:]:
            assert isinstance(await only(engine, commit), Applied)
        assert b"hashtable" in server.ask("OBJECT", "ENCODING", ops)
        for commit in commits:
            outcome = await only(engine, commit)
            assert isinstance(outcome, Duplicate)
            assert outcome.own


async def test_a_listing_is_right_whatever_was_guessed(valkey: RedisServer) -> None:
    """Also when there are more than are guessed, and when they have gone again."""
    async with opened(valkey) as engine:
        owner = WORLD.new_id()
        asked = List("fast", "workflow", owner, status="active", documents=("d",))
        running: list[Entity] = []

        async def listed() -> list[Entity]:
            assert is_fast(engine, asked) == (engine._traits.inline and not long())
            found = await only(engine, asked)
            assert isinstance(found, Listed)
            for each in found.entities:
                assert each.documents["d"].json == f'"{each.entity.id}"'
            return [each.entity for each in found.entities]

        def long() -> bool:
            return any(members is None for members in engine._traits.members.values())

        def write(entity: Entity, status: str) -> Commit:
            writes = (SetHead(status=status), Put("d", f'"{entity.id}"'))
            return Commit(entity, WORLD.new_op(), writes, owner=owner)

        for _ in range(12):
            assert await listed() == await listed() == sorted(running)
            running.append(new_entity("workflow"))
            await only(engine, write(running[-1], "active"))
        assert await listed() == sorted(running)
        assert long()
        while running:
            await only(engine, write(running.pop(), "completed"))
            assert await listed() == await listed() == sorted(running)
        assert not long()
