"""A lease ends, and so does the block that holds it: async code."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import stateward
import stateward.sync
from coordination.conftest import Stall
from coordination.loops import on_every_loop, while_the_machine_runs
from stateward import ConversationDeletedError, LeaseHeld, LeaseLost, Policy, StoreUnavailable
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, parse
from stateward.ops import Op, Outcome
from stateward.store import Store
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import FaultyStore, open_faulty
from stateward.world import World

SHORT = 0.3  # a ttl that is over soon
LONG = 600.0  # a ttl that nobody could wait for


def faulty(url: str) -> FaultyStore:
    """Its outages end when the test says so: no breaker goes on refusing, no deadline is short."""
    patient = Policy(read_timeout=1.0, write_timeout=1.0, breaker_failures=1_000_000)
    return open_faulty(url, policy=patient)


async def for_ever() -> None:
    await asyncio.Event().wait()


async def until(happened: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until it has happened."""
    async with asyncio.timeout(60):
        while True:
            answer = happened()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)


async def is_free(store: Store, name: str = "it") -> bool:
    try:
        async with store.lock(name, wait=0):
            return True
    except LeaseHeld:
        return False


# --- loss -------------------------------------------------------------------------------


@on_every_loop
async def test_a_block_ends_with_lease_lost_when_its_lease_cannot_be_renewed(url: str) -> None:
    async with faulty(url) as store, stateward.open(url) as other:
        begun = time.monotonic()
        with pytest.raises(LeaseLost) as caught:
            async with store.lock("it", ttl=SHORT) as lease:
                outage = store.faults.unavailable()
                await for_ever()
        # As asyncio.timeout: the cancellation is not seen, and the task goes on as if none was.
        assert isinstance(caught.value.__cause__, TimeoutError)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        assert outage.fired >= 2  # one renewal at least, and the release
        assert time.monotonic() - begun >= 0.9 * SHORT
        with pytest.raises(LeaseLost):
            lease.check()
        async with other.lock("it", wait=10) as successor:
            assert successor.token > lease.token


@while_the_machine_runs
@on_every_loop
async def test_a_block_ends_soon_after_its_lease_was_taken_over() -> None:
    """The next renewal tells it, long before its own deadline would."""
    world, model, ttl = SteppableWorld(), Model(), 3.0
    async with (
        Store(MemoryEngine(model, world), world=world) as store,
        Store(MemoryEngine(model, world), world=world) as other,
    ):
        begun = time.monotonic()
        with pytest.raises(LeaseLost):
            async with store.lock("it", ttl=ttl) as lease:
                world.advance(ttl)  # for the store this holder has not been heard of for long
                async with other.lock("it", ttl=LONG, wait=0) as successor:
                    assert successor.token > lease.token
                    await for_ever()
        assert time.monotonic() - begun < 0.8 * ttl


@on_every_loop
async def test_the_leader_of_a_deleted_thread_is_told(url: str) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        with pytest.raises(LeaseLost):
            async with store.thread("t").lead(ttl=SHORT) as lease:
                await other.thread("t").append({"n": 1})
                await other.thread("t").delete()
                with pytest.raises(ConversationDeletedError):
                    await store.thread("t").append({"n": 2}, fence=lease)
                await for_ever()
        assert not (await other.thread("t").load()).exists


@on_every_loop
async def test_a_block_that_does_not_let_itself_be_cancelled_is_told_at_its_end(url: str) -> None:
    async with faulty(url) as store:
        with pytest.raises(LeaseLost):
            async with store.lock("it", ttl=SHORT):
                store.faults.unavailable()
                try:
                    await for_ever()
                except asyncio.CancelledError:
                    pass  # and it goes on
                await asyncio.sleep(0)
        store.faults.clear()


@on_every_loop
async def test_the_block_s_own_error_is_not_hidden_by_a_later_loss(url: str) -> None:
    async with faulty(url) as store:
        with pytest.raises(ZeroDivisionError):
            async with store.lock("it", ttl=SHORT):
                store.faults.unavailable()
                raise ZeroDivisionError
        store.faults.clear()


