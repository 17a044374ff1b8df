"""A commit that is not waited for any more is no commit that a standby has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from servers.postgres import PostgresServer

from postgres.conftest import make_blocking, make_engine
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Commit, Entity, Fetch, Op, Outcome

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def lonely() -> Iterator[PostgresServer]:
    """A server whose standby is away."""
    server = PostgresServer(
        synchronous_standby_names="away", synchronous_commit="local", lc_messages="C"
    ).start()
    yield server
    server.remove()


@pytest.mark.parametrize("wire", ["on", "off"])
async def test_a_cancelled_wait_for_a_standby_is_not_answered_as_durable(
    lonely: PostgresServer, schema: str, wire: str
) -> None:
    lonely.run_sql("CREATE ROLE waiting LOGIN SUPERUSER")
    lonely.run_sql("ALTER ROLE waiting SET synchronous_commit = on")
    url = lonely.url_of(schema, wire=wire, pool="3", listen="off")
    make_blocking(url).migrate()
    url = url.replace("postgres@", "waiting@")
    engine, blocking = make_engine(url), make_blocking(url)
    await engine.open()
    await asyncio.to_thread(blocking.open)

    async def execute(ops: Sequence[Op]) -> list[Outcome]:
        return await asyncio.to_thread(blocking.execute, ops)

    for number, ask in enumerate((engine.execute, execute)):
        it = Entity("n", "thread", f"{number}")
        commit = Commit(it, "op", (Append(('"a"',)),))
        for ops in ([commit], [Commit(it, "next", (Append(('"b"',)),)), Fetch(it)]):
            asking = asyncio.ensure_future(ask(ops))
            async with asyncio.timeout(20):
                while not (waiting := lonely.run_sql(WAITING)):
                    assert not asking.done(), asking
                    await asyncio.sleep(0.01)
            lonely.run_sql(f"SELECT pg_cancel_backend({waiting[0][0]})")
            with pytest.raises(StoreUnavailable, match="standby") as caught:
                await asking
            assert caught.value.applied == "unknown"
        (read,) = await ask([Fetch(it)])
        assert read.head.version == 2  # type: ignore[union-attr]
    await asyncio.to_thread(blocking.close)
    await engine.close()
