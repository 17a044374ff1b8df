"""Batches of appends are staged on the event loop and committed on the writer's thread."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import stateward
from stateward.engines.sqlite.engine import SqliteEngine
from stateward.engines.sqlite.file import File
from stateward.engines.sqlite.loop_access import INLINE, are_small_appends
from stateward.errors import InvalidInput
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Fetched, Log, Put
from stateward.world import World

WORLD = World()


def append(thread: str, *bodies: str, op: str | None = None) -> Commit:
    return Commit(Entity("n", "thread", thread), op or WORLD.new_op(), (Append(bodies),))


async def lines(engine: SqliteEngine, thread: str) -> str:
    (fetched,) = await engine.execute((Fetch(Entity("n", "thread", thread), log=Log()),))
    assert isinstance(fetched, Fetched)
    return fetched.lines


def store_file(path: Path) -> File:
    return File(str(path), relaxed=False, migrate=True, world=WORLD)


async def test_a_failing_append_undoes_its_batch_and_the_next_batch_is_stored(path: Path) -> None:
    engine = SqliteEngine(store_file(path))
    await engine.open()
    try:
        await engine.execute((append("a", "1"),))  # now the writer has its connection
        broken = append("b", "\ud800")
        with pytest.raises(InvalidInput, match="cannot hold such a value"):
            await engine.execute((append("a", "2"), broken))
        assert await lines(engine, "a") == "1"
        outcomes = await engine.execute((append("a", "3"), append("b", "4")))
        assert [type(outcome) for outcome in outcomes] == [Applied, Applied]
        assert (await lines(engine, "a"), await lines(engine, "b")) == ("1\n3", "4")
    finally:
        await engine.close()


async def test_a_batch_sent_again_is_applied_once_whoever_is_busy(path: Path) -> None:
    """Some of these are staged on the loop, some on the thread, as it happens."""
    engine = SqliteEngine(store_file(path))
    await engine.open()
    try:
        batches = [
            [append(f"{number}-{place}", str(number)) for place in range(3)] for number in range(20)
        ]
        first = await asyncio.gather(*map(engine.execute, batches))
        again = await asyncio.gather(*map(engine.execute, batches))
        for mine, known in zip(first, again, strict=True):
            assert [type(outcome) for outcome in mine] == [Applied] * 3
            assert [o.first for o in known if isinstance(o, Duplicate)] == mine
    finally:
        await engine.close()


async def test_a_batch_waits_for_another_writer_and_the_loop_goes_on(path: Path) -> None:
    policy = stateward.Policy(write_timeout=120.0)
    async with stateward.open(f"sqlite:///{path}", policy=policy) as store:
        await store.thread("0").append({"n": 0})
        other = store_file(path).connect()
        try:
            other.execute("BEGIN IMMEDIATE")
            appends = [asyncio.create_task(store.thread(f"{n}").append({"n": n})) for n in range(9)]
            for _ in range(20):
                await asyncio.sleep(0.01)  # the loop is free though the file is not
            assert not any(task.done() for task in appends)
            other.execute("ROLLBACK")
        finally:
            other.close()
        assert [(await task).status for task in appends] == ["stored"] * 9


def test_only_plain_appends_that_are_not_too_much_are_staged_on_the_loop() -> None:
    put = Commit(Entity("n", "thread", "a"), "op", (Put("doc", "1"),))
    assert are_small_appends((append("a", "1"), append("b", "2", "3")))
    assert not are_small_appends((append("a", "1"), put))
    assert not are_small_appends((append("a", "x" * INLINE), append("b", "1")))


def test_ops_sort_in_the_order_of_time() -> None:
    class Clock(World):
        time = 1_800_000_000.0

        def now(self) -> float:
            return self.time

    clock = Clock()
    drawn = []
    for step in range(200):
        clock.time = 1_800_000_000.0 + step**3 / 1000
        drawn.append(clock.new_op())
    assert drawn == sorted(drawn)
    assert {len(op) for op in drawn} == {16}
    assert len({clock.new_op() for _ in range(10_000)}) == 10_000  # within one millisecond