@on_every_loop
async def test_only_the_block_of_the_lost_lease_ends(url: str) -> None:
    async with (
        faulty(url) as store,
        stateward.open(url) as sound,
        sound.lock("outer", ttl=LONG) as outer,
    ):
        with pytest.raises(LeaseLost):
            async with store.lock("inner", ttl=SHORT):
                with store.faults.unavailable():
                    await for_ever()
        outer.check()
        await asyncio.sleep(0)
        assert not await is_free(sound, "outer")


@on_every_loop
async def test_leases_lost_together_end_their_blocks_once(url: str) -> None:
    async with faulty(url) as store:
        with pytest.raises(LeaseLost) as caught:
            async with store.lock("outer", ttl=SHORT), store.lock("inner", ttl=SHORT):
                store.faults.unavailable()
                time.sleep(2 * SHORT)  # both are over when the loop looks again  # noqa: ASYNC251
                await for_ever()
        assert "lease" in str(caught.value)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        store.faults.clear()


@on_every_loop
async def test_a_task_whose_lease_is_lost_is_left_to_others(url: str) -> None:
    async with faulty(url) as store, stateward.open(url) as other:
        ran: list[str] = []

        async def slow() -> str:
            ran.append("first")
            with store.faults.unavailable():
                await for_ever()
            return "never"

        async def fast() -> str:
            ran.append("second")
            return "second"

        with pytest.raises(LeaseLost):
            await store.once("it", slow, ttl=SHORT)
        assert await other.once("it", fast, wait=10) == "second"
        assert await store.once("it", slow) == "second"
        assert ran == ["first", "second"]


@on_every_loop
async def test_a_workflow_whose_lease_is_lost_stays_active(url: str) -> None:
    async with faulty(url) as store, stateward.open(url) as other:
        made: list[str] = []
        while not made:  # a busy machine may lose so short a lease before the first step
            with pytest.raises(LeaseLost):
                async with store.workflow("w", kind="k", ttl=SHORT, wait=10) as run:
                    await run.step("one", made.append, "one")
                    store.faults.unavailable()
                    await run.step("two", for_ever)
        store.faults.clear()
        async with other.workflow("w", wait=10) as run:
            await run.step("one", made.append, "one again")
            await run.step("two", made.append, "two")
        assert made == ["one", "two"]
        with pytest.raises(LeaseLost):  # of the first run nothing works any more
            await run_over(store, made)


async def run_over(store: FaultyStore, made: list[str]) -> None:
    async with store.workflow("v", kind="k", ttl=SHORT) as run:
        with store.faults.unavailable():
            try:
                await for_ever()
            except asyncio.CancelledError:
                pass
        before = list(made)
        for _ in range(2):
            with pytest.raises(LeaseLost):
                await run.step("late", made.append, "late")
        assert made == before


# --- cancellation -----------------------------------------------------------------------


@on_every_loop
async def test_cancellation_from_outside_stays_cancellation(url: str) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        entered = asyncio.Event()

        async def hold() -> None:
            async with store.lock("it", ttl=LONG):
                entered.set()
                await for_ever()

        task = asyncio.create_task(hold())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await is_free(other)  # given back at once


@on_every_loop
async def test_cancellation_from_outside_wins_over_a_loss_at_the_same_time(url: str) -> None:
    async with faulty(url) as store:

        async def hold() -> None:
            async with store.lock("it", ttl=SHORT):
                store.faults.unavailable()
                me = asyncio.current_task()
                assert me is not None
                me.cancel()
                time.sleep(2 * SHORT)  # noqa: ASYNC251
                await for_ever()

        task = asyncio.create_task(hold())
        with pytest.raises(asyncio.CancelledError):
            await task
        store.faults.clear()


@on_every_loop
async def test_timeouts_around_and_inside_a_lock_are_their_own(url: str) -> None:
    async with stateward.open(url) as store:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit, store.lock("it", ttl=LONG):
                limit.reschedule(asyncio.get_running_loop().time())  # the lock is held now
                await for_ever()
        assert await is_free(store)
        async with store.lock("it", ttl=LONG) as lease:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await for_ever()
            lease.check()
            assert not await is_free(store)


