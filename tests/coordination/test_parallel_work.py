"""Workflow code as people write it: branches beside each other, groups, timeouts, cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import stateward
from stateward.errors import InvalidInput, LeaseHeld, LeaseLost, StoreUnavailable
from stateward.state.workflow_record import DEATHS_FORGIVEN
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import open_faulty

Handler = Callable[[Any], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[stateward.Store]:
    async with stateward.open(url) as opened:
        yield opened


async def drive(store: stateward.Store, handler: Handler, id: str = "w") -> Any:
    async with store.workflow(id, kind="k") as run:
        await handler(run)
    return run


async def status(store: stateward.Store, id: str = "w") -> str:
    info = await store.workflow(id).info()
    assert info is not None
    return info.status


async def test_a_wait_does_not_give_the_lease_away_under_a_step_that_runs_beside_it(
    store: stateward.Store,
) -> None:
    paid: list[int] = []
    gate = asyncio.Event()

    async def pay() -> str:
        await gate.wait()
        paid.append(1)
        return "paid"

    async def handler(run: Any) -> None:
        await asyncio.gather(run.step("pay", pay), run.wait("approval"))

    driving = asyncio.create_task(drive(store, handler))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not driving.done()  # it waits for the step, not only for the signal
    gate.set()
    assert (await driving).parked
    for _ in range(3):
        assert (await drive(store, handler)).parked
    await store.workflow("w").signal("approval")
    await drive(store, handler)
    assert (paid, await status(store)) == ([1], "completed")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_of_two_waits_the_one_that_ends_first_says_when_it_is_due(
    store: stateward.Store, order: tuple[str, str]
) -> None:
    ended: list[str] = []

    async def wait(run: Any, name: str) -> None:
        try:
            await run.wait(name, timeout=None if name == "a" else 0.05)
        except TimeoutError:
            ended.append(name)
            raise

    async def handler(run: Any) -> None:
        await asyncio.gather(*(wait(run, name) for name in order))

    assert (await drive(store, handler)).parked
    await store.work({"k": handler}, poll=0.01, until=lambda: bool(ended))
    assert ended == ["b"]


async def test_waits_in_a_task_group_park_the_workflow(store: stateward.Store) -> None:
    async def handler(run: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.wait("a"))
            group.create_task(run.wait("b"))

    assert (await drive(store, handler)).parked
    await store.workflow("w").signal("a")
    assert (await drive(store, handler)).parked
    await store.workflow("w").signal("b")
    await drive(store, handler)
    assert await status(store) == "completed"


async def test_a_moment_of_outage_within_a_task_group_fails_no_workflow() -> None:
    """It is over when the block is left, so that a failure could be recorded."""
    async with open_faulty("memory://") as store:
        made: list[str] = []

        async def step(name: str) -> None:
            made.append(name)
            if len(made) == 2:
                store.faults.unavailable()

        async def handler(run: Any) -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for name in ("a", "b"):
                        group.create_task(run.step(name, step, name))
            finally:
                store.faults.clear()

        with pytest.raises((ExceptionGroup, StoreUnavailable)):
            await drive(store, handler)
        assert await status(store) == "active"


async def test_a_step_that_was_cut_short_by_a_timeout_is_not_run_again(
    store: stateward.Store,
) -> None:
    begun: list[str] = []
    told: list[str] = []

    async def slow() -> None:
        begun.append("slow")
        await asyncio.Event().wait()

    async def tell() -> None:
        told.append("too slow")

    async def handler(run: Any) -> None:
        try:
            async with asyncio.timeout(0.05):
                await run.step("slow", slow)
        except TimeoutError:
            await run.step("tell", tell)
        await run.wait("seen")

    for _ in range(3):
        assert (await drive(store, handler)).parked
    assert (begun, told) == (["slow"], ["too slow"])


async def test_a_step_whose_run_is_cancelled_is_run_again(store: stateward.Store) -> None:
    begun: list[str] = []
    cleaned: list[str] = []
    standing = asyncio.Event()

    async def slow() -> None:
        begun.append("slow")
        if len(begun) == 1:
            standing.set()
            await asyncio.Event().wait()

    async def clean() -> None:
        cleaned.append("clean")

    async def handler(run: Any) -> None:
        try:
            await run.step("slow", slow)
        finally:
            await run.step("clean", clean)

    driving = asyncio.create_task(drive(store, handler))
    await standing.wait()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    await drive(store, handler)
    assert (begun, cleaned, await status(store)) == (["slow", "slow"], ["clean"], "completed")


async def test_a_worker_survives_a_handler_that_lets_a_cancellation_out(
    store: stateward.Store,
) -> None:
    done: list[str] = []

    async def poisonous(run: Any) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    async def sound(run: Any) -> None:
        done.append(run.id)

    for kind in ("poisonous", "sound"):
        with pytest.raises(StoreUnavailable):
            async with store.workflow(kind, kind=kind):
                raise StoreUnavailable("left to a worker")
    handlers = {"poisonous": poisonous, "sound": sound}
    await asyncio.wait_for(store.work(handlers, poll=0.01, until=lambda: bool(done)), 30)
    assert (await status(store, "poisonous"), done) == ("failed", ["sound"])


async def test_a_worker_that_is_cancelled_ends(store: stateward.Store) -> None:
    standing = asyncio.Event()

    async def handler(run: Any) -> None:
        standing.set()
        await asyncio.Event().wait()

    with pytest.raises(StoreUnavailable):
        async with store.workflow("w", kind="k"):
            raise StoreUnavailable("left to a worker")
    working = asyncio.create_task(store.work({"k": handler}, poll=0.01))
    await standing.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await status(store) == "active"


async def test_a_lease_that_a_handler_could_not_have_is_told_and_not_taken_for_another_driver(
    store: stateward.Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(run: Any) -> None:
        async with store.lock("inventory", wait=0):
            pass

    with pytest.raises(StoreUnavailable):
        async with store.workflow("w", kind="k"):
            raise StoreUnavailable("left to a worker")
    looked = iter([False, True])
    with caplog.at_level(logging.WARNING, "stateward.workflows"):
        async with store.lock("inventory"):
            await store.work({"k": handler}, poll=0.01, until=lambda: next(looked, True))
    left = [record for record in caplog.records if record.message == "workflow_left"]
    assert [record.error for record in left] == [LeaseHeld.__name__]  # type: ignore[attr-defined]


async def test_a_workflow_that_takes_its_drivers_down_fails_in_the_end(url: str) -> None:
    """Its driver is gone without a word each time: nothing gives the lease back."""
    driven: list[str] = []
    world = SteppableWorld()
    store = stateward.open(url, world=world)

    async def handler(run: Any) -> None:
        driven.append(run.id)
        raise StoreUnavailable("left to another")

    async def die() -> None:
        workflow = store.workflow("w", kind="k", ttl=60.0)  # as the consumer of a queue does
        await asyncio.create_task(workflow.__aenter__())
        assert workflow._held is not None
        store._scope.leases.let_go(workflow._held)  # nobody renews it, and nobody releases it
        world.advance(61.0)

    async def work() -> None:
        was, before = len(driven), await status(store)
        while len(driven) == was and await status(store) == before:
            looks = iter([False, True])
            await store.work({"k": handler}, poll=0.001, until=lambda: next(looks, True))  # noqa: B023

    for _ in range(2):  # whoever gives it back says that it can be driven
        for _ in range(DEATHS_FORGIVEN):
            await die()
        await work()
    assert (len(driven), await status(store)) == (2, "active")
    for _ in range(DEATHS_FORGIVEN + 1):
        await die()
    await work()
    assert (len(driven), await status(store)) == (2, "failed")
    await store.close()


async def test_what_runs_at_the_same_time_needs_distinct_names(store: stateward.Store) -> None:
    """In a replay, where what is recorded takes no time, one would be taken for the other."""

    async def together(run: Any, *branches: Awaitable[Any]) -> None:
        for answer in await asyncio.gather(*branches, return_exceptions=True):
            if isinstance(answer, Exception):
                raise answer

    async def steps(run: Any) -> None:
        await together(run, *(run.step("fetch", asyncio.sleep, 0) for _ in range(2)))

    async def waits(run: Any) -> None:
        await together(run, run.wait("vote"), run.wait("vote"))

    async def sleeps(run: Any) -> None:
        await together(run, run.sleep(9), run.sleep(1))

    for handler in (steps, waits, sleeps):
        with pytest.raises(InvalidInput, match="distinct names"):
            await drive(store, handler, handler.__name__)

    async def named(run: Any) -> None:
        await asyncio.gather(run.sleep(0.02, name="a"), run.sleep(0.01, name="b"))

    await drive(store, named)
    while await status(store) == "active":
        looks = iter([False, True])
        await store.work({"k": named}, poll=0.001, until=lambda: next(looks, True))  # noqa: B023
    assert await status(store) == "completed"


async def test_a_worker_survives_a_cancellation_after_a_group_of_tasks_has_failed(
    store: stateward.Store,
) -> None:
    """A group leaves a trace in the task around it that looks as if that were being cancelled."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def handler(run: Any) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except ExceptionGroup:
            raise asyncio.CancelledError from None  # of a task of its own, say

    for id in ("w", "v"):
        with pytest.raises(StoreUnavailable):
            async with store.workflow(id, kind="k"):
                raise StoreUnavailable("left to a worker")
    looks = iter([False, True])
    await store.work({"k": handler}, poll=0.001, until=lambda: next(looks, True))
    assert [await status(store, id) for id in ("w", "v")] == ["failed", "failed"]


