"""The way to the server is slow, or the server is away for a while, and the store rides over it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path

import pytest
from servers import until
from servers.proxy import Proxy
from servers.redis import RedisServer, running

import stateward
import stateward.sync
from stateward.errors import LeaseHeld, StoreUnavailable
from stateward.testing.clock import SteppableWorld
from stateward.world import World

WORLD = World()
RECOVERY = 5.0  # seconds after which everything must go on


async def test_a_slow_link_costs_time_and_nothing_else(valkey: RedisServer) -> None:
    async with (
        Proxy(valkey.port) as proxy,
        stateward.open(proxy.url, namespace=WORLD.new_id()) as store,
    ):
        proxy.delay = 0.03
        threads = [store.thread(f"t{n}") for n in range(20)]
        for number in range(1, 4):
            appended = await asyncio.gather(*(t.append({"n": number}) for t in threads))
            assert {each.version for each in appended} == {number}


async def test_a_link_that_is_too_slow_is_unavailable_and_a_retry_counts_once(
    valkey: RedisServer,
) -> None:
    hasty = stateward.Policy(read_timeout=0.5, write_timeout=0.5, threads="raise")
    async with (
        Proxy(valkey.port) as proxy,
        stateward.open(proxy.url, namespace=WORLD.new_id(), policy=hasty) as store,
    ):
        thread = store.thread("t")
        await thread.append({"n": 1})
        proxy.delay = 1.5
        with pytest.raises(StoreUnavailable) as caught:
            await thread.append({"n": 2}, key="second")
        assert caught.value.applied == "unknown"
        with pytest.raises(StoreUnavailable):
            await thread.load()
        proxy.delay = 0.0
        proxy.cut()
        await until_it_answers(store)
        await thread.append({"n": 2}, key="second")
        assert [m["n"] for m in (await thread.load()).messages] == [1, 2]


async def until_it_answers(store: stateward.Store) -> None:
    end = time.monotonic() + RECOVERY
    while True:
        try:
            await store.thread("t").load()
            return
        except StoreUnavailable:
            assert time.monotonic() < end, "it does not recover"


async def test_blocking_calls_ride_over_cut_connections_and_count_every_update_once(
    valkey: RedisServer,
) -> None:
    async with Proxy(valkey.port) as proxy:
        opened = threading.Event()  # opening a store is not tried again
        begun = threading.Event()  # cutting: a quick machine has counted before

        def count(url: str) -> int:
            # On a busy machine every attempt of a second may be cut: nobody is to give up for that.
            patient = stateward.Policy(60.0, 60.0, threads="raise", breaker_failures=10_000)
            with stateward.sync.open(url, namespace=WORLD.new_id(), policy=patient) as store:
                opened.set()
                assert begun.wait(30.0)
                counter = store.shared("counter")
                for _ in range(150):
                    counter.update(lambda value: {"n": value.get("n", 0) + 1})
                number: int = counter.get().value["n"]
                return number

        counting = asyncio.create_task(asyncio.to_thread(count, proxy.url))
        assert await asyncio.to_thread(opened.wait, 30.0), "opening is not tried again"
        proxy.cut_replies = True
        begun.set()
        await until(lambda: proxy.cuts > 0)
        chance = random.Random(7)
        for _ in range(200):  # then it is calm: a slow machine must get through, too
            if counting.done():
                break
            await asyncio.sleep(0.01)
            proxy.cut_replies = chance.random() < 0.3
            if chance.random() < 0.2:
                proxy.cut()
        proxy.cut_replies = False
        assert await counting == 150


async def be_away(server: RedisServer, seconds: float, store: stateward.Store) -> None:
    """Kill it under load, and start it again after a while."""
    stop = asyncio.Event()
    slowest = late = 0.0
    answered: dict[int, float] = {}
    failed = 0

    async def call(number: int) -> None:
        nonlocal slowest, failed
        thread = store.thread(f"t{number}")
        while not stop.is_set():
            start = time.monotonic()
            try:
                await thread.append({"n": 1})
                answered[number] = time.monotonic()
            except StoreUnavailable:
                failed += 1
            slowest = max(slowest, time.monotonic() - start)
            await asyncio.sleep(0.005)

    async def beat() -> None:
        """How late this loop is by itself, on a busy machine."""
        nonlocal late
        while not stop.is_set():
            start = time.monotonic()
            await asyncio.sleep(0.005)
            late = max(late, time.monotonic() - start)

    beating = asyncio.create_task(beat())
    calling = [asyncio.create_task(call(number)) for number in range(20)]
    await until(lambda: len(answered) == 20)
    server.kill()
    await asyncio.sleep(seconds)  # the outage itself
    await asyncio.to_thread(server.start)
    back = time.monotonic()
    answered.clear()
    await until(lambda: len(answered) == 20)
    assert max(answered.values()) - back < RECOVERY
    stop.set()
    await asyncio.gather(beating, *calling)
    assert failed >= 20, "nobody noticed the outage"
    assert slowest < 0.5 + 1.0 + 2 * late, "a call outlived its deadline"


@pytest.mark.timing
async def test_no_call_outlives_its_deadline_while_the_server_is_away(tmp_path: Path) -> None:
    policy = stateward.Policy(read_timeout=0.5, write_timeout=0.5, threads="raise")
    with running(tmp_path / "server", "valkey") as server:
        async with stateward.open(server.url, policy=policy) as store:
            await be_away(server, 2.0, store)


@pytest.mark.soak
async def test_a_hundred_outages(tmp_path: Path) -> None:
    policy = stateward.Policy(read_timeout=0.5, write_timeout=0.5, threads="raise")
    chance = random.Random(3)
    with running(tmp_path / "server", "redis") as server:
        async with stateward.open(server.url, policy=policy) as store:
            for _ in range(100):
                await be_away(server, chance.uniform(0.8, 10.0), store)


async def test_a_replica_whose_own_clock_is_an_hour_off_disturbs_nobody(
    valkey: RedisServer,
) -> None:
    """Time is what the server says: leases, retentions and schedules do not notice."""
    namespace = WORLD.new_id()
    for hours in (1, -1):
        wrong = SteppableWorld()
        wrong.advance(hours=hours)
        async with (
            stateward.open(valkey.url, namespace=namespace) as right,
            stateward.open(valkey.url, namespace=namespace, world=wrong) as other,
        ):
            thread = other.thread(f"t {hours}", retain=600)
            await thread.append({"n": 1})
            assert (await thread.load()).exists
            assert (await right.thread(f"t {hours}").load()).exists
            async with right.lock("name", ttl=600):
                with pytest.raises(LeaseHeld):
                    async with other.lock("name", wait=0):
                        pass
            async with other.lock("name", ttl=600) as lease:
                lease.check()
                with pytest.raises(LeaseHeld):
                    async with right.lock("name", wait=0):
                        pass
            (info,) = [i async for i in right.threads(prefix=f"t {hours}")]
            assert info.expires_at is not None
            assert 500 < info.expires_at.timestamp() - time.time() < 700
