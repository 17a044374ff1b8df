"""What goes with a heartbeat: the size of the store, and how little it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import stateward
from stateward import sync
from stateward.kinds import SIGNALS
from stateward.ops import Append, Commit, Entity, Put
from stateward.state.replica_record import Beat, beating
from stateward.state.signal_record import STRETCH, Reading, Readings
from stateward.testing.clock import SteppableWorld

PATIENCE = 60.0


async def until(found: Callable[[], Awaitable[object]]) -> None:
    for _ in range(int(PATIENCE / 0.01)):
        if await found():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it has not come about")


async def test_the_size_of_the_store_is_looked_at_every_five_minutes(tmp_path: Path) -> None:
    world = SteppableWorld()
    url = f"sqlite:///{tmp_path}/agents.db"
    async with stateward.open(url, world=world, heartbeat=0.1) as store:
        await until(store.replicas)
        assert (await store.signals()).total.storage_bytes is None
        world.advance(STRETCH + 1)

        async def size() -> int | None:
            return (await store.signals()).total.storage_bytes

        await until(size)


def test_blocking_stores_look_too(tmp_path: Path) -> None:
    world = SteppableWorld()
    with sync.open(f"sqlite:///{tmp_path}/agents.db", world=world, heartbeat=0.1) as store:
        end = time.monotonic() + PATIENCE
        store.thread("t").load()
        while not store.replicas():
            assert time.monotonic() < end
            time.sleep(0.01)
        world.advance(STRETCH + 1)
        while not store.signals().total.storage_bytes:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_beat_is_one_commit_and_adds_to_the_log_every_five_minutes() -> None:
    readings, appended = Readings(), 0
    for n in range(361):  # an hour
        readings.add(Reading(at=1e9 + 10.0 * n, counts={"writes": 1}))
        entity = Entity("n", "heartbeat", "h")
        commit = beating(entity, str(n), Beat(every=10.0), readings.writes())
        assert isinstance(commit, Commit)
        puts = [write for write in commit.writes if isinstance(write, Put)]
        assert [put.name for put in puts] == ["heartbeat", SIGNALS]
        assert sum(len(put.value) for put in puts) < 4000
        appends = [write for write in commit.writes if isinstance(write, Append)]
        appended += sum(len(append.bodies) for append in appends)
        readings.stored(appended)
    assert appended == 12
