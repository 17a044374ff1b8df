"""Connections that are given up: to servers that hang, took another role, or cannot be heard."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from servers.postgres import PostgresServer
from servers.postgres_proxy import MessageProxy

from postgres.conftest import make_blocking, make_engine
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Log, Op, Outcome

Execute = Callable[[Op], Awaitable[Outcome]]
POOLS = ("stateward.engines.postgres.pool", "stateward.sync.engines.postgres.pool")
COLOURS = pytest.mark.parametrize("colour", ["async", "blocking"])

_names = itertools.count(1)


def turn(name: str | None = None) -> Commit:
    """A turn of a conversation of its own, so that no lock of another is in its way."""
    name = name or f"turn {next(_names)}"
    return Commit(Entity("n", "thread", name), name, (Append((f'"{name}"',)),))


@pytest.fixture(scope="module")
def alone() -> Iterator[PostgresServer]:
    """A server whose settings these tests change."""
    server = PostgresServer().start()
    yield server
    server.remove()


@asynccontextmanager
async def executing(url: str, colour: str) -> AsyncIterator[Execute]:
    if colour == "async":
        engine = make_engine(url)
        await engine.open()

        async def execute(op: Op) -> Outcome:
            return (await engine.execute([op]))[0]

        try:
            yield execute
        finally:
            await engine.close()
    else:
        blocking = make_blocking(url)
        await asyncio.to_thread(blocking.open)

        async def execute(op: Op) -> Outcome:
            return (await asyncio.to_thread(blocking.execute, [op]))[0]

        try:
            yield execute
        finally:
            await asyncio.to_thread(blocking.close)


async def refused(execute: Execute, make: Callable[[], Op]) -> StoreUnavailable:
    """Return the first refusal after a change: each backend reads it in its own time."""
    with pytest.raises(StoreUnavailable) as caught:
        for _ in range(1_000):
            await execute(make())
    return caught.value


def change(server: PostgresServer, *settings: str) -> None:
    """Change settings of a running server, and wait until it has read them."""
    with server.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        before = connection.execute("SELECT pg_conf_load_time()").fetchone()
        for setting in settings:
            connection.execute(f"ALTER SYSTEM {setting}")  # type: ignore[call-overload]
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SELECT pg_conf_load_time()").fetchone() == before:
            pass


# --- backends that hang -----------------------------------------------------------------


def backends(server: PostgresServer, name: str) -> list[str]:
    query = (
        f"SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE application_name = '{name}'"
    )
    return [event for (event,) in server.run_sql(query)]


def pids(server: PostgresServer, name: str) -> set[int]:
    query = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'"
    return {pid for (pid,) in server.run_sql(query)}


@COLOURS
async def test_commits_that_hang_leave_no_growing_number_of_backends(
    alone: PostgresServer, schema: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that is waited for is away; each round trip is given up, and the next one hangs."""
    url = alone.url_of(schema, application_name=schema)
    async with executing(url, colour) as execute:
        await execute(turn())
        for pool in POOLS:
            monkeypatch.setattr(f"{pool}.ANSWER_SECONDS", 0.1)
        change(alone, "SET synchronous_standby_names = 'away'")
        most = 0
        try:
            await refused(execute, turn)
            for _ in range(6):
                hanging = [execute(turn()) for _ in range(2)]
                for end in await asyncio.gather(*hanging, return_exceptions=True):
                    assert isinstance(end, StoreUnavailable), end
                most = max(most, len(backends(alone, schema)))
        finally:
            monkeypatch.undo()
            change(alone, "RESET synchronous_standby_names")
        assert most <= 2 + 2, "two for queries, and one each to look whether they have stopped"
        assert isinstance(await execute(turn()), Applied)
    await until(lambda: not backends(alone, schema))


