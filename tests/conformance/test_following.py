"""A feed that waits is woken by what another replica writes, and does not sleep its time out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import stateward
import stateward.sync
from stateward.engine import Engine, SyncEngine
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.engines.sqlite.reader import FileReader
from stateward.ops import Append, Commit, Entity
from stateward.records import Change
from stateward.state.feeds import WAIT
from stateward.store import Store
from stateward.sync.engines.passthrough import Passthrough as BlockingPassthrough
from stateward.sync.store import Store as BlockingStore
from stateward.world import World

SOON = WAIT - 1.0  # a feed that was not woken looks for itself after WAIT


@pytest.fixture(params=("memory", "sqlite"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://{tmp_path.name}-{id(tmp_path)}"
    return f"sqlite:///{tmp_path}/store.db"


class Watched(Passthrough):
    """An engine that tells when somebody waits."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.waiting = asyncio.Event()

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        self.waiting.set()
        await super().wait(cursors, timeout)
        self.waiting.clear()


class BlockingWatched(BlockingPassthrough):
    """The same for threads."""

    def __init__(self, engine: SyncEngine) -> None:
        super().__init__(engine)
        self.waiting = threading.Event()

    def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        self.waiting.set()
        super().wait(cursors, timeout)
        self.waiting.clear()


async def test_a_waiting_feed_is_woken_by_another_replica(url: str) -> None:
    engine = Watched(create_engine(parse(url), World()))
    async with Store(engine) as store, stateward.open(url) as other:
        feed = store.thread("t").changes()
        for number in (1, 2, 3):
            following = asyncio.create_task(anext(feed))
            await engine.waiting.wait()
            start = time.monotonic()
            await other.thread("t").append({"n": number})
            change = await following
            assert (change.message, change.version) == ({"n": number}, number)
            assert time.monotonic() - start < SOON
        await feed.aclose()


async def test_a_waiting_feed_is_woken_by_its_own_replica(url: str) -> None:
    engine = Watched(create_engine(parse(url), World()))
    async with Store(engine) as store:
        feed = store.thread("t").changes()
        following = asyncio.create_task(anext(feed))
        await engine.waiting.wait()
        start = time.monotonic()
        await store.thread("t").append({"n": 1})
        assert (await following).message == {"n": 1}
        assert time.monotonic() - start < SOON
        await feed.aclose()


async def test_a_waiting_feed_learns_that_its_history_is_gone(url: str) -> None:
    engine = Watched(create_engine(parse(url), World()))
    async with Store(engine) as store, stateward.open(url) as other:
        await other.thread("t").append({"n": 1})
        feed = store.thread("t").changes()
        await anext(feed)
        following = asyncio.create_task(anext(feed))
        await engine.waiting.wait()
        start = time.monotonic()
        await other.thread("t").delete()
        with pytest.raises(stateward.Reset):
            await following
        assert time.monotonic() - start < SOON


async def test_many_feeds_of_one_store_each_get_everything(url: str) -> None:
    async def read(store: Store, number: int) -> list[int]:
        feed = store.thread(f"t{number % 3}").changes()
        versions = [(await anext(feed)).version for _ in range(20)]
        await feed.aclose()
        return versions

    async with stateward.open(url) as store, stateward.open(url) as other:
        readers = [asyncio.create_task(read(store, number)) for number in range(12)]
        for turn in range(10):
            for number in range(3):
                await other.thread(f"t{number}").append({"n": turn}, {"n": turn})
        assert await asyncio.gather(*readers) == [list(range(1, 21))] * 12


def test_a_waiting_feed_of_a_thread_is_woken_by_another_replica(url: str) -> None:
    engine = BlockingWatched(create_sync_engine(parse(url), World()))
    received: SimpleQueue[Change] = SimpleQueue()

    def follow(store: BlockingStore) -> None:
        feed = store.thread("t").changes()
        for _ in range(3):
            received.put(next(feed))
        feed.close()

    with BlockingStore(engine) as store, stateward.sync.open(url) as other:
        follower = threading.Thread(target=follow, args=(store,), daemon=True)
        follower.start()
        for number in (1, 2, 3):
            assert engine.waiting.wait(30.0)
            start = time.monotonic()
            other.thread("t").append({"n": number})
            change = received.get(timeout=30.0)
            assert (change.message, change.version) == ({"n": number}, number)
            assert time.monotonic() - start < SOON
        follower.join()


async def test_many_who_wait_cost_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them looks at the file for all; when it leaves, another does."""
    looks = 0
    counter = FileReader.counter

    def counted(reader: FileReader) -> Any:
        nonlocal looks
        looks += 1
        return counter(reader)

    monkeypatch.setattr(FileReader, "counter", counted)
    engine = create_engine(parse(f"sqlite:///{tmp_path}/store.db"), World())
    await engine.open()
    entities = [Entity("n", "thread", f"t-{number}") for number in range(300)]
    try:
        async with asyncio.timeout(60):
            waiting = [asyncio.create_task(engine.wait({each: 0}, 60.0)) for each in entities]
            while looks < 20:
                await World().pause(0.01)
            assert not any(task.done() for task in waiting)
            waiting[0].cancel()  # who looked for all
            before = looks
            while looks < before + 20:
                await World().pause(0.01)
            assert sum(task.done() for task in waiting) == 1
            await engine.execute([Commit(entities[200], "op", (Append(("1",)),))])
            await waiting[200]
            assert sum(task.done() for task in waiting) == 2
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
    finally:
        await engine.close()
