"""The first call of a store waits for its opening, and no longer than the call may take."""

from __future__ import annotations

import asyncio
import socket
import threading
from time import monotonic

import pytest

import stateward
from stateward import Policy, StoreClosed, StoreUnavailable, sync
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.layers.coalescer import Coalescer
from stateward.layers.opener import Opener
from stateward.layers.opener_sync import Opener as SyncOpener
from stateward.ops import Entity, Fetch
from stateward.sync.engines.memory import MemoryEngine as SyncMemoryEngine
from stateward.sync.engines.passthrough import Passthrough as SyncPassthrough
from stateward.sync.layers.coalescer import Coalescer as SyncCoalescer
from stateward.world import World

PATIENCE = 8.0  # seconds, far more than the deadlines here and less than an opening may take
SOON = 0.05
FETCH = [Fetch(Entity("n", "thread", "t"))]


class Slow(Passthrough):
    """An engine whose opening waits for the test."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine(Model(), World()))
        self.go_on = asyncio.Event()
        self.opened = self.closed = 0

    async def open(self) -> None:
        self.opened += 1
        await self.go_on.wait()
        await super().open()

    async def close(self) -> None:
        self.closed += 1
        await super().close()


class SlowSync(SyncPassthrough):
    """The same for blocking callers."""

    def __init__(self) -> None:
        super().__init__(SyncMemoryEngine(Model(), World()))
        self.go_on = threading.Event()
        self.opened = self.closed = 0
        self.gone = threading.Event()

    def open(self) -> None:
        self.opened += 1
        assert self.go_on.wait(60)
        super().open()

    def close(self) -> None:
        self.closed += 1
        super().close()
        self.gone.set()


async def test_a_deadline_bounds_the_wait_for_the_opening_which_goes_on() -> None:
    engine = Slow()
    opener = Opener(engine, World(), Coalescer)
    began = monotonic()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="could not be opened in time") as caught:
            await opener.execute(FETCH, monotonic() + SOON)
        assert caught.value.applied == "no"
    assert monotonic() - began < PATIENCE
    engine.go_on.set()
    await opener.execute(FETCH, monotonic() + 60)
    assert engine.opened == 1
    await opener.close()


async def test_a_store_that_is_closed_while_it_opens_leaves_nothing_open() -> None:
    engine = Slow()
    opener = Opener(engine, World(), Coalescer)
    with pytest.raises(StoreUnavailable):
        await opener.execute(FETCH, monotonic() + SOON)
    asyncio.get_running_loop().call_soon(engine.go_on.set)
    await opener.close()
    assert engine.closed == 1
    assert not opener.is_open()


def test_a_deadline_of_a_blocking_caller_bounds_it_too() -> None:
    engine = SlowSync()
    opener = SyncOpener(engine, World(), SyncCoalescer)
    failures: list[StoreUnavailable] = []

    def call() -> None:
        try:
            opener.execute(FETCH, monotonic() + SOON)
        except StoreUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert [error.applied for error in failures] == ["no"]
    engine.go_on.set()
    opener.execute(FETCH, monotonic() + 60)
    assert engine.opened == 1
    opener.close()


def test_a_blocking_store_that_is_closed_while_it_opens_leaves_nothing_open() -> None:
    engine = SlowSync()
    opener = SyncOpener(engine, World(), SyncCoalescer)
    with pytest.raises(StoreUnavailable):
        opener.execute(FETCH, monotonic() + SOON)
    opener.close()
    engine.go_on.set()
    assert engine.gone.wait(60)
    assert not opener.is_open()


async def test_a_server_that_takes_connections_and_says_nothing_costs_no_more_than_a_call() -> None:
    policy = Policy(read_timeout=SOON, write_timeout=SOON, threads="raise")
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}"
        store = stateward.open(url, policy=policy, spill=False)
        blocking = sync.open(url, policy=policy, spill=False)
        for call in (
            lambda: store.thread("t").load(last=1),
            lambda: store.thread("t").append({"n": 1}),
            lambda: asyncio.to_thread(blocking.thread("t").load, last=1),
            lambda: asyncio.to_thread(blocking.thread("t").append, {"n": 1}),
        ):
            began = monotonic()
            with pytest.raises(StoreUnavailable):
                await call()
            assert monotonic() - began < 2.5  # a connection alone may take 3 s
        await store.close()
        blocking.close()


class Busy(World):
    """A world in which much time passes at once, for its event loop too: something keeps it busy.

    The store's own threads, which renew leases, see nothing of it.
    """

    def __init__(self) -> None:
        self._passed = 0.0
        asyncio.get_running_loop().time = self.monotonic  # type: ignore[method-assign]

    def monotonic(self) -> float:
        return monotonic() + self._passed

    def be_busy(self, seconds: float) -> None:
        self._passed += seconds


@pytest.mark.parametrize("engine", ["memory", "sqlite", "redis", "postgres"])
async def test_a_burst_of_first_calls_is_not_refused_because_it_kept_the_loop_from_opening(
    engine: str, request: pytest.FixtureRequest
) -> None:
    world = Busy()
    policy = Policy(read_timeout=60.0, write_timeout=60.0, threads="raise")
    url = request.getfixturevalue(engine)
    store = stateward.open(url, namespace="burst", policy=policy, world=world, spill=False)

    async def call(number: int) -> None:
        thread = store.thread(f"{number}")
        if number % 2:
            await thread.append({"n": number})
        else:
            await thread.load()

    async def other_work() -> None:
        world.be_busy(600.0)

    calls = [call(number) for number in range(300)]
    await asyncio.gather(*calls[:100], other_work(), *calls[100:])
    await store.close()


async def test_whoever_waits_for_an_opening_is_told_when_the_store_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}"
        store = stateward.open(url, policy=Policy(threads="raise"), spill=False)
        waiting = asyncio.create_task(store.thread("t").append({"n": 1}))
        connection, _ = await asyncio.to_thread(listening.accept)
        with connection:
            await store.close()
            with pytest.raises(StoreClosed):
                await waiting
