"""Connections break, are refused, cancelled and exhausted; callers learn the truth about it."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.waiting import Ready, Wait
from servers.postgres import PostgresServer

import stateward
from postgres.conftest import make_blocking, make_engine
from stateward import Policy
from stateward.engines.postgres import engine as engine_module
from stateward.engines.postgres.addresses import resolved
from stateward.engines.postgres.driver import bounded
from stateward.engines.postgres.failures import Unanswered
from stateward.engines.registry import parse
from stateward.errors import DiskProblem, InvalidInput, SchemaError, StoreUnavailable
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Fetched, Log, Op, Put

IT = Entity("n", "thread", "it")


def turn(op: str, entity: Entity = IT) -> Commit:
    return Commit(entity, op, (Append((f'"{op}"',)),))


async def one(engine: Any, op: Op) -> Any:
    return (await engine.execute([op]))[0]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what the server or another task is about to do."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)


def connections_of(server: PostgresServer, schema: str) -> list[int]:
    query = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{schema}'"
    return [pid for (pid,) in server.run_sql(query)]


async def test_a_cancelled_caller_leaves_no_reply_to_another_and_its_write_completes(
    url: str,
) -> None:
    engine = make_engine(url)
    await engine.open()
    chance = random.Random(3)
    entities = [Entity("n", "thread", f"{number}") for number in range(300)]
    waiting = []
    for entity in entities:
        waiting.append(asyncio.create_task(one(engine, turn(entity.id, entity))))
        # Half of them are surely under way when they are cancelled, however fast the server is.
        await asyncio.sleep(chance.choice((0.0, chance.random() * 0.002)))
        if chance.random() < 0.5:
            waiting[-1].cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    cancelled = [end for end in ended if isinstance(end, asyncio.CancelledError)]
    assert len(cancelled) > 30
    for entity, end in zip(entities, ended, strict=True):
        if not isinstance(end, asyncio.CancelledError):
            assert isinstance(end, Applied)
            assert end.stamp == entity.id
        fetched = await one(engine, Fetch(entity, log=Log(last=2)))
        assert isinstance(fetched, Fetched)
        assert fetched.lines == f'"{entity.id}"'
    await engine.close()


async def test_a_process_has_at_most_as_many_connections_as_its_pool(
    server: PostgresServer, schema: str
) -> None:
    engine = make_engine(server.url_of(schema, application_name=schema))
    await engine.open()
    sibling = engine.sibling()
    sibling.open()
    feed = asyncio.create_task(engine.wait({IT: 0}, 30.0))
    ops = [turn(f"{n}", Entity("n", "thread", f"{n}")) for n in range(100)]
    await asyncio.gather(*[one(engine, op) for op in ops])
    sibling.execute([Fetch(IT)])
    await until(lambda: len(connections_of(server, schema)) == 4)
    await asyncio.gather(*[one(engine, Fetch(IT)) for _ in range(100)])
    assert len(connections_of(server, schema)) == 4
    await one(engine, turn("wake"))
    await feed
    sibling.close()
    await engine.close()


async def test_connections_ended_by_the_server_while_idle_are_not_noticed_by_callers(
    server: PostgresServer, schema: str
) -> None:
    engine = make_engine(server.url_of(schema, application_name=schema))
    await engine.open()
    for round in range(3):
        await asyncio.gather(*[one(engine, Fetch(IT)) for _ in range(4)])
        for pid in connections_of(server, schema):
            server.run_sql(f"SELECT pg_terminate_backend({pid}, 5000)")
        assert isinstance(await one(engine, turn(f"{round}")), Applied)
    await engine.close()


async def test_a_connection_lost_under_a_write_is_unknown_and_under_a_read_is_not(
    server: PostgresServer, schema: str
) -> None:
    engine = make_engine(server.url_of(schema, application_name=schema))
    await engine.open()
    await one(engine, turn("first"))
    server.run_sql(f"ALTER FUNCTION {schema}.commit_alone SET lock_timeout = 60000")
    for op, lock, applied in (
        (turn("second"), f"SELECT 1 FROM {schema}.entities FOR UPDATE", "unknown"),
        (Fetch(IT, log=Log()), f"LOCK TABLE {schema}.entities", "no"),
    ):
        with server.connect() as holder, holder.transaction():
            holder.execute(lock)  # type: ignore[call-overload]
            asking = asyncio.create_task(one(engine, op))
            pid = await waiting_for_a_lock(server, schema)
            server.run_sql(f"SELECT pg_terminate_backend({pid})")
            with pytest.raises(StoreUnavailable) as caught:
                await asking
            assert caught.value.applied == applied
            assert isinstance(caught.value.__cause__, psycopg.Error)
    assert isinstance(await one(engine, turn("second")), Applied)
    assert isinstance(await one(engine, turn("second")), Duplicate)
    await engine.close()


async def test_a_lock_held_for_too_long_is_a_failure_without_effect(
    server: PostgresServer, schema: str
) -> None:
    for prepare in ("on", "off"):  # with and without what a session is told
        engine = make_engine(server.url_of(schema, prepare=prepare))
        await engine.open()
        with server.connect() as connection:
            for function in ("commit_alone", "commit_batch"):
                quick = f"ALTER FUNCTION {schema}.{function} SET lock_timeout = 200"
                connection.execute(quick)  # type: ignore[call-overload]
        await one(engine, turn(f"first {prepare}"))
        with server.connect() as holder, holder.transaction():
            holder.execute(f"SELECT 1 FROM {schema}.entities FOR UPDATE")  # type: ignore[call-overload]
            with pytest.raises(StoreUnavailable, match="held a lock") as caught:
                await one(engine, turn(f"second {prepare}"))
            assert caught.value.applied == "no"
        assert isinstance(await one(engine, turn(f"second {prepare}")), Applied)
        await engine.close()


async def test_transactions_that_would_not_see_what_they_waited_for_are_refused(
    server: PostgresServer, schema: str
) -> None:
    server.run_sql(f"CREATE ROLE {schema}_strict LOGIN SUPERUSER")
    server.run_sql(f"ALTER ROLE {schema}_strict SET default_transaction_isolation = serializable")
    strict = server.url_of(schema, prepare="off").replace("postgres@", f"{schema}_strict@")
    with pytest.raises(SchemaError, match="read committed"):
        await make_engine(strict).open()
    engine = make_engine(strict.replace("prepare=off", "prepare=on"))
    await engine.open()  # the session is told
    await engine.close()


async def test_nothing_is_compiled_before_it_runs(
    server: PostgresServer, url: str, schema: str
) -> None:
    """With sequential scans off, releases before 18 would compile each statement anew."""
    engine = make_engine(url)
    await engine.open()
    ask = engine._ask  # type: ignore[attr-defined]
    assert await ask([("SELECT current_setting('jit')", ())]) == [[("off",)]]
    await engine.close()
    settings = server.run_sql(
        f"SELECT proconfig FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace"
        " AND 'enable_seqscan=off' = ANY (proconfig)"
    )
    assert len(settings) == 3
    assert all("jit=off" in told for (told,) in settings)


def test_a_store_opens_anew_in_each_event_loop(url: str) -> None:
    store = stateward.open(url)

    async def talk(number: int) -> int:
        await store.thread("t").append({"n": number})
        engine = store._scope.stack.engine
        await engine.wait({Entity("default", "thread", "t"): number}, 0.05)
        return (await store.thread("t").load()).version

    assert [asyncio.run(talk(number)) for number in (1, 2, 3)] == [1, 2, 3]

    async def close() -> None:
        await store.thread("t").load()
        await store.close()

    asyncio.run(close())


async def waiting_for_a_lock(server: PostgresServer, schema: str) -> int:
    query = (
        "SELECT pid FROM pg_stat_activity"
        f" WHERE application_name = '{schema}' AND wait_event_type = 'Lock'"
    )
    await until(lambda: bool(server.run_sql(query)))
    return int(server.run_sql(query)[0][0])


async def test_a_server_that_stops_answering_is_given_up_in_time(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, blocking = make_engine(url), make_blocking(url)
    await engine.open()
    blocking.open()
    await one(engine, turn("first"))
    blocking.execute([Fetch(IT)])
    monkeypatch.setattr("stateward.engines.postgres.pool.ANSWER_SECONDS", 0.3)
    monkeypatch.setattr("stateward.sync.engines.postgres.pool.ANSWER_SECONDS", 0.3)
    server.pause()
    try:
        with pytest.raises(StoreUnavailable, match="did not answer in time") as caught:
            await one(engine, turn("second"))
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            await asyncio.to_thread(blocking.execute, [Fetch(IT)])
    finally:
        server.resume()
    assert caught.value.applied == "unknown"
    monkeypatch.undo()
    assert isinstance(await one(engine, turn("second")), Applied | Duplicate)
    assert isinstance(await one(engine, turn("second")), Duplicate)
    await engine.close()
    blocking.close()


def test_a_blocking_caller_is_let_go_at_its_deadline(server: PostgresServer, url: str) -> None:
    engine = make_blocking(url)
    engine.open()
    engine.execute([Fetch(IT)], deadline=time.monotonic() + 60)
    server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            engine.execute([Fetch(IT)], deadline=began + 0.3)
        assert 0.3 <= time.monotonic() - began < 15.0
    finally:
        server.resume()
    assert isinstance(engine.execute([Fetch(IT)])[0], Fetched)
    engine.close()


async def test_too_many_clients_is_the_stores_failure_and_ends_when_there_is_room() -> None:
    small = PostgresServer(max_connections="6", superuser_reserved_connections="0").start()
    try:
        engine = make_engine(small.url_of("small", pool="3"))
        await engine.open()
        await engine.close()
        others = [await let_in(small) for _ in range(6)]
        with pytest.raises(StoreUnavailable, match="too many clients") as caught:
            await engine.open()
        assert caught.value.applied == "no"
        for other in others[:3]:
            other.close()
        await settled(engine)
        assert isinstance(await one(engine, turn("now there is room")), Applied)
        await engine.close()
        for other in others[3:]:
            other.close()
    finally:
        small.remove()


async def let_in(server: PostgresServer) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection, as soon as the server has noticed that others left."""
    async with asyncio.timeout(30):
        while True:
            try:
                return server.connect()
            except psycopg.OperationalError:
                await asyncio.sleep(0.01)