@on_every_loop
async def test_a_cancelled_task_or_workflow_goes_to_others_at_once(url: str) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        running = asyncio.Event()
        made: list[str] = []

        async def stuck() -> None:
            running.set()
            await for_ever()

        async def drive() -> None:
            async with store.workflow("w", kind="k", ttl=LONG) as run:
                await run.step("one", made.append, "one")
                await run.step("two", stuck, retries=5)

        for work in (lambda: store.once("it", stuck, ttl=LONG), drive):
            task = asyncio.create_task(work())
            await running.wait()
            running.clear()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await other.once("it", made_up, wait=0, ttl=LONG) == "made up"
        async with other.workflow("w", wait=0) as run:
            await run.step("one", made.append, "one again")
            await run.step("two", made.append, "two")
        assert made == ["one", "two"]


async def made_up() -> str:
    return "made up"


# --- waiters ----------------------------------------------------------------------------


def waits(store: Store) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every way to wait for a lease."""

    async def lock() -> None:
        async with store.lock("lock", ttl=LONG):
            raise AssertionError("it was granted to a waiter that is gone")

    async def lead() -> None:
        async with store.thread("lead").lead(ttl=LONG):
            raise AssertionError("it was granted to a waiter that is gone")

    async def task() -> None:
        await store.once("task", made_up, ttl=LONG)
        raise AssertionError("it was granted to a waiter that is gone")

    async def workflow() -> None:
        async with store.workflow("workflow", kind="k", ttl=LONG):
            raise AssertionError("it was granted to a waiter that is gone")

    return {"lock": lock, "lead": lead, "task": task, "workflow": workflow}


async def take_at_once(store: Store, what: str) -> None:
    """Must not have to wait for anybody's ttl."""
    if what == "lock":
        async with store.lock("lock", wait=5):
            return
    if what == "lead":
        async with store.thread("lead").lead(wait=5):
            return
    if what == "task":
        assert await store.once("task", made_up, wait=5) == "made up"
        return
    async with store.workflow("workflow", kind="k", wait=5) as run:
        await run.step("one", made_up)


@pytest.mark.parametrize("what", ["lock", "lead", "task", "workflow"])
@on_every_loop
async def test_a_waiter_cancelled_while_it_waits_leaves_nothing_behind(url: str, what: str) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            entered.set()
            await leave.wait()

        async def holder() -> None:
            if what == "task":
                with pytest.raises(ZeroDivisionError):
                    await other.once("task", hold_and_fail, ttl=LONG)
            elif what == "workflow":
                with pytest.raises(StoreUnavailable):
                    async with other.workflow("workflow", kind="k", ttl=LONG):
                        await hold()
                        raise StoreUnavailable("left to others")
            else:
                lock = other.lock("lock") if what == "lock" else other.thread("lead").lead()
                async with lock:
                    await hold()

        async def hold_and_fail() -> None:
            await hold()
            raise ZeroDivisionError

        holding = asyncio.create_task(holder())
        await entered.wait()
        waiters = [asyncio.create_task(waits(store)[what]()) for _ in range(5)]  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        for waiter in waiters:
            waiter.cancel()
        results = await asyncio.gather(*waiters, return_exceptions=True)
        assert {type(result) for result in results} == {asyncio.CancelledError}
        leave.set()
        await holding
        if what == "task":
            assert [info.failures async for info in other.tasks()] == [1]
        await take_at_once(other, what)


@pytest.mark.parametrize("what", ["lock", "lead", "task", "workflow"])
@on_every_loop
async def test_a_waiter_cancelled_while_it_is_being_granted_leaves_nothing_behind(
    url: str, stall: Stall, what: str
) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        await store.user("u").put({"n": 1})  # the store is open
        with stall():
            waiter = asyncio.create_task(waits(store)[what]())  # type: ignore[arg-type]
            await asyncio.sleep(0.1)  # its request is on its way, and stands still
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
        await take_at_once(other, what)


