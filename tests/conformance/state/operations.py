"""Workflows, operated: what they wait for, cancelled, retried, forked, started and paused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import rounds
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    Permanent,
    StateConflictError,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowFinished,
)
from stateward.records import WorkflowInfo
from stateward.state.run import Run
from stateward.store import Store
from stateward.testing.conformance.harness import raises


class Bench:
    """Steps that are made, and those that fail until the code is mended."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.mended = False

    async def make(self, what: str) -> str:
        self.made.append(what)
        return what.upper()

    async def may_fail(self, what: str) -> str:
        self.made.append(what)
        if not self.mended:
            raise ValueError(f"{what} is broken")
        return what.upper()


async def told(store: Store, id: str = "w") -> WorkflowInfo:
    info = await store.workflow(id).info()
    assert info is not None
    return info


async def drive(store: Store, handler: Callable[[Any], Awaitable[Any]], id: str = "w") -> bool:
    """Begin it or go on with it; whether it was parked."""
    async with store.workflow(id, kind="k", wait=0) as run:
        run.result = await handler(run)
    return bool(run.parked)


async def work(store: Store, **handlers: Callable[[Any], Awaitable[Any]]) -> None:
    """All that there is to do, and what comes of it."""
    await store.work(handlers, poll=0.001, until=rounds(8))


# --- what it waits for ------------------------------------------------------------------


@case
async def a_workflow_says_what_it_waits_for_and_until_when(h: StoreHarness) -> None:
    async with h.store() as store:

        async def flow(run: Run) -> None:
            await run.wait("approval", timeout=60)
            await run.sleep(500, name="night")

        assert await drive(store, flow)
        (wait,) = (await told(store)).waits
        assert (wait.what, wait.name) == ("signal", "approval")
        assert wait.until is not None
        assert 59 < (wait.until - wait.since).total_seconds() < 61
        await store.workflow("w").signal("approval")
        (wait,) = (await told(store)).waits
        assert (wait.what, wait.name, wait.until) == ("driver", "", None)
        assert await drive(store, flow)
        (wait,) = (await told(store)).waits
        assert (wait.what, wait.name) == ("sleep", "night")
        assert wait.until is not None
        assert 499 < (wait.until - wait.since).total_seconds() < 501
        listed = [info async for info in store.workflows(kind="k")]
        assert listed == [await told(store)]


@case
async def a_workflow_that_is_driven_names_its_driver_and_waits_for_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k"):
            info = await told(store)
            assert info.driver, info
            assert info.waits == ()
        info = await told(store)
        assert (info.status, info.driver, info.waits) == ("completed", None, ())


