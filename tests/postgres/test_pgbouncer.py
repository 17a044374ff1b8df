"""Behind a pooler that lends a connection for one transaction: nothing is kept in a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from servers.pgbouncer import PgBouncer, keeps_nothing, need_pgbouncer
from servers.postgres import PostgresServer

import stateward
import stateward.sync
from postgres.conftest import make_blocking, make_engine
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Fetched, Log

IT = Entity("n", "thread", "it")


def turn(op: str, entity: Entity = IT) -> Commit:
    return Commit(entity, op, (Append((f'"{op}"',)),))


@pytest.fixture(scope="module")
def bouncer(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    need_pgbouncer(request)
    bouncer = PgBouncer(server)
    yield bouncer
    bouncer.remove()


@pytest.fixture
def silent(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """One that drops what a session is told instead of refusing it."""
    need_pgbouncer(request)
    bouncer = PgBouncer(server, "ignore_startup_parameters = options", *keeps_nothing(), size=2)
    yield bouncer
    bouncer.remove()


async def test_a_pooler_is_noticed_and_then_nothing_is_told_prepared_or_listened_for(
    bouncer: PgBouncer, server: PostgresServer, schema: str
) -> None:
    engine = make_engine(bouncer.url_of(schema))
    await engine.open()
    assert not engine.capabilities.native_notify
    feed = asyncio.create_task(engine.wait({IT: 0}, 30.0))
    for number in range(20):
        assert isinstance((await engine.execute([turn(f"{number}")]))[0], Applied)
        await engine.execute([Fetch(IT, log=Log(last=5))])
    async with asyncio.timeout(10):
        await feed
    ask = engine._ask  # type: ignore[attr-defined]
    for _ in range(6):  # whichever session it is
        assert await ask([("SELECT count(*) FROM pg_prepared_statements", ())]) == [[(0,)]]
        assert await ask([("SELECT count(*) FROM pg_listening_channels()", ())]) == [[(0,)]]
    assert server.run_sql(f"SELECT count(*) FROM {schema}.listeners") == [(0,)]
    sibling = engine.sibling()
    sibling.open()
    assert isinstance(sibling.execute([turn("19")])[0], Duplicate)
    sibling.close()
    await engine.close()


async def test_many_clients_share_few_sessions_and_nothing_gets_mixed_up(
    bouncer: PgBouncer, schema: str
) -> None:
    url = bouncer.url_of(schema)

    async def converse(store: stateward.Store, id: str) -> None:
        thread = store.thread(id, user=id)
        for number in range(15):
            await thread.append({"of": id, "n": number}, key=f"{number}")
            assert (await thread.load(last=1)).messages == [{"of": id, "n": number}]

    async with stateward.open(url) as one, stateward.open(url) as two, stateward.open(url) as three:
        stores = (one, two, three)
        await asyncio.gather(*(converse(stores[n % 3], f"t{n}") for n in range(18)))
        for number in range(18):
            window = await one.thread(f"t{number}").load()
            assert window.messages == [{"of": f"t{number}", "n": n} for n in range(15)]


def test_a_lease_fences_through_the_pooler(bouncer: PgBouncer, schema: str) -> None:
    with stateward.sync.open(bouncer.url_of(schema)) as store:
        thread = store.thread("led")
        with thread.lead(ttl=5) as lease:
            thread.append({"n": 1}, fence=lease)
        with pytest.raises(stateward.LeaseLost):
            thread.append({"n": 2}, fence=lease)
        assert [*store.thread("led").load().messages] == [{"n": 1}]


async def test_replicas_migrate_at_once_through_the_pooler(bouncer: PgBouncer, schema: str) -> None:
    engines = [make_engine(bouncer.url_of(schema)) for _ in range(6)]
    applied = await asyncio.gather(*(engine.migrate() for engine in engines))
    *idle, worked = sorted(len(list(names)) for names in applied)
    assert (idle, worked > 0) == ([0] * 5, True), "one did all of it"
    others = [make_engine(bouncer.url_of(f"{schema}_other")) for _ in range(6)]
    await asyncio.gather(*(engine.open() for engine in others))
    for engine in others:
        assert isinstance((await engine.execute([Fetch(IT)]))[0], Fetched)
        await engine.close()


def test_who_insists_on_preparing_is_told_what_to_do(bouncer: PgBouncer, schema: str) -> None:
    with pytest.raises(StoreUnavailable, match="prepare=off&listen=off") as caught:
        make_blocking(bouncer.url_of(schema, prepare="on")).open()
    assert caught.value.applied == "no"


async def talk(url: str, name: str, rounds: int = 10) -> None:
    """Write and read; every answer is that of the own schema."""
    engine = make_engine(url)
    await engine.open()
    try:
        for round in range(rounds):
            ops = [turn(f"{name} {round} {n}", IT._replace(id=f"{n}")) for n in range(8)]
            await asyncio.gather(*(engine.execute([op]) for op in ops))
            (read,) = await engine.execute([Fetch(IT._replace(id="0"), log=Log(last=99))])
            lines = [f'"{name} {earlier} 0"' for earlier in range(round + 1)]
            assert read.lines.split("\n") == lines  # type: ignore[union-attr]
    finally:
        await engine.close()


@pytest.mark.parametrize("wire", ["on", "off"])
async def test_a_pooler_that_says_nothing_is_noticed_when_a_store_opens(
    silent: PgBouncer, server: PostgresServer, schema: str, wire: str
) -> None:
    urls = [silent.url_of(f"{schema}_{n}", wire=wire) for n in range(4)]
    await asyncio.gather(*(talk(url, url, rounds=5) for url in urls))
    assert all(kept == 0 for kept in await left_in_sessions(silent))


async def test_a_pooler_that_says_nothing_is_obeyed_when_it_is_noticed_later(
    silent: PgBouncer, server: PostgresServer, schema: str
) -> None:
    """All roles have the setting by which a session is known that was told."""
    server.run_sql("ALTER ROLE postgres SET plan_cache_mode = force_generic_plan")
    server.run_sql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )  # sessions of the pooler that began before
    try:
        engine = make_engine(silent.url_of(schema))
        await engine.open()
        assert engine.capabilities.native_notify
        feed = asyncio.create_task(engine.wait({IT: 0}, 30.0))
        for number in range(12):
            ops = [turn(f"{number} {n}", IT._replace(id=f"it {n}")) for n in range(4)]
            outcomes = await asyncio.gather(*(engine.execute([op]) for op in ops))
            assert all(isinstance(outcome[0], Applied) for outcome in outcomes)
        await engine.execute([turn("wakes")])
        async with asyncio.timeout(10):
            await feed
        await engine.close()
    finally:
        server.run_sql("ALTER ROLE postgres RESET plan_cache_mode")


async def test_no_statement_of_another_client_is_ever_run(
    silent: PgBouncer, server: PostgresServer, schema: str
) -> None:
    """A client that insists on preparing finds sessions in which others have prepared the same."""
    for side in "ab":
        make_blocking(server.url_of(f"{schema}_{side}")).migrate()
    ends = await asyncio.gather(
        *(
            talk(silent.url_of(f"{schema}_{side}", prepare="on", listen="off"), side)
            for side in "abab"[:2] * 3
        ),
        return_exceptions=True,
    )
    for error in ends:
        assert error is None or "prepare=off&listen=off" in str(error)
        assert error is None or isinstance(error, StoreUnavailable)
    for side in "ab":
        rows = server.run_sql(f"SELECT body FROM {schema}_{side}.log")
        assert all(body.startswith(f'"{side} ') for (body,) in rows)


async def left_in_sessions(bouncer: PgBouncer) -> list[int]:
    """How many prepared statements and channels its sessions have."""
    counts = []
    query = (
        "SELECT (SELECT count(*) FROM pg_prepared_statements)"
        " + (SELECT count(*) FROM pg_listening_channels())"
    )
    for _ in range(2 * 2):  # whichever session it is
        url = bouncer.url_of("any").partition("?")[0]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            counts += [count async for (count,) in await connection.execute(query)]
    return counts


async def test_a_pooler_that_dies_is_the_stores_failure_and_the_next_one_is_used(
    server: PostgresServer, schema: str, request: pytest.FixtureRequest
) -> None:
    need_pgbouncer(request)
    bouncer = PgBouncer(server)
    engine = make_engine(bouncer.url_of(schema, connect_timeout="2"))
    await engine.open()
    await engine.execute([turn("first")])
    bouncer.remove()
    with pytest.raises(StoreUnavailable):
        await engine.execute([turn("second")])
    again = PgBouncer(server, port=bouncer.port)
    try:
        assert isinstance((await engine.execute([turn("second")]))[0], Applied | Duplicate)
        (fetched,) = await engine.execute([Fetch(IT, log=Log())])
        assert fetched.lines == '"first"\n"second"'  # type: ignore[union-attr]
    finally:
        await engine.close()
        again.remove()
