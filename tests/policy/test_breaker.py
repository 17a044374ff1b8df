"""While a store is down it is not asked, except by one call now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import stateward
from stateward import DiskProblem, Policy, StoreUnavailable, TooFewReplicas
from stateward.layers.breaker import Breaker
from stateward.layers.deadlines import Deadlines
from stateward.observe.counters import Counters
from stateward.ops import Op, Outcome, Sweep
from stateward.testing.faults import FaultyStore, open_faulty
from stateward.world import World

POLICY = Policy(read_timeout=2.0, write_timeout=2.0, threads="raise", breaker_seconds=1.0)


class Clock(World):
    """Time passes only in pauses."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    async def pause(self, seconds: float) -> None:
        self.passed += seconds
        await asyncio.sleep(0)


def breaker(failures: int = 3) -> Breaker:
    return Breaker(failures, 1.0, Counters())


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    tried = breaker()
    for now in (1.0, 2.0):
        tried.failed(now - 0.1, now)
        assert tried.state == "closed"
    tried.failed(2.9, 3.0)
    assert tried.state == "open"


def test_a_success_in_between_begins_the_row_anew() -> None:
    tried = breaker()
    for now in (1.0, 2.0):
        tried.failed(now - 0.1, now)
    tried.succeeded(3.0)
    for now in (3.0, 4.0):
        tried.failed(now - 0.1, now)
    assert tried.state == "closed"


def test_one_batch_that_fails_for_a_hundred_callers_is_not_an_outage() -> None:
    tried = breaker()
    for _ in range(100):
        tried.failed(1.0, 1.01)
    assert tried.state == "closed"


def test_a_hundred_callers_that_waited_in_vain_are_one() -> None:
    tried = breaker()
    for _ in range(100):
        tried.failed(1.0, 2.0)
    assert tried.state == "open"


def test_a_store_that_has_answered_others_a_moment_ago_is_not_down() -> None:
    tried = breaker()
    for now in (1.0, 2.0, 3.0):
        tried.answered = now - 0.2
        tried.failed(0.9, now)
        assert tried.state == "closed"
    tried.failed(0.9, 3.4)
    assert tried.state == "open"


def test_while_it_is_open_one_call_at_a_time_finds_out() -> None:
    tried = breaker(1)
    tried.failed(0.0, 1.0)
    refusal = tried.admit(1.9, 0.5)
    assert refusal is not None
    assert "the breaker is open" in str(refusal)
    assert tried.admit(2.0, 0.5) is None
    assert tried.admit(2.4, 0.5) is not None
    tried.failed(2.0, 2.5)
    assert tried.admit(3.4, 0.5) is not None
    assert tried.admit(3.5, 0.5) is None
    tried.succeeded(3.5)
    assert tried.admit(3.5, 0.5) is None
    assert tried.state == "closed"


def test_a_probe_that_never_comes_back_blocks_nobody() -> None:
    tried = breaker(1)
    tried.failed(0.0, 1.0)
    assert tried.admit(2.0, 0.5) is None
    assert tried.admit(3.5, 0.5) is None


async def exhaust(store: FaultyStore) -> None:
    """Fail until neither reads nor writes are tried any more."""
    while store.counters.breaker_opened < 2:
        with pytest.raises(StoreUnavailable):
            await store.thread("s-1").load()
        with pytest.raises(StoreUnavailable):
            await store.user("u-1").put({})


def test_an_answer_in_one_direction_is_worth_a_question_in_the_other() -> None:
    reads, writes = breaker(1), breaker(1)
    reads.other, writes.other = writes, reads
    for tried in (reads, writes):
        tried.failed(0.0, 1.0)
    assert writes.admit(2.0, 0.5) is None
    assert reads.admit(2.1, 0.5) is None
    reads.succeeded(2.2)
    assert writes.admit(2.3, 0.5) is not None, "one at a time, still"
    assert writes.admit(2.5, 0.5) is None
    writes.failed(2.5, 2.6)
    assert writes.admit(2.7, 0.5) is not None


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_store_that_serves_others_opens_no_breaker_and_is_asked_until_the_deadline(
    is_busy: bool,
) -> None:
    class Below:
        async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
            clock.passed += 0.3
            error = StoreUnavailable("locked")
            error.is_busy = is_busy
            raise error

    clock = Clock()
    deadlines = Deadlines(Below(), Policy(write_timeout=60.0), clock)
    with pytest.raises(StoreUnavailable):
        await deadlines.execute([Sweep(1)])
    assert deadlines.breaker == ("closed" if is_busy else "open")
    assert (clock.passed > 59.0) == is_busy


