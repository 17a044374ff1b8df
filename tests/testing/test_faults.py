"""Faults happen when they are planned, are counted, and are over when they are cleared."""

from __future__ import annotations

import asyncio

import pytest
from conformance import suite

from stateward import Policy, StoreUnavailable
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Fetched, Log
from stateward.sync.testing.faults import open_faulty as open_faulty_sync
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import FaultyEngine, open_faulty
from stateward.world import World

THREAD = Entity("n", "thread", "t")
READ = Fetch(THREAD, log=Log())
HELLO = {"role": "user", "content": "hello"}


def append(op: str) -> Commit:
    return Commit(THREAD, op, (Append(("1",)),))


@pytest.fixture
def engine() -> FaultyEngine:
    world = World()
    return FaultyEngine(MemoryEngine(Model(), world), world)


async def version(engine: FaultyEngine) -> int:
    (fetched,) = await engine.execute([READ])
    assert isinstance(fetched, Fetched)
    return fetched.head.version


async def fails(engine: FaultyEngine, op: str) -> str:
    """Whether an append fails, and what the error says of it."""
    try:
        await engine.execute([append(op)])
    except StoreUnavailable as error:
        return error.applied
    return "works"


async def test_without_a_fault_nothing_changes(engine: FaultyEngine) -> None:
    (outcome,) = await engine.execute([append("a")])
    assert isinstance(outcome, Applied)
    assert await version(engine) == 1
    assert engine.faults.calls == 2
    assert (await engine.describe()).engine == "memory"


@pytest.mark.parametrize("case", suite.params(suite.ASYNC, *suite.OF_ENGINES))
async def test_without_a_fault_the_contract_is_kept(case: suite.AsyncCase) -> None:
    model = Model()

    def replica(world: World) -> FaultyEngine:
        return FaultyEngine(MemoryEngine(model, world), world)

    await case(replica, SteppableWorld(1_700_000_000.0))


async def test_the_nth_batch_fails_and_only_that(engine: FaultyEngine) -> None:
    fault = engine.faults.fail_before(3)
    assert [await fails(engine, f"op-{n}") for n in range(5)] == [
        *("works", "works", "no", "works", "works")
    ]
    assert fault.fired == 1
    assert await version(engine) == 4


async def test_batches_fail_from_the_nth_on_until_cleared(engine: FaultyEngine) -> None:
    fault = engine.faults.fail_before(2, times=None)
    assert [await fails(engine, f"op-{n}") for n in range(4)] == ["works", "no", "no", "no"]
    fault.clear()
    fault.clear()
    assert await fails(engine, "op-9") == "works"
    assert fault.fired == 3


async def test_a_batch_that_fails_after_it_was_applied_is_there(engine: FaultyEngine) -> None:
    fault = engine.faults.fail_after(1, times=2)
    assert [await fails(engine, "same") for _ in range(3)] == ["unknown", "unknown", "works"]
    assert fault.fired == 2
    assert await version(engine) == 1


async def test_only_replies_to_writes_are_lost(engine: FaultyEngine) -> None:
    fault = engine.faults.lose_reply()
    assert await version(engine) == 0
    assert fault.fired == 0
    assert await fails(engine, "a") == "unknown"
    assert await version(engine) == 1
    (again,) = await engine.execute([append("a")])
    assert isinstance(again, Duplicate)


async def test_an_unavailable_store_refuses_every_kind_of_call(engine: FaultyEngine) -> None:
    with engine.faults.unavailable() as outage:
        calls = [
            engine.open(),
            engine.execute([READ]),
            engine.wait({THREAD: 0}, 0.0),
            engine.migrate(),
            engine.describe(),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable) as caught:
                await call
            assert caught.value.applied == "no"
        await engine.close()  # letting go is always possible
    assert outage.fired == len(calls)
    await engine.open()
    await engine.wait({THREAD: 1}, 0.0)


async def test_two_faults_at_once_both_happen(engine: FaultyEngine) -> None:
    outage, slow = engine.faults.unavailable(), engine.faults.slow(0.001)
    lost = engine.faults.lose_reply()
    assert await fails(engine, "a") == "no", "who cannot be reached cannot lose a reply either"
    assert (outage.fired, slow.fired, lost.fired) == (1, 1, 1)
    engine.faults.clear()
    assert await fails(engine, "a") == "works"


async def test_what_a_slow_store_was_asked_it_does_though_nobody_waits(
    engine: FaultyEngine,
) -> None:
    engine.faults.slow(60)
    task = asyncio.ensure_future(engine.execute([append("a")]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    engine.faults.clear()
    assert await version(engine) == 1


async def test_leases_are_renewed_through_the_same_faults(engine: FaultyEngine) -> None:
    sibling = engine.sibling()
    assert isinstance(sibling.execute([append("a")])[0], Applied)
    with engine.faults.unavailable(), pytest.raises(StoreUnavailable):
        sibling.execute([READ])
    assert await version(engine) == 1


async def test_a_store_that_was_down_at_first_opens_when_it_is_back() -> None:
    store = open_faulty(policy=Policy(0.05, 0.05, threads="raise"))
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await store.thread("t").append(HELLO)
    assert (await store.thread("t").append(HELLO)).version == 1
    await store.close()


def test_blocking_stores_meet_the_same_faults() -> None:
    policy = Policy(0.05, 0.05, threads="raise")
    with open_faulty_sync(policy=policy) as store:
        thread = store.thread("t")
        with store.faults.unavailable() as outage, pytest.raises(StoreUnavailable):
            thread.append(HELLO)
        assert outage.fired > 1, "it was tried again"
        lost = store.faults.lose_reply()
        assert thread.append(HELLO).status == "stored"
        with store.faults.slow(0.001) as slow:
            assert thread.load().messages == [HELLO]
        assert (lost.fired, slow.fired) == (1, 1)