async def test_a_checkpoint_is_refused_while_a_step_runs_beside_it(store: stateward.Store) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def slow() -> int:
        started.set()
        await gate.wait()
        return 1

    async def handler(run: Any) -> None:
        beside = asyncio.ensure_future(run.step("slow", slow))
        await started.wait()
        with pytest.raises(InvalidInput, match="when all branches are done"):
            await run.checkpoint("too early")
        gate.set()
        assert await beside == 1
        await run.checkpoint("in time")
        await run.wait("more")

    async with asyncio.timeout(30):
        await drive(store, handler)
    async with store.workflow("w") as run:
        assert run.checkpointed == "in time"


async def test_nothing_is_asked_for_while_a_checkpoint_is_recorded() -> None:
    async with open_faulty("memory://") as store:

        async def handler(run: Any) -> None:
            with store.faults.slow(0.01):
                asked = (run.checkpoint("here"), run.step("x", str), run.checkpoint("there"))
                came = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in came] == [type(None), InvalidInput, InvalidInput]
            assert await run.step("x", str) == ""
            await run.wait("more")

        async with asyncio.timeout(30):
            await drive(store, handler)
        async with store.workflow("w") as run:
            assert (run.checkpointed, run.unasked) == ("here", ["x#1.1"])


async def test_a_checkpoint_that_was_cut_short_leaves_the_work_to_the_next_driver() -> None:
    async with open_faulty("memory://") as store:
        made: list[str] = []

        async def handler(run: Any) -> None:
            await run.step("one", made.append, "one")
            if run.checkpointed is None:
                slow = store.faults.slow(60)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await run.checkpoint("here")
                slow.clear()
                with pytest.raises(LeaseLost, match="cut short"):
                    await run.step("two", made.append, "two")

        async with asyncio.timeout(30):
            with pytest.raises(LeaseLost, match="cut short"):
                await drive(store, handler)
            assert await status(store) == "active"
            async with store.workflow("w", wait=20) as run:
                assert run.checkpointed in (None, "here")
                await run.wait("more")
        assert made == ["one"]
