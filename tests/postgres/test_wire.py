"""Single statements without cursors: what is sent arrives, is prepared once, and never in part."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int4, Int8
from servers.postgres import PostgresServer

from postgres.conftest import make_engine
from stateward.engines.postgres import wire
from stateward.engines.postgres.arrays import BigintArray, TextArray
from stateward.engines.postgres.driver import Slots
from stateward.engines.postgres.settings import read_settings
from stateward.engines.registry import parse
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Entity,
    Fetch,
    Fetched,
    Log,
    Op,
    Put,
    Replace,
    Trim,
    Write,
)
from stateward.sync.engines.postgres.connection import Link, connect
from stateward.world import World

IT = Entity("n", "thread", "it")
PREPARED = "SELECT statement FROM pg_prepared_statements"


@pytest.fixture
def link(url: str) -> Iterator[Link]:
    link = connect(read_settings(parse(url), World()))
    yield link
    link.close()


def rows(link: Link, query: str, *params: Any) -> list[tuple[Any, ...]]:
    return link.wait(link.wire.ask(query, params))  # type: ignore[no-any-return]


class Colour(str, Enum):  # noqa: UP042 (what people have)
    RED = "red"


def test_values_of_every_kind_arrive_as_they_were_given(link: Link) -> None:
    values = ("ä\x01'%s", True, -5, 2.5, 1 << 40)
    query = "SELECT %s, %s, %s, %s, %s, %s::int IS NULL"
    assert rows(link, query, *values, None) == [(*values, True)]
    assert rows(link, "SELECT %s, %s", Int4(7), Int8(8)) == [(7, 8)]
    assert rows(link, "SELECT %b, %b", TextArray(["a", None]), BigintArray([3])) == [
        (["a", None], [3])
    ]
    assert rows(link, "SELECT %s || 'dish'", Colour.RED) == [("reddish",)]


def test_a_statement_is_prepared_once_for_values_of_the_same_types(link: Link) -> None:
    query = "SELECT n, n + %s FROM generate_series(1, 2) AS n"
    for more in range(6):
        assert rows(link, query, more) == [(1, 1 + more), (2, 2 + more)]
        assert rows(link, query, more + 0.5) == [(1, 1.5 + more), (2, 2.5 + more)]
    statements = [text for (text,) in link.execute(PREPARED)]
    assert [text for text in statements if "generate_series" in text] == [
        "SELECT n, n + $1 FROM generate_series(1, 2) AS n"
    ] * 2


def test_without_preparing_nothing_stays_in_the_session(url: str) -> None:
    link = connect(read_settings(parse(f"{url}&prepare=off"), World()))
    assert [rows(link, "SELECT %s", n) for n in range(5)] == [[(n,)] for n in range(5)]
    assert link.execute(PREPARED).fetchall() == []
    link.close()


def test_shapes_without_end_fill_neither_the_session_nor_the_process(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_PREPARED", 3)
    for shape in range(20):
        for _ in range(wire.PREPARE_AFTER + 2):
            assert rows(link, f"SELECT {shape} + %s", 1) == [(shape + 1,)]
    assert len(link.execute(PREPARED).fetchall()) == 3


def test_text_that_the_database_cannot_hold_is_refused_and_not_cut_short(link: Link) -> None:
    for _ in range(wire.PREPARE_AFTER + 2):
        with pytest.raises(psycopg.DataError):
            rows(link, "SELECT %s", "before\x00after")
        assert rows(link, "SELECT %s", "before") == [("before",)]


def test_a_statement_that_fails_leaves_the_connection_to_the_next(link: Link) -> None:
    for divisor in (1, 0, 1, 0, 2):
        if divisor:
            assert rows(link, "SELECT 4 / %s", divisor) == [(4 // divisor,)]
        else:
            with pytest.raises(psycopg.errors.DivisionByZero):
                rows(link, "SELECT 4 / %s", divisor)


def test_what_is_left_of_an_answer_is_read_to_its_end(link: Link) -> None:
    asking = link.wire.ask("SELECT repeat('x', 1000000) FROM generate_series(1, 5)", ())
    next(asking)  # it is sent
    asking.close()
    link.answer_by = link.clock() + 5.0
    link.wait(wire.rest(link.pgconn))
    link.answer_by = 0.0
    assert link.pgconn.transaction_status == TransactionStatus.IDLE
    assert rows(link, "SELECT 1") == [(1,)]


async def test_the_newest_entries_are_the_same_whatever_was_removed(url: str) -> None:
    engine = make_engine(url)
    await engine.open()
    other = Entity("n", "thread", "whole")
    steps: list[Write] = [
        Append(tuple(f'"{n}"' for n in range(1, 13))),
        Replace({12: None, 7: None}),
        Trim(3),
        Append(('"13"', '"14"')),
        Replace({4: None, 5: '"five"'}),
        Trim(14),
        Append(('"15"',)),
    ]
    for number, write in enumerate(steps):
        outcomes = await engine.execute([Commit(IT, f"op-{number}", (write,))])
        assert isinstance(outcomes[0], Applied)
        await engine.execute([Commit(other, f"op-{number}", (Append(('"x"',)), Put("d", "1")))])
        (whole,) = await engine.execute([Fetch(IT, log=Log(first=100, details=True))])
        assert isinstance(whole, Fetched)
        bodies = [entry.body for entry in whole.entries]
        for last in (1, 2, 5, 20):
            tail = Fetch(IT, log=Log(last=last))
            ways: list[list[Op]] = [
                [tail],
                [tail, Fetch(other, log=Log(last=1))],
                [tail, Fetch(other, all_documents=True)],
            ]
            for ops in ways:
                found = (await engine.execute(ops))[0]
                assert isinstance(found, Fetched)
                assert found.lines.split("\n") == (bodies[-last:] or [""])
                assert found.count == len(bodies[-last:])
                assert found.first == (whole.entries[-last:][0].seq if bodies else 0)
    await engine.close()


async def test_closing_waits_for_a_write_whose_caller_is_gone(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_engine(url)
    await engine.open()
    await engine.execute([Commit(IT, "first", (Append(('"a"',)),))])
    with server.connect() as holder:
        holder.execute("BEGIN")
        holder.execute(f"SELECT 1 FROM {schema}.entities FOR UPDATE")  # type: ignore[call-overload]
        caller = asyncio.create_task(engine.execute([Commit(IT, "op", (Append(('"b"',)),))]))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        assert not closing.done()
        holder.execute("COMMIT")
    await closing
    assert server.run_sql(f"SELECT version FROM {schema}.entities") == [(2,)]


async def test_places_are_given_in_turn_and_none_is_lost_with_a_cancelled_waiter() -> None:
    places = Slots(1)
    assert places.take()
    assert not places.take()
    order: list[str] = []

    async def visit(name: str) -> None:
        await places.acquire()
        order.append(name)

    first, gone, late, last = (asyncio.create_task(visit(name)) for name in "abcd")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    places.release()
    assert not places.take()  # it has been promised to the first
    await first
    places.release()
    late.cancel()  # though its turn has just come
    await asyncio.wait([late])
    await last
    assert order == ["a", "d"]
    places.release()
    assert places.take()