@COLOURS
async def test_a_backend_that_cannot_be_cancelled_keeps_the_place_of_its_connection(
    alone: PostgresServer, schema: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with executing(
        alone.url_of(schema, application_name=schema, pool="3"), colour
    ) as execute:
        await execute(turn())
        # It catches the cancellation, as a process that waits for its disk does not even see it.
        alone.run_sql(
            f"CREATE FUNCTION {schema}.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" WHILE (SELECT count(*) FROM {schema}.hanging) > 0 LOOP"
            "  BEGIN PERFORM pg_sleep(0.02); EXCEPTION WHEN query_canceled THEN NULL; END;"
            " END LOOP; RETURN NULL; END $$;"
            f"CREATE TABLE {schema}.hanging (x int); INSERT INTO {schema}.hanging VALUES (1);"
            f"CREATE TRIGGER hang BEFORE INSERT ON {schema}.log"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {schema}.hang()"
        )
        for pool in POOLS:
            monkeypatch.setattr(f"{pool}.ANSWER_SECONDS", 0.2)
        seen = []
        try:
            calls = [asyncio.ensure_future(execute(turn())) for _ in range(5)]
            with pytest.raises(StoreUnavailable):
                await calls[0]
            for _ in range(10):
                seen.append(backends(alone, schema).count("PgSleep"))
                await asyncio.sleep(0.02)
        finally:
            monkeypatch.undo()
            alone.run_sql(f"DELETE FROM {schema}.hanging")
        assert max(seen) == 1, "no other connection took its place"
        await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(await execute(turn()), Applied)


# --- servers that became readers ---------------------------------------------------------


@COLOURS
@pytest.mark.parametrize("wire", ["on", "off"])
async def test_nothing_is_answered_by_a_server_that_was_made_read_only(
    alone: PostgresServer, schema: str, colour: str, wire: str
) -> None:
    async with executing(alone.url_of(schema, wire=wire), colour) as execute:
        it = turn("it")
        await execute(it)
        await execute(Fetch(it.entity, log=Log(last=1)))
        change(alone, "SET default_transaction_read_only = on")
        try:
            read = Fetch(it.entity, log=Log(last=1))
            assert "takes no writes" in str(await refused(execute, lambda: read))
            for op in (read, turn(), Fetch(it.entity, log=Log())):
                with pytest.raises(StoreUnavailable, match="takes no writes") as caught:
                    await execute(op)
                assert caught.value.applied == "no"
        finally:
            change(alone, "RESET default_transaction_read_only")
        assert isinstance(await execute(it), Duplicate)


@COLOURS
async def test_a_write_that_meets_a_server_made_read_only_gives_up_all_its_connections(
    alone: PostgresServer, schema: str, colour: str
) -> None:
    """Also where the URL wants any server: a name may lead to another one by now."""
    url = alone.url_of(schema, application_name=schema, target_session_attrs="any", pool="5")
    async with executing(url, colour) as execute:
        await asyncio.gather(*(execute(turn()) for _ in range(8)))
        before = pids(alone, schema)
        change(alone, "SET default_transaction_read_only = on")
        try:
            assert "takes no writes" in str(await refused(execute, turn))
        finally:
            change(alone, "RESET default_transaction_read_only")
        await asyncio.gather(*(execute(turn()) for _ in range(8)))
        await until(lambda: not before & pids(alone, schema))


@COLOURS
async def test_a_write_is_unknown_whose_server_says_with_the_answer_that_it_is_read_only(
    alone: PostgresServer, schema: str, colour: str
) -> None:
    """It is stored there, and may be lost with the old primary."""
    make_blocking(alone.url_of(schema)).migrate()
    alone.run_sql(
        f"CREATE FUNCTION {schema}.demote() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM set_config('default_transaction_read_only', 'on', false); RETURN NULL; END $$;"
        f"CREATE TRIGGER demote AFTER INSERT ON {schema}.log"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {schema}.demote()"
    )
    async with executing(alone.url_of(schema), colour) as execute:
        it = turn()
        with pytest.raises(StoreUnavailable, match="takes no writes") as caught:
            await execute(it)
        assert caught.value.applied == "unknown"
        alone.run_sql(f"DROP TRIGGER demote ON {schema}.log")
        assert isinstance(await execute(it), Duplicate)


@COLOURS
async def test_a_call_that_is_refused_gives_up_no_connection(
    alone: PostgresServer, schema: str, colour: str
) -> None:
    async with executing(
        alone.url_of(schema, application_name=schema, pool="5"), colour
    ) as execute:
        await asyncio.gather(*(execute(turn()) for _ in range(8)))
        before = pids(alone, schema)
        with pytest.raises(InvalidInput):
            await execute(Fetch(Entity("n", "thread", "it"), log=Log(first=-5)))
        await asyncio.gather(*(execute(turn()) for _ in range(8)))
        assert before <= pids(alone, schema)


# --- ways that were cut silently ----------------------------------------------------------


@COLOURS
@pytest.mark.parametrize("idle", [True, False])
async def test_of_connections_that_were_cut_silently_one_is_tried(
    alone: PostgresServer, schema: str, colour: str, idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a NAT does it. One that was idle is asked first; for another, one call fails."""
    async with MessageProxy(alone) as proxy:
        url = proxy.url_of(schema, pool="5", listen="off")
        async with executing(url, colour) as execute:
            await asyncio.gather(*(execute(turn()) for _ in range(8)))
            for pool in POOLS:
                monkeypatch.setattr(f"{pool}.IDLE_SECONDS", 0.0 if idle else 1000.0)
                monkeypatch.setattr(f"{pool}.PING_SECONDS", 0.2)
                monkeypatch.setattr(f"{pool}.ANSWER_SECONDS", 20.0 if idle else 0.2)
            forgotten = proxy.forget()
            assert len(forgotten) > 1
            if not idle:
                with pytest.raises(StoreUnavailable, match="in time") as caught:
                    await execute(turn())
                assert caught.value.applied == "unknown"
            for together in (1, 4):
                ends = await asyncio.gather(*(execute(turn()) for _ in range(together)))
                assert all(isinstance(end, Applied) for end in ends)
            assert sum(bool(passing.wasted) for passing in forgotten) == 1


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what the server is about to do."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)