@case
async def a_workflow_says_how_a_step_failed_last_and_how_often_it_was_tried(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        seen: list[WorkflowInfo] = []

        async def fail_twice() -> None:
            if len(seen) < 2:
                seen.append(await told(store))
                raise ValueError(f"try {len(seen)}")
            seen.append(await told(store))

        async with store.workflow("w", kind="k") as run:
            await run.step("call", fail_twice, retries=2)
        assert (seen[0].last_error, seen[0].attempt) == (None, 0)
        assert (seen[1].last_error, seen[1].attempt) == ("ValueError: try 1", 1)
        assert (seen[2].failed_step, seen[2].attempt) == ("call#1", 2)
        bench = Bench()
        async with store.workflow("caught", kind="k") as run:
            try:
                await run.step("charge", bench.may_fail, "charge")
            except ValueError:
                await run.step("apologise", bench.make, "apologise")
        info = await told(store, "caught")
        assert (info.status, info.error) == ("completed", None)
        assert (info.last_error, info.failed_step) == ("ValueError: charge is broken", "charge#1")
        with raises(ValueError):
            async with store.workflow("failed", kind="k") as run:
                await run.step("charge", bench.may_fail, "charge")
        info = await told(store, "failed")
        assert info.error == info.last_error == "ValueError: charge is broken"
        assert (info.status, info.failed_step, info.attempt) == ("failed", "charge#1", 1)


# --- cancelled --------------------------------------------------------------------------


@case
async def a_parked_workflow_is_cancelled_and_never_driven_again(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        bench = Bench()

        async def flow(run: Run) -> None:
            await run.wait("approval")
            await run.step("pay", bench.make, "pay")

        assert await drive(store, flow)
        assert await other.workflow("w").cancel("the order was a test")
        assert not await other.workflow("w").cancel("again")
        info = await told(store)
        assert info.status == "cancelled"
        assert info.error == "WorkflowCancelled: the order was a test"
        with raises(WorkflowCancelled):
            await store.workflow("w").signal("approval")
        with raises(WorkflowCancelled):
            await drive(store, flow)
        await work(other, k=flow)
        assert bench.made == []
        listed = [info.id async for info in store.workflows(status="cancelled")]
        assert listed == ["w"]


@case
async def the_driver_of_a_cancelled_workflow_finishes_its_step_and_begins_no_other(
    h: StoreHarness,
) -> None:
    async with h.store() as store, h.store() as other:
        bench = Bench()

        async def cancelled_meanwhile() -> str:
            await other.workflow("w").cancel("too expensive")
            return "charged"

        with raises(WorkflowCancelled) as caught:
            async with store.workflow("w", kind="k", ttl=60) as run:
                try:
                    await run.step("charge", cancelled_meanwhile)
                except Exception:
                    pass  # whoever takes it in is told again
                await run.step("ship", bench.make, "ship")
        assert "too expensive" in str(caught.error)
        assert bench.made == []
        info = await told(other)
        assert (info.status, info.driver) == ("cancelled", None)
        async with other.workflow("w", kind="k") as run:
            assert await run.step("charge", bench.make, "charge") == "charged"  # recorded
        assert bench.made == []


@case
async def a_workflow_that_completes_as_it_is_cancelled_has_one_end(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        with raises(WorkflowCancelled):
            async with store.workflow("first", kind="k", ttl=60):
                await other.workflow("first").cancel()
        assert (await told(store, "first")).status == "cancelled"
        async with store.workflow("second", kind="k"):
            pass
        with raises(WorkflowFinished):
            await other.workflow("second").cancel()
        with raises(WorkflowCancelled):
            async with store.workflow("third", kind="k", ttl=60) as run:
                await other.workflow("third").cancel()
                await run.wait("approval")  # does not park
        with raises(WorkflowCancelled):
            async with store.workflow("fourth", kind="k", ttl=60) as run:
                await other.workflow("fourth").cancel()
                await run.save({"n": 1})
        for id_ in ("third", "fourth"):
            info = await told(other, id_)
            assert (info.status, info.driver, info.state) == ("cancelled", None, {})
        with raises(InvalidInput):
            await other.workflow("unknown").cancel()


# --- children ---------------------------------------------------------------------------


async def parent(run: Run) -> Any:
    return await run.child("part", kind="child", input={"n": 20})


async def child(run: Run) -> Any:
    return run.input["n"] + 1


@case
async def a_child_is_driven_by_whoever_works_and_gives_its_result(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        assert await drive(store, parent)
        (wait,) = (await told(store)).waits
        assert (wait.what, wait.name) == ("child", "w/part#1")
        await work(other, child=child)
        assert (await told(store, "w/part#1")).status == "completed"
        (wait,) = (await told(store)).waits
        assert wait.what == "driver"  # it was told
        await work(store, k=parent)
        assert await store.workflow("w").result(wait=0) == 21
        assert not await drive(store, parent)  # a replay


@case
async def a_child_that_fails_is_a_failure_of_its_parent(h: StoreHarness) -> None:
    async with h.store() as store:
        caught: list[str] = []

        async def fail(run: Run) -> None:
            raise ValueError("no stock")

        async def forgive(run: Run) -> str:
            try:
                await parent(run)
            except WorkflowFailed as error:
                caught.append(str(error))
            return "without it"

        await drive(store, forgive)
        await work(store, child=fail, k=forgive)
        assert await store.workflow("w").result(wait=0) == "without it"
        assert "no stock" in caught[0]


@case
async def cancelling_a_workflow_cancels_its_children_and_theirs(h: StoreHarness) -> None:
    async with h.store() as store:

        async def middle(run: Run) -> Any:
            return await run.child("leaf", kind="leaf")

        async def leaf(run: Run) -> None:
            await run.wait("never")

        await drive(store, parent)
        await work(store, child=middle, leaf=leaf)
        leaf_id = "w/part#1/leaf#1"
        assert (await told(store, leaf_id)).status == "active"
        assert await store.workflow("w").cancel("enough")
        for id_ in ("w", "w/part#1", leaf_id):
            info = await told(store, id_)
            assert (info.status, info.driver) == ("cancelled", None), info
        assert "its parent" in str((await told(store, leaf_id)).error)


@case
async def another_workflow_is_not_taken_for_a_child(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.workflow("w/part#1", kind="child", input={"n": 20}).start()
        with raises(KeyReusedError):
            await drive(store, parent)


# --- retried ----------------------------------------------------------------------------


@case
async def a_failed_workflow_is_retried_from_the_step_that_failed(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()

        async def flow(run: Run) -> str:
            await run.step("check", bench.make, "check")
            paid = await run.step("pay", bench.may_fail, "pay")
            return str(await run.step("mail", bench.make, f"mail {paid}"))

        for _ in range(2):
            with raises(ValueError):
                await drive(store, flow)
            with raises(WorkflowFailed):
                await store.workflow("w").result(wait=0)
            assert await store.workflow("w").retry()
            assert not await store.workflow("w").retry()  # it is active
        bench.mended = True
        await work(store, k=flow)
        assert bench.made == ["check", "pay", "pay", "pay", "mail PAY"]
        assert await store.workflow("w").result(wait=0) == "MAIL PAY"
        info = await told(store)
        assert (info.error, info.last_error) == (None, None)
        with raises(WorkflowFinished):
            await store.workflow("w").retry()
        with raises(InvalidInput):
            await store.workflow("unknown").retry()


@case
async def a_failure_that_was_recorded_and_let_out_later_is_retried_too(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()

        async def flow(run: Run) -> None:
            failed: ValueError | None = None
            try:
                await run.step("pay", bench.may_fail, "pay")
            except ValueError as error:
                failed = error
            await run.step("clean up", bench.make, "clean up")  # records the failure
            if failed is not None:
                raise Permanent("not paid") from failed

        with raises(Permanent):
            await drive(store, flow)
        await store.workflow("w").retry()
        bench.mended = True
        await work(store, k=flow)
        assert bench.made == ["pay", "clean up", "pay"]
        assert (await told(store)).status == "completed"


@case
async def a_wait_that_was_over_is_waited_for_anew_after_a_retry(h: StoreHarness) -> None:
    async with h.store() as store:

        async def flow(run: Run) -> Any:
            return await run.wait("approval", timeout=0)

        with raises(TimeoutError):
            await drive(store, flow)
        await store.workflow("w").retry()
        await store.workflow("w").signal("approval", "granted")
        await work(store, k=flow)
        assert await store.workflow("w").result(wait=0) == "granted"


@case
async def a_cancelled_workflow_is_retried_and_goes_on(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()

        async def flow(run: Run) -> Any:
            await run.step("check", bench.make, "check")
            return await run.wait("approval")

        assert await drive(store, flow)
        await store.workflow("w").cancel("by mistake")
        assert await store.workflow("w").retry()
        await store.workflow("w").signal("approval", "granted")
        await work(store, k=flow)
        assert await store.workflow("w").result(wait=0) == "granted"
        assert bench.made == ["check"]


@case
async def retrying_a_parent_retries_the_child_that_failed_it(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()

        async def part(run: Run) -> str:
            return await run.step("pay", bench.may_fail, "pay")

        await drive(store, parent)
        await work(store, child=part, k=parent)
        assert (await told(store)).status == "failed"
        assert (await told(store, "w/part#1")).status == "failed"
        bench.mended = True
        assert await store.workflow("w").retry()
        await work(store, child=part, k=parent)
        assert await store.workflow("w").result(wait=0) == "PAY"
        assert bench.made == ["pay", "pay"]


# --- started, and waited for ------------------------------------------------------------


@case
async def a_workflow_is_started_without_being_driven(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        workflow = store.workflow("w", kind="child", input={"n": 1}, user="u")
        assert await workflow.start()
        assert not await workflow.start()
        with raises(KeyReusedError):
            await store.workflow("w", kind="child", input={"n": 2}).start()
        with raises(InvalidInput):
            await store.workflow("w").start()
        (wait,) = (await told(store)).waits
        assert wait.what == "driver"
        with raises(TimeoutError):
            await other.workflow("w").result(wait=0)
        await work(other, child=child)
        assert await workflow.result() == 2
        assert not await workflow.start()  # it has been
        with raises(InvalidInput):
            await store.workflow("unknown").result(wait=0)


@case
async def a_result_that_is_not_json_fails_the_workflow(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(Permanent):
            async with store.workflow("w", kind="k") as run:
                run.result = object()
        with raises(WorkflowFailed):
            await store.workflow("w").result(wait=0)
        await store.workflow("c", kind="k").start()
        await store.workflow("c").cancel("no need")
        with raises(WorkflowCancelled) as caught:
            await store.workflow("c").result(wait=0)
        assert "no need" in str(caught.error)


@clock_case
async def a_finished_workflow_is_kept_for_as_long_as_it_was_told(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()
        async with store.workflow("done", kind="k", retain=60):
            pass
        async with store.workflow("active", kind="k", retain=60) as run:
            await run.wait("approval")
        with raises(ValueError):
            async with store.workflow("failed", kind="k", retain=60) as run:
                await run.step("pay", bench.may_fail, "pay")
        await store.workflow("cancelled", kind="k", retain=60).start()
        await store.workflow("cancelled").cancel()
        async with store.workflow("for ever", kind="k"):
            pass
        await h.pass_time(59)
        assert len([info async for info in store.workflows()]) == 5
        await store.workflow("failed").retry()
        await h.pass_time(2)
        left = [info.id async for info in store.workflows()]
        assert left == ["active", "failed", "for ever"]


# --- the time of steps ------------------------------------------------------------------


@case
async def a_step_that_takes_too_long_has_failed(h: StoreHarness) -> None:
    async with h.store() as store:
        tries: list[int] = []

        async def slow() -> str:
            tries.append(1)
            if len(tries) < 3:
                await h.world.pause(0.2)
            return "late"

        async with store.workflow("w", kind="k") as run:
            with raises(TimeoutError):
                await run.step("slow", slow, timeout=0.1)
            assert await run.step("again", slow, retries=1, timeout=0.1) == "late"
            with raises(InvalidInput):
                await run.step("never", slow, timeout=0)
        assert len(tries) == 3
        assert (await told(store)).status == "completed"


# --- forked -----------------------------------------------------------------------------


@case
async def a_fork_stands_where_the_workflow_stood_before_a_step(h: StoreHarness) -> None:
    async with h.store() as store:
        bench = Bench()
        machine = {"new": ("checked",), "checked": ("paid",), "paid": ()}

        async def flow(run: Run) -> Any:
            await run.step("check", bench.make, f"check {run.input}")
            await run.transition("checked")
            granted = await run.wait("approval")
            await run.step("pay", bench.make, f"pay {granted}")
            await run.transition("paid")
            return granted

        workflow = store.workflow("w", kind="k", user="u", input=7, machine=machine)
        await workflow.start()
        await workflow.signal("approval", "first")
        await work(store, k=flow)
        assert bench.made == ["check 7", "pay first"]
        await workflow.fork("wait approval#1", id="w2")
        info = await told(store, "w2")
        assert (info.status, info.user, info.step) == ("active", "u", "checked")
        await workflow.fork("pay#1", id="w3")
        await work(store, k=flow)
        assert bench.made == ["check 7", "pay first", "pay first", "pay first"]
        assert (await told(store, "w3")).step == "paid"
        assert (await told(store, "w")).status == "completed"
        with raises(InvalidInput):
            await workflow.fork("pay#2", id="w4")
        with raises(StateConflictError):
            await workflow.fork("pay#1", id="w3")
        with raises(InvalidInput):
            await store.workflow("unknown").fork("pay#1", id="w5")


# --- paused -----------------------------------------------------------------------------


@case
async def workers_take_nothing_of_a_kind_that_is_paused(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await other.pause("child")
        await other.pause("child")
        assert await store.paused() == ["child"]
        for kind in ("child", "other"):
            await store.workflow(kind, kind=kind, input={"n": 1}).start()
        await work(store, child=child, other=child)
        assert [(await told(store, id_)).status for id_ in ("child", "other")] == [
            "active",
            "completed",
        ]
        await other.resume("child")
        await other.resume("child")
        assert await store.paused() == []
        await work(store, child=child)
        assert (await told(store, "child")).status == "completed"


@case
async def an_effect_is_not_begun_after_the_cancellation(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        bench = Bench()
        with raises(WorkflowCancelled):
            async with store.workflow("w", kind="k", ttl=60) as run:
                await run.effect("first", bench.make, "first")
                await other.workflow("w").cancel()
                await run.effect("second", bench.make, "second")
        assert bench.made == ["first"]
        assert (await told(other)).driver is None