async def test_a_read_with_the_breaker_open_does_not_reach_the_engine() -> None:
    clock = Clock()
    async with open_faulty(policy=POLICY, world=clock) as store:
        with store.faults.unavailable():
            await exhaust(store)
            asked = store.faults.calls
            for _ in range(50):
                with pytest.raises(StoreUnavailable, match="the breaker is open"):
                    await store.thread("s-1").load()
                with pytest.raises(StoreUnavailable, match="the breaker is open"):
                    await store.user("u-1").put({})
            assert store.faults.calls == asked
            assert store.counters.breaker_refused == 100
            health = await store.health()
            assert (health.ok, health.breaker) == (False, "open")


async def test_a_caller_that_never_rests_does_not_keep_others_from_running() -> None:
    async with open_faulty(policy=POLICY, world=Clock()) as store:
        with store.faults.unavailable():
            await exhaust(store)
            others = asyncio.Event()
            asyncio.get_running_loop().call_soon(others.set)
            for _ in range(1000):
                with pytest.raises(StoreUnavailable):
                    await store.thread("s-1").load()
                if others.is_set():
                    return
    raise AssertionError("nobody else has run")


async def test_one_probe_closes_it_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with open_faulty(policy=POLICY, world=clock) as store:
        with store.faults.unavailable():
            await exhaust(store)
            clock.passed += 1.0
            asked = store.faults.calls
            for _ in range(10):
                with pytest.raises(StoreUnavailable):
                    await store.thread("s-1").load()
            assert store.faults.calls == asked + 1
        clock.passed += 1.0
        assert not (await store.thread("s-1").load()).exists
        await store.user("u-1").put({})
        assert store.breaker == "closed"
        assert (await store.health()).ok
    said = [record.message for record in caplog.records if record.name == "stateward.policy"]
    assert sorted(said) == ["breaker_closed", "breaker_closed", "breaker_opened", "breaker_opened"]


async def test_a_lease_is_given_back_though_the_breaker_is_open() -> None:
    clock = Clock()
    async with open_faulty(policy=POLICY, world=clock) as store:
        async with store.lock("inventory", ttl=60.0):
            with store.faults.unavailable():
                await exhaust(store)
            assert store.breaker == "open"
        clock.passed += 1.0
        async with store.lock("inventory", ttl=60.0, wait=0):
            pass


async def test_closing_gives_leases_back_though_the_breaker_is_open() -> None:
    clock = Clock()
    name = f"memory://{clock.new_id()}"
    store = open_faulty(name, policy=POLICY, world=clock)
    held = asyncio.Event()

    async def hold() -> None:
        async with store.lock("inventory", ttl=60.0):
            held.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await held.wait()
    with store.faults.unavailable():
        await exhaust(store)
    await store.close()
    async with stateward.open(name) as other, other.lock("inventory", wait=0):
        pass
    with pytest.raises(stateward.LeaseLost):
        await holder


async def test_reads_go_on_while_writes_fail() -> None:
    async with open_faulty(policy=POLICY, world=Clock()) as store:
        with store.faults.lose_reply(times=1_000_000):
            while store.breaker == "closed":
                with pytest.raises(StoreUnavailable):
                    await store.user("u-1").put({})
            for _ in range(20):
                await store.thread("s-1").load()
        assert store.counters.breaker_opened == 1


@pytest.mark.parametrize("answer", [DiskProblem("no room"), TooFewReplicas("too few")], ids=repr)
async def test_a_store_that_says_why_it_takes_no_writes_is_no_outage(answer: Exception) -> None:
    clock = Clock()
    async with open_faulty(policy=POLICY, world=clock) as store:
        engine = store._layered.stacks[0].engine
        ask, refusals = engine.execute, [StoreUnavailable("down")]

        async def refuse(ops, **hints):  # type: ignore[no-untyped-def]
            if any(isinstance(op, stateward.ops.Commit) for op in ops):
                raise refusals[-1]
            return await ask(ops, **hints)

        engine.execute = refuse  # type: ignore[method-assign]
        while store.breaker == "closed":
            with pytest.raises(StoreUnavailable):
                await store.user("u-1").put({})
        refusals.append(answer)
        await clock.pause(POLICY.breaker_seconds)
        for _ in range(20):
            with pytest.raises(type(answer)):
                await store.user("u-1").put({})
        assert store.breaker == "closed"
        await store.thread("s-1").load()


def test_wrong_policies_are_refused() -> None:
    for wrong in (
        {"read_timeout": 0},
        {"write_timeout": "5"},
        {"write_timeout": 121},
        {"read_timeout": 120.1},
        {"threads": "ignore"},
        {"breaker_failures": 0},
        {"breaker_seconds": -1.0},
    ):
        with pytest.raises(stateward.InvalidInput, match=f"Policy.{next(iter(wrong))}"):
            Policy(**wrong)  # type: ignore[arg-type]