# --- a loop that hangs ------------------------------------------------------------------


@while_the_machine_runs
@on_every_loop
async def test_a_loop_that_hangs_for_a_while_keeps_its_lease(url: str) -> None:
    ttl = 1.0
    async with stateward.open(url) as store, store.lock("it", ttl=ttl) as lease:
        time.sleep(1.5 * ttl)  # renewed meanwhile, beside the loop  # noqa: ASYNC251
        lease.check()
        for _ in range(10):
            await asyncio.sleep(0.01)
        lease.check()
        assert not await is_free(store)


@on_every_loop
async def test_a_loop_that_hangs_for_long_is_succeeded(url: str) -> None:
    taken: dict[str, float] = {}
    written, asked = threading.Event(), threading.Event()

    def succeed() -> None:
        with stateward.sync.open(url) as other:
            asked.set()
            with other.thread("t").lead(ttl=LONG) as lease:
                taken["at"], taken["token"] = time.monotonic(), lease.token
                other.thread("t").append({"by": "successor"}, fence=lease)
                written.set()

    successor = threading.Thread(target=succeed, daemon=True)
    async with stateward.open(url) as store:
        with pytest.raises(LeaseLost):
            async with store.thread("t").lead(ttl=SHORT) as lease:
                successor.start()
                hung = time.monotonic()
                assert asked.wait(60)
                assert written.wait(60)  # the loop hangs until somebody else has written
                with pytest.raises(LeaseLost):
                    lease.check()
                with pytest.raises(LeaseLost):
                    await store.thread("t").append({"by": "stale"}, fence=lease)
                await for_ever()
        successor.join()
        assert taken["token"] > lease.token
        assert taken["at"] - hung >= 2 * SHORT  # it was renewed until the loop counted as hung
        messages = (await store.thread("t").load()).messages
        assert messages == [{"by": "successor"}]


# --- a store that fails -----------------------------------------------------------------


@while_the_machine_runs
@on_every_loop
async def test_an_outage_shorter_than_the_ttl_does_not_lose_the_lease(url: str) -> None:
    ttl = 2.0
    async with (
        faulty(url) as store,
        stateward.open(url) as other,
        store.lock("it", ttl=ttl) as lease,
    ):
        begun = time.monotonic()
        with store.faults.unavailable() as outage:
            await until(lambda: outage.fired >= 2)  # renewals, in vain
        assert time.monotonic() - begun >= ttl / 3
        await until(lambda: time.monotonic() > begun + 1.1 * ttl)
        lease.check()
        assert not await is_free(other)


@on_every_loop
async def test_an_outage_longer_than_the_ttl_loses_the_lease_in_time(url: str) -> None:
    """The holder stops before anybody else can begin."""
    async with faulty(url) as store, stateward.open(url) as other:
        ended: list[float] = []

        async def hold() -> None:
            try:
                async with store.lock("it", ttl=SHORT):
                    entered.set()
                    try:
                        await for_ever()
                    finally:
                        ended.append(time.monotonic())
            except LeaseLost:
                return
            raise AssertionError("it was not told")

        entered = asyncio.Event()
        holding = asyncio.create_task(hold())
        await entered.wait()
        with store.faults.unavailable() as outage:
            async with other.lock("it", wait=10):
                taken = time.monotonic()
            await holding
        assert outage.fired
        assert ended[0] <= taken


class Clogged(Passthrough):
    """Its writes wait in a queue; renewal has a connection of its own."""

    queue: asyncio.Event | None = None

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self.queue is not None:
            await self.queue.wait()
        return await super().execute(ops, deadline=deadline)


