"""A row that somebody else has locked holds up its own conversation, and nobody else's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from servers.postgres import PostgresServer

import stateward
from stateward import EntityBusy, Policy, StoreUnavailable, sync

POLICY = Policy(threads="raise")  # with the times that everybody has
OTHERS, ROUNDS = 9, 8


@contextmanager
def locked(server: PostgresServer, schema: str, id: str) -> Iterator[None]:
    """The head of a thread, by a transaction that was left open."""
    with psycopg.connect(server.url_of(schema).partition("?")[0]) as holder:
        query = f"SELECT 1 FROM {schema}.entities WHERE name = %s FOR UPDATE"
        assert holder.execute(query, (id,)).fetchone() is not None  # type: ignore[call-overload]
        yield
        holder.rollback()


async def test_one_locked_row_stalls_nobody_else(
    server: PostgresServer, url: str, schema: str
) -> None:
    async with stateward.open(url, policy=POLICY, spill=False) as store:
        stuck = store.thread("stuck")
        await stuck.append({"n": 0})
        ended = asyncio.Event()
        failures: list[StoreUnavailable] = []

        async def insist(number: int) -> None:
            while not ended.is_set():
                try:
                    await stuck.append({"n": number})
                except StoreUnavailable as error:
                    failures.append(error)

        async def go_on(number: int) -> None:
            for n in range(ROUNDS):
                assert (await store.thread(f"t{number}").append({"n": n})).status == "stored"

        with locked(server, schema, "stuck"):
            insisting = [asyncio.ensure_future(insist(number)) for number in range(2)]
            await asyncio.gather(*(go_on(number) for number in range(OTHERS)))
            assert store.breaker == "closed"
            ended.set()
        await asyncio.gather(*insisting)
        assert all(isinstance(error, EntityBusy) for error in failures if error.applied == "no")
        await stuck.append({"n": -1})


def test_one_locked_row_stalls_no_other_thread(
    server: PostgresServer, url: str, schema: str
) -> None:
    with (
        sync.open(url, policy=POLICY, spill=False) as store,
        ThreadPoolExecutor(OTHERS + 2) as pool,
    ):
        stuck = store.thread("stuck")
        stuck.append({"n": 0})
        ended = threading.Event()

        def insist(number: int) -> None:
            while not ended.is_set():
                try:
                    stuck.append({"n": number})
                except StoreUnavailable:
                    pass

        def go_on(number: int) -> None:
            for n in range(ROUNDS):
                assert store.thread(f"t{number}").append({"n": n}).status == "stored"

        with locked(server, schema, "stuck"):
            insisting = [pool.submit(insist, number) for number in range(2)]
            try:
                for future in [pool.submit(go_on, number) for number in range(OTHERS)]:
                    future.result(120)
                assert store.breaker == "closed"
            finally:
                ended.set()
        for future in insisting:
            future.result(60)
        stuck.append({"n": -1})


async def test_a_locked_row_alone_does_not_open_the_breaker(
    server: PostgresServer, url: str, schema: str
) -> None:
    policy = Policy(threads="raise", breaker_failures=1, write_timeout=3.0)
    async with stateward.open(url, policy=policy, spill=False) as store:
        await store.thread("stuck").append({"n": 0})
        with locked(server, schema, "stuck"):
            with pytest.raises(EntityBusy):
                await store.thread("stuck").append({"n": 1})
            assert store.breaker == "closed"


async def test_what_is_locked_is_not_said_to_be_erased(
    server: PostgresServer, url: str, schema: str
) -> None:
    """What was deleted is removed by the erasure, or the erasure says that it is not."""
    policy = Policy(threads="raise", write_timeout=1.0)
    async with stateward.open(url, policy=policy, spill=False) as store:
        for id in ("locked", "free"):
            thread = store.thread(id, user="u")
            await thread.append(*({"n": n} for n in range(3)))
            await thread.delete()
        with locked(server, schema, "locked"):
            with pytest.raises(EntityBusy, match="erase again"):
                await store.user("u").erase()
            assert rows_of_log(server, schema) == 3
            assert store.breaker == "closed"
        await store.user("u").erase()
        assert rows_of_log(server, schema) == 0


async def test_an_erasure_waits_for_who_is_soon_done(
    server: PostgresServer, url: str, schema: str
) -> None:
    policy = Policy(threads="raise", write_timeout=60.0)
    async with stateward.open(url, policy=policy, spill=False) as store:
        thread = store.thread("locked", user="u")
        await thread.append(*({"n": n} for n in range(3)))
        await thread.delete()
        with locked(server, schema, "locked"):
            erasing = asyncio.ensure_future(store.user("u").erase())
            await asyncio.wait([erasing], timeout=0.3)
            assert not erasing.done()
        await asyncio.wait_for(erasing, 60)
        assert rows_of_log(server, schema) == 0


def rows_of_log(server: PostgresServer, schema: str) -> int:
    with psycopg.connect(server.url_of(schema).partition("?")[0]) as looking:
        query = f"SELECT count(*) FROM {schema}.log"
        row = looking.execute(query).fetchone()  # type: ignore[call-overload]
    return int(row[0])
