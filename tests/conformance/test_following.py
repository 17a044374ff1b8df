"""A feed that waits is woken by what another replica writes, and does not sleep its time out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

import pytest

import stateward
import stateward.sync
from stateward.engine import Engine, SyncEngine
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.ops import Entity
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
