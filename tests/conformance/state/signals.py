"""Workflows that wait: parked without a process, woken by a signal or by time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.logged import logged
from conformance.state.meanwhile import Beside, rounds
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, KeyReusedError, StoreUnavailable, WorkflowFinished
from stateward.ops import Commit, LogAt, Op, Outcome
from stateward.state.calls import awaited
from stateward.store import Store
from stateward.testing.conformance.harness import raises


class Approvals:
    """A refund that a person approves, and what became of it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.answers: list[Any] = []

    async def make(self, what: str) -> None:
        self.steps.append(what)

    async def handle(self, run: Any) -> None:
        await run.step("ask", self.make, "ask")
        self.answers.append(await run.wait("approval"))
        await run.step("pay", self.make, "pay")


async def drive(store: Store, handler: Any, id: str = "w") -> bool:
    """Go on with the workflow, as `work` would; whether it was parked."""
    async with store.workflow(id, kind="refund", ttl=60, wait=0) as run:
        await handler(run)
    parked: bool = run.parked
    return parked


async def status(store: Store, id: str = "w") -> str | None:
    info = await store.workflow(id).info()
    return None if info is None else info.status


# --- parking ----------------------------------------------------------------------------


@case
async def a_waiting_workflow_is_parked_and_needs_no_process(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        approvals = Approvals()
        assert await drive(store, approvals.handle)
        assert (approvals.steps, approvals.answers) == (["ask"], [])
        assert await status(other) == "active"
        assert await drive(other, approvals.handle)  # free at once, and it goes on waiting
        await other.work({"refund": approvals.handle}, poll=0.001, until=rounds(3))
        assert (approvals.steps, approvals.answers) == (["ask"], [])
        assert await other.workflow("w").signal("approval", {"by": "a person"})
        assert not await drive(other, approvals.handle)
        assert (approvals.steps, approvals.answers) == (["ask", "pay"], [{"by": "a person"}])
        assert await status(store) == "completed"
        assert not await drive(store, approvals.handle)  # a replay has the same answer
        assert approvals.answers == [{"by": "a person"}] * 2
        assert approvals.steps == ["ask", "pay"]


@case
async def the_rest_of_a_parked_block_does_not_run(h: StoreHarness) -> None:
    async with h.store() as store:
        seen = []
        async with store.workflow("w", kind="k") as run:
            try:
                seen.append("before")
                await run.wait("approval")
                seen.append("after")
            except Exception:
                seen.append("caught")
            finally:
                seen.append("finally")
        assert seen == ["before", "finally"]
        assert run.parked


@case
async def work_goes_on_when_the_signal_comes(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        approvals = Approvals()
        await drive(store, approvals.handle)
        paid = lambda: "pay" in approvals.steps  # noqa: E731
        working = Beside(
            lambda: other.work({"refund": approvals.handle}, poll=0.01, ttl=60, until=paid)
        )
        await store.workflow("w").signal("approval", "yes")
        await working.result()
        assert approvals.steps == ["ask", "pay"]
        assert await status(store) == "completed"


# --- no signal is lost ------------------------------------------------------------------


@case
async def a_signal_may_come_before_anybody_waits(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        approvals = Approvals()

        async def asked(run: Any) -> None:
            await run.step("ask", early)
            approvals.answers.append(await run.wait("approval"))

        async def early() -> None:
            await other.workflow("w").signal("approval", "early")

        assert not await drive(store, asked)
        assert approvals.answers == ["early"]

        async def left(run: Any) -> None:
            raise StoreUnavailable("left before it waits")

        with raises(StoreUnavailable):
            await drive(store, left, "v")
        await other.workflow("v").signal("approval", "earlier")
        assert not await drive(store, approvals.handle, "v")
        assert approvals.answers == ["early", "earlier"]


class Interrupted(Passthrough):
    """Something happens just before a commit that depends on the version of the log."""

    happens: Callable[[], Awaitable[Any]] | None = None

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        parks = any(isinstance(op, Commit) and has_version(op) for op in ops)
        if self.happens is not None and parks:
            happens, self.happens = self.happens, None
            await awaited(happens())
        return await super().execute(ops, deadline=deadline)


def has_version(commit: Commit) -> bool:
    return any(isinstance(check, LogAt) for check in commit.checks)


@case
async def a_signal_that_comes_at_the_moment_of_parking_is_not_lost(h: StoreHarness) -> None:
    async with h.store() as other:
        for timeout in (None, 3600.0):
            id = f"timeout {timeout}"
            engine = Interrupted(h.make_engine())
            async with Store(engine, namespace=h.namespace, world=h.world) as store:
                engine.happens = lambda id=id: other.workflow(id).signal("approval", "just now")
                async with store.workflow(id, kind="k", ttl=60) as run:
                    assert await run.wait("approval", timeout=timeout) == "just now"
                assert engine.happens is None
                assert not run.parked
            assert await status(other, id) == "completed"


@case
async def a_signal_that_comes_at_the_moment_of_a_sleep_waits_for_its_wait(h: StoreHarness) -> None:
    async with h.store() as other:
        engine = Interrupted(h.make_engine())
        async with Store(engine, namespace=h.namespace, world=h.world) as store:
            engine.happens = lambda: other.workflow("w").signal("approval", "just now")

            async def handle(run: Any) -> None:
                await run.sleep(h.span)
                assert await run.wait("approval") == "just now"

            assert await drive(store, handle)
            await h.pass_time(h.span)
            assert not await drive(other, handle)


@case
async def a_transition_at_the_moment_of_parking_does_not_keep_it_from_parking(
    h: StoreHarness,
) -> None:
    async with h.store() as other:
        engine = Interrupted(h.make_engine())
        async with Store(engine, namespace=h.namespace, world=h.world) as store:
            engine.happens = lambda: other.workflow("w").transition("b")
            machine = {"a": ("b",), "b": ()}
            async with store.workflow("w", kind="k", machine=machine) as run:
                await run.wait("approval")
            assert run.parked
        await other.workflow("w").signal("approval", 1)
        async with other.workflow("w", wait=0) as run:
            assert run.at == "b"
            assert await run.wait("approval") == 1


@case
async def signals_are_taken_in_order_and_each_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        taken: list[Any] = []

        async def handle(run: Any) -> None:
            del taken[:]
            for _ in range(3):
                taken.append(await run.wait("number"))  # noqa: PERF401
            taken.append(await run.wait("word"))

        assert await drive(store, handle)
        for name, value in (("word", "a"), ("number", 1), ("number", 2), ("word", "b")):
            assert await other.workflow("w").signal(name, value)
        assert await drive(store, handle)
        assert taken == [1, 2]
        assert await other.workflow("w").signal("number", 3)
        assert not await drive(other, handle)
        assert taken == [1, 2, 3, "a"]


@case
async def a_keyed_signal_is_delivered_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        approvals = Approvals()
        await drive(store, approvals.handle)
        assert await store.workflow("w").signal("approval", "yes", key="click-1")
        assert not await other.workflow("w").signal("approval", "yes", key="click-1")
        with raises(KeyReusedError):
            await other.workflow("w").signal("approval", "no", key="click-1")
        assert await other.workflow("w").signal("approval", "no", key="click-2")

        async def twice(run: Any) -> None:
            await approvals.handle(run)
            approvals.answers.append(await run.wait("approval"))
            await run.wait("approval")

        assert await drive(other, twice)  # nothing is left for the third
        assert approvals.answers == ["yes", "no"]
        assert not await store.workflow("w").signal("approval", "yes", key="click-1")
        assert await drive(other, twice)


@case
async def names_and_keys_of_signals_are_data(h: StoreHarness) -> None:
    """No name and key run together into another name and key."""
    async with h.store() as store:
        pairs = [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("a:", "b"), ("a", ":b"), ("é\x00", "{}")]

        async def handle(run: Any) -> None:
            for name, key in pairs:
                assert await run.wait(name) == [name, key]

        assert await drive(store, handle)
        for name, key in pairs:
            assert await store.workflow("w").signal(name, [name, key], key=key)
            assert not await store.workflow("w").signal(name, [name, key], key=key)
        assert not await drive(store, handle)


@case
async def a_signal_that_nobody_can_take_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(InvalidInput):
            await store.workflow("w").signal("approval")
        async with store.workflow("w", kind="refund") as run:
            wrong: tuple[Any, ...] = ("", 7, "x" * 513)
            for name in wrong:
                with raises(InvalidInput):
                    await store.workflow("w").signal(name)
                with raises(InvalidInput):
                    await run.wait(name)
            with raises(InvalidInput):
                await store.workflow("w").signal("approval", object())
            with raises(InvalidInput):
                await store.workflow("w").signal("approval", key="")
        with raises(WorkflowFinished):
            await store.workflow("w").signal("approval")


@case
async def signals_that_were_not_waited_for_are_reported_when_it_completes(h: StoreHarness) -> None:
    """They were accepted, and without this nobody would hear of them."""
    async with h.store() as store, h.store() as other:

        async def approve(name: str) -> None:
            assert await other.workflow("w").signal(name, key=name)

        with logged("workflow_signals_not_taken", "signals") as warnings:
            async with store.workflow("w", kind="k") as run:
                await run.step("early", approve, "early")
                await run.step("taken", approve, "taken")
                await run.wait("taken")
                await run.step("late", approve, "late")
            assert not run.parked
        assert warnings == [("w", ["early", "late"])]
        with logged("workflow_signals_not_taken", "signals") as warnings:
            async with store.workflow("v", kind="k") as run:
                await run.step("signal", other.workflow("v").signal, "approval")
                await run.wait("approval")
                await run.step("pay", Approvals().make, "pay")
        assert warnings == []


# --- time -------------------------------------------------------------------------------


class Patience:
    """Waits for a while, and notes how it ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends: list[Any] = []

    async def handle(self, run: Any) -> None:
        try:
            self.ends.append(await run.wait("approval", timeout=self.seconds))
        except TimeoutError:
            self.ends.append("over")
        await run.wait("end")


@case
async def a_wait_ends_when_its_time_is_over(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        patience = Patience(h.span)
        assert await drive(store, patience.handle)
        await other.work({"refund": patience.handle}, poll=0.001, until=rounds(3))
        assert patience.ends == []
        await h.pass_time(h.span)
        await other.work(
            {"refund": patience.handle}, poll=0.001, ttl=60, until=lambda: bool(patience.ends)
        )
        assert patience.ends == ["over"]
        # Too late for this wait: it has ended, and ends the same way at every replay.
        await other.workflow("w").signal("approval", "late")
        await other.workflow("w").signal("end")
        assert not await drive(store, patience.handle)
        assert not await drive(store, patience.handle)
        assert patience.ends == ["over"] * 3


@case
async def a_signal_that_came_in_time_counts_though_the_driver_comes_late(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        patience = Patience(h.span)
        assert await drive(store, patience.handle)
        await other.workflow("w").signal("approval", "in time")
        await h.pass_time(2 * h.span)
        assert await drive(other, patience.handle)
        assert patience.ends == ["in time"]


@case
async def a_wait_is_counted_from_its_beginning_however_often_it_is_tried(h: StoreHarness) -> None:
    async with h.store() as store:
        patience = Patience(h.span)
        for _ in range(4):
            assert await drive(store, patience.handle)
            assert patience.ends == []
            await h.pass_time(h.span * 0.2)  # little enough for a busy machine
        await h.pass_time(h.span * 0.3)
        assert await drive(store, patience.handle)
        assert patience.ends == ["over"]


@case
async def a_sleeping_workflow_is_driven_when_its_time_has_come(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        until = datetime.fromtimestamp(h.world.now() + 2 * h.span, UTC)
        woken: list[str] = []

        async def handle(run: Any) -> None:
            await run.sleep(h.span)
            await run.step("first", woken.append, "first")
            await run.sleep(until=until)
            await run.step("second", woken.append, "second")

        assert await drive(store, handle)
        for woken_by_now in ([], ["first"], ["first", "second"]):
            await other.work({"refund": handle}, poll=0.001, ttl=60, until=rounds(4))
            assert woken == woken_by_now
            await h.pass_time(h.span * 1.01)
        assert await status(store) == "completed"


@case
async def a_sleep_that_is_over_does_not_park(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k") as run:
            await run.sleep(0)
            await run.sleep(until=datetime.fromtimestamp(h.world.now() - 5, UTC))
        assert not run.parked
        wrong: list[dict[str, Any]] = [{}, {"seconds": 1, "until": datetime.now(UTC)}]
        async with store.workflow("v", kind="k") as run:
            for options in wrong:
                with raises(InvalidInput):
                    await run.sleep(**options)


@clock_case
async def a_workflow_is_parked_for_years_and_its_signal_arrives(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store, h.store() as other:
        approvals = Approvals()
        await drive(store, approvals.handle)
        await h.pass_time(3 * 365 * 86_400)
        await a.sweep_all()
        await other.workflow("w").signal("approval", "at last")
        assert not await drive(other, approvals.handle)
        assert (approvals.steps, approvals.answers) == (["ask", "pay"], ["at last"])


@case
async def a_signal_that_comes_after_the_time_was_up_does_not_count(h: StoreHarness) -> None:
    """Whether anybody looked in between must not decide."""
    async with h.store() as store:
        answered = "nothing yet"
        for parked in (True, False):
            async with store.workflow("w", kind="k") as run:
                try:
                    answered = await run.wait("approval", timeout=h.span)
                except TimeoutError:
                    answered = "too late"
            if parked:
                assert run.parked
                await h.pass_time(h.span * 1.5)
                await store.workflow("w").signal("approval", "granted")
        assert answered == "too late"