async def settled(engine: Any) -> None:
    """Open it as soon as the server has noticed that others left."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await engine.open()
            except StoreUnavailable:
                await asyncio.sleep(0.01)


async def test_nobody_listening_on_the_port_is_the_stores_failure(server: PostgresServer) -> None:
    for make in (make_engine, make_blocking):
        engine = make("postgresql://nobody@127.0.0.1:9/nothing?connect_timeout=1")
        with pytest.raises(StoreUnavailable) as caught:
            result = engine.open()
            if result is not None:
                await result
        assert caught.value.applied == "no"


async def test_a_database_that_takes_no_writes_is_read_only_by_who_asks_for_any(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_engine(url)
    await engine.open()
    await one(engine, turn("first"))
    await engine.close()
    server.run_sql(f"CREATE ROLE {schema}_reader LOGIN SUPERUSER")
    server.run_sql(f"ALTER ROLE {schema}_reader SET default_transaction_read_only = on")
    url = url.replace("postgres@", f"{schema}_reader@")
    with pytest.raises(StoreUnavailable, match="target_session_attrs=any") as caught:
        await make_engine(url).open()
    assert caught.value.applied == "no"
    reader = make_engine(f"{url}&target_session_attrs=any")
    await reader.open()
    assert (await one(reader, Fetch(IT, log=Log(last=1)))).lines == '"first"'
    with pytest.raises(StoreUnavailable, match="takes no writes") as caught:
        await one(reader, turn("second"))
    assert caught.value.applied == "no"
    await reader.close()


async def test_a_full_disk_fails_the_write_and_not_the_read(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_engine(url)
    await engine.open()
    await one(engine, turn("first"))
    server.run_sql(
        f"CREATE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no space left'; END $$"
    )
    server.run_sql(
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.log"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {schema}.full_disk()"
    )
    with pytest.raises(DiskProblem, match="no space left") as caught:
        await one(engine, turn("second"))
    assert caught.value.applied == "no"
    assert (await one(engine, Fetch(IT, log=Log(last=5)))).lines == '"first"'
    assert isinstance(await one(engine, Commit(IT, "put", (Put("doc", "1"),))), Applied)
    await engine.close()


def test_an_answer_that_never_ends_is_given_up_and_one_that_is_there_is_not() -> None:
    now = itertools.count()

    def talk(pieces: int) -> Generator[Any, Any, str]:
        for _ in range(pieces):
            yield Wait.R
        return "all of it"

    def wait_for(pieces: int) -> Any:
        answer = bounded(talk(pieces), lambda: next(now), next(now) + 10)
        next(answer)
        try:
            for _ in range(pieces):
                answer.send(Ready.R)
        except StopIteration as end:
            return end.value

    assert wait_for(10) == "all of it"
    with pytest.raises(Unanswered):
        wait_for(100)


# --- waiting ----------------------------------------------------------------------------


async def test_a_change_wakes_whoever_waits_for_it_without_polling(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, other = make_engine(url), make_engine(url)
    await engine.open()
    await other.open()
    await one(other, turn("first"))
    assert engine.capabilities.native_notify
    feed = asyncio.create_task(engine.wait({IT: 1}, 60.0))
    await until(lambda: engine._listener.ready)  # type: ignore[attr-defined]
    await feed_again(feed)
    monkeypatch.setattr(engine_module, "FIRST_POLL", 60.0)
    feed = asyncio.create_task(engine.wait({IT: 1}, 60.0))
    await asyncio.sleep(0.1)
    assert not feed.done()
    async with asyncio.timeout(10):
        await one(other, turn("second"))
        await feed
    await engine.close()
    await other.close()


async def feed_again(feed: asyncio.Task[None]) -> None:
    feed.cancel()
    await asyncio.gather(feed, return_exceptions=True)


async def test_without_listening_it_polls_and_keeps_no_state_in_the_session(
    server: PostgresServer, schema: str
) -> None:
    """As it must be behind a pooler that lends a connection for one transaction at a time."""
    engine = make_engine(
        server.url_of(schema, application_name=schema, listen="off", prepare="off")
    )
    await engine.open()
    assert not engine.capabilities.native_notify
    feed = asyncio.create_task(engine.wait({IT: 0}, 30.0))
    for number in range(20):
        await one(engine, turn(f"{number}"))
        await one(engine, Fetch(IT, log=Log(last=5)))
    async with asyncio.timeout(10):
        await feed
    ask = engine._ask  # type: ignore[attr-defined]
    assert await ask([("SELECT count(*) FROM pg_prepared_statements", ())]) == [[(0,)]]
    assert await ask([("SELECT count(*) FROM pg_listening_channels()", ())]) == [[(0,)]]
    changed = "SELECT name FROM pg_settings WHERE source = 'session'"
    assert await ask([(changed, ())]) == [[]]
    assert server.run_sql(f"SELECT count(*) FROM {schema}.listeners") == [(0,)]
    await engine.close()


# --- URLs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("schema=Robert'); DROP TABLE students", "schema="),
        ("schema=pg_catalog", "schema="),
        ("schema=", "schema="),
        ("pool=1", "pool="),
        ("pool=x", "pool="),
        ("prepare=maybe", "prepare="),
        ("listen=never", "listen="),
        ("migrate=yes", "migrate="),
        ("connect_timeout=0", "connect_timeout="),
        ("shcema=x", "did you mean 'schema'"),
        ("options=-c fsync=off", "options"),
    ],
)
def test_a_wrong_option_is_refused_with_a_sentence(options: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make_engine(f"postgresql://host/database?{options}")


def test_both_spellings_name_the_same_engine_and_no_password_is_shown() -> None:
    for scheme in ("postgres", "postgresql"):
        url = parse(f"{scheme}://someone:secret@127.0.0.1:9/db?connect_timeout=1")
        engine = make_blocking(url.text)
        with pytest.raises(StoreUnavailable) as caught:
            engine.open()
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput) as refused:
        make_blocking("postgresql://someone:secret@[::1/db")
    assert "secret" not in str(refused.value)


def test_a_database_that_does_not_exist_says_so(server: PostgresServer) -> None:
    engine = make_blocking(server.database("nothing"))
    with pytest.raises((StoreUnavailable, SchemaError), match="nothing"):
        engine.open()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_busy_thread_pool_of_the_application_holds_up_no_connection(
    url: str, host: str
) -> None:
    """The first call connects, and reads what says who we are. A name is looked up, too."""
    assert "127.0.0.1" in url
    url = url.replace("127.0.0.1", host)
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        busy = asyncio.create_task(asyncio.to_thread(free.wait))
        try:
            policy = Policy(read_timeout=15.0, write_timeout=15.0, threads="raise")
            async with asyncio.timeout(20), stateward.open(url, policy=policy) as store:
                assert (await store.thread("s-1").load()).messages == []
                assert (await store.thread("s-1").append({"n": 1})).status == "stored"
        finally:
            free.set()
            await busy


def test_hosts_are_looked_up_each_with_its_port_and_what_is_no_host_is_left_alone() -> None:
    two = resolved({"host": "localhost,127.0.0.2", "port": "5433,5434", "dbname": "d"})
    found = zip(*(two[name].split(",") for name in ("host", "hostaddr", "port")), strict=True)
    assert ("localhost", "127.0.0.1", "5433") in (pairs := list(found))
    assert pairs[-1] == ("127.0.0.2", "127.0.0.2", "5434")
    assert two["dbname"] == "d"
    for alone in (
        {"host": "/run/postgresql"},
        {"dbname": "d"},
        {"host": "a", "hostaddr": "127.0.0.9"},
        {"host": "a,b,c", "port": "1,2"},
    ):
        assert resolved(alone) == alone
    impossible = "x" * 70
    missing = resolved({"host": impossible})
    assert (missing["host"], missing["hostaddr"]) == (impossible, "")