@while_the_machine_runs
@on_every_loop
async def test_a_long_queue_of_writes_costs_no_lease(url: str) -> None:
    ttl, world = 1.0, World()
    engine = Clogged(create_engine(parse(url), world))
    async with (
        Store(engine, world=world) as store,
        stateward.open(url) as other,
        store.lock("it", ttl=ttl) as lease,
    ):
        engine.queue = asyncio.Event()
        writes = [asyncio.create_task(store.user("u").put({"n": number})) for number in range(3)]
        begun = time.monotonic()
        while time.monotonic() < begun + 1.2 * ttl:
            assert not await is_free(other)
            await asyncio.sleep(0.05)
        lease.check()
        engine.queue.set()
        await asyncio.gather(*writes)


# --- closing ----------------------------------------------------------------------------


@on_every_loop
async def test_closing_gives_every_lease_back_at_once(url: str) -> None:
    store, entered = stateward.open(url), asyncio.Barrier(6)
    made: list[str] = []

    async def hold(lock: Any) -> None:
        async with lock:
            await entered.wait()
            await for_ever()

    async def stuck() -> None:
        await entered.wait()
        await for_ever()

    async def drive() -> None:
        async with store.workflow("w", kind="k", ttl=LONG) as run:
            await run.step("one", made.append, "one")
            await run.step("two", stuck)

    holders = [
        asyncio.create_task(hold(store.lock("a", ttl=LONG))),
        asyncio.create_task(hold(store.elect("b", ttl=LONG))),
        asyncio.create_task(hold(store.thread("c").lead(ttl=LONG))),
        asyncio.create_task(store.once("task", stuck, ttl=LONG)),
        asyncio.create_task(drive()),
    ]
    await entered.wait()
    async with stateward.open(url) as other:
        assert not await is_free(other, "a")
        await store.close()
        async with (
            other.lock("a", wait=0),
            other.elect("b", wait=0),
            other.thread("c").lead(wait=0),
        ):
            pass

        async def handle(run: Any) -> None:
            await run.step("one", made.append, "one again")
            await run.step("two", made.append, "two")

        async with asyncio.timeout(LONG / 4):
            done = lambda: "two" in made and "task" in made  # noqa: E731
            await other.work(
                {"k": handle}, tasks={"stuck": lambda: made.append("task")}, poll=0.01, until=done
            )
        assert sorted(made) == ["one", "task", "two"]
        # Whoever still ran is told: its lease is somebody else's now.
        results = await asyncio.gather(*holders, return_exceptions=True)
        assert {type(result) for result in results} == {LeaseLost}, results


@on_every_loop
async def test_closing_works_though_the_store_cannot_be_told(url: str) -> None:
    store = open_faulty(url)
    entered = asyncio.Event()

    async def hold() -> None:
        async with store.lock("it", ttl=2.0):
            entered.set()
            await for_ever()

    holder = asyncio.create_task(hold())
    await entered.wait()
    with store.faults.unavailable() as outage:
        await store.close()
        assert outage.fired
    with pytest.raises(LeaseLost):
        await holder
    async with stateward.open(url) as other:
        await until(lambda: is_free(other))  # its ttl does it


class Deaf(Passthrough):
    """From some moment on it hears nothing: a call waits until `over`, then fails."""

    over: asyncio.Event | None = None
    asked = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self.over is None:
            return await super().execute(ops, deadline=deadline)
        self.asked += 1
        await self.over.wait()
        raise StoreUnavailable("nobody hears")


async def test_a_lease_that_a_cancelled_caller_could_not_give_back_is_said_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    engine = Deaf(create_engine(parse("memory://"), World()))
    async with Store(engine, policy=Policy(write_timeout=0.2)) as store:
        held = asyncio.Event()

        async def hold() -> None:
            async with store.lock("it", ttl=LONG):
                held.set()
                await for_ever()

        holder = asyncio.create_task(hold())
        await held.wait()
        engine.over = asyncio.Event()
        holder.cancel()  # it begins to give the lease back,
        await until(lambda: engine.asked > 0)
        holder.cancel()  # and is not there to hear that it cannot
        await asyncio.wait((holder,))
        engine.over.set()
    del holder
    gc.collect()  # a task whose error nobody looked at would complain now
    assert complaints == []
    said = [record for record in caplog.records if record.message == "lease_not_released"]
    assert len(said) == 1
