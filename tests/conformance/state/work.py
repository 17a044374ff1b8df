"""What `work` drives: workflows that are abandoned, tasks whose time has come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, rounds, severable, until
from conformance.state.steps import ALL, Steps, refund, status
from conformance.state.tasks import TTL, Calls, listed, statuses
from stateward.errors import InvalidInput, StoreClosed, StoreUnavailable, TaskFailed
from stateward.state.task_record import FIRST_RETRY
from stateward.store import Store
from stateward.testing.conformance.harness import raises

# --- workflows --------------------------------------------------------------------------


@case
async def work_finishes_what_a_vanished_driver_left(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        steps = Steps()
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="refund", ttl=h.span) as run:
                await run.step("fetch", steps.make, "fetch")
                store.faults.unavailable()
                await run.step("pay", steps.make, "pay 1")

        async def handle(run: Any) -> None:
            await refund(run, steps)

        await other.work({"refund": handle}, poll=0.001, until=rounds(3))
        assert steps.made == ["fetch", "pay 1"]  # it is not yet over
        await h.pass_time(h.span)
        await other.work({"refund": handle}, poll=0.01, until=lambda: "tell" in steps.made)
        assert steps.made == ["fetch", "pay 1", *ALL[1:]]
        assert await status(other) == "completed"
        await other.work({"refund": handle}, poll=0.001, until=rounds(3))
        assert len(steps.made) == 5


@case
async def work_leaves_alone_what_is_driven_and_what_it_does_not_know(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()

        async def handle(run: Any) -> None:
            await steps.make(run.id)

        with raises(StoreUnavailable):
            async with store.workflow("unknown", kind="other"):
                raise StoreUnavailable("left")
        async with store.workflow("driven", kind="refund", ttl=60) as run:
            await store.workflow("driven").signal("hurry")  # due at once, but not free
            await other.work({"refund": handle}, poll=0.001, until=rounds(3))
            await run.wait("hurry")
        assert steps.made == []
        assert await status(store, "unknown") == "active"
        assert await status(store, "driven") == "completed"


@case
async def work_records_a_failing_handler_and_goes_on(h: StoreHarness) -> None:
    async with h.store() as store:
        for id in ("a", "b", "c"):
            with raises(StoreUnavailable):
                async with store.workflow(id, kind="refund"):
                    raise StoreUnavailable("left")

        async def handle(run: Any) -> None:
            if run.id == "b":
                raise ValueError("no")

        await store.work({"refund": handle}, poll=0.001, until=rounds(2))
        ends = {id: await status(store, id) for id in ("a", "b", "c")}
        assert ends == {"a": "completed", "b": "failed", "c": "completed"}


@case
async def work_drives_workflows_side_by_side_and_each_of_them_once(h: StoreHarness) -> None:
    async with h.store() as store:
        for number in range(6):
            with raises(StoreUnavailable):
                async with store.workflow(f"w{number}", kind="refund"):
                    raise StoreUnavailable("left")
        begun: list[str] = []
        inside: list[int] = []
        ended: list[str] = []

        async def handle(run: Any) -> None:
            begun.append(run.id)
            inside.append(len(begun) - len(ended))
            await until(h, lambda: len(begun) >= 3)  # so many are under way at once
            ended.append(run.id)

        await store.work(
            {"refund": handle}, poll=0.001, concurrency=3, until=lambda: len(ended) >= 6
        )
        assert sorted(begun) == sorted(ended) == [f"w{number}" for number in range(6)]
        assert max(inside) <= 3
        assert await status(store, "w5") == "completed"
        with raises(InvalidInput):
            await store.work({}, concurrency=0)


@case
async def workers_side_by_side_all_end_when_their_store_is_closed(h: StoreHarness) -> None:
    async with h.store() as store:
        looked = 0

        def never() -> bool:
            nonlocal looked
            looked += 1
            return False

        handlers: dict[str, Any] = {"refund": print}
        working = Beside(lambda: store.work(handlers, poll=0.001, concurrency=3, until=never))
        await until(h, lambda: looked > 6)
        await store.close()
        with raises(StoreClosed):
            await working.result()


@case
async def work_ends_when_a_handler_closes_its_own_store(h: StoreHarness) -> None:
    """The lease is given back by that, which must not keep the store from being closed."""
    async with h.store() as other:
        with raises(StoreUnavailable):
            async with other.workflow("w", kind="refund"):
                raise StoreUnavailable("left")
        await other.once("t", print, at=h.world.now() + h.span)
        await h.pass_time(h.span)
    for kind in ("refund", "print"):
        store = h.store()

        async def handle(*_: Any, store: Store = store) -> None:
            await store.close()

        handlers = {"refund": handle} if kind == "refund" else {}
        tasks = {"print": handle} if kind == "print" else {}
        with raises(StoreClosed):
            await store.work(handlers, tasks=tasks, poll=0.001, until=rounds(1000))
        with raises(StoreClosed):
            await store.thread("t").load()


@case
async def work_does_not_spin_over_what_cannot_go_on_now(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="refund"):
                raise StoreUnavailable("left")
        tries: list[float] = []

        async def handle(run: Any) -> None:
            tries.append(h.world.monotonic())
            raise StoreUnavailable("another store, which is down")

        begun = h.world.monotonic()
        await store.work({"refund": handle}, poll=0.1, until=lambda: len(tries) >= 4)
        assert tries[-1] - begun >= 3 * 0.05
        assert await status(store) == "active"


@case
async def work_survives_a_store_that_fails(h: StoreHarness) -> None:
    async with severable(h) as store:
        steps = Steps()
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="refund"):
                raise StoreUnavailable("left")

        async def handle(run: Any) -> None:
            await refund(run, steps)

        done = False
        outage = store.faults.unavailable()
        working = Beside(
            lambda: store.work({"refund": handle}, poll=0.01, ttl=1, until=lambda: done)
        )
        await until(h, lambda: outage.fired >= 5)
        assert steps.made == []
        outage.clear()
        await until(h, lambda: is_completed(store))
        done = True
        await working.result()
        assert steps.made == ALL


async def is_completed(store: Store) -> bool:
    return await status(store) == "completed"


# --- tasks ------------------------------------------------------------------------------


@case
async def a_task_of_the_future_is_recorded_and_run_by_work_when_it_is_due(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls({"sent": True})
        due = h.world.now() + h.span
        for _ in range(2):
            assert await store.once("mail", calls, "hello", to="u-1", at=due, user="u-1") is None
        (info,) = await listed(other, "pending")
        assert (info.id, info.user, info.name, info.failures) == ("mail", "u-1", "calls", 0)
        assert info.due_at == datetime.fromtimestamp(due, UTC)
        await other.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(3))
        assert calls.count == 0
        await h.pass_time(h.span)
        await other.work({}, tasks={"calls": calls}, poll=0.001, until=lambda: calls.count > 0)
        await other.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(3))
        assert calls.seen == [(("hello",), {"to": "u-1"})]
        sent = await store.once("mail", calls, "hello", to="u-1", at=due, user="u-1")
        assert sent == {"sent": True}
        (info,) = await listed(store)
        assert (info.status, info.due_at) == ("completed", None)


@case
async def a_time_that_has_passed_is_now(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        now = h.world.now()
        for at in (now - 1, datetime.fromtimestamp(now - 5, UTC)):
            assert await store.once(h.new_id(), calls, at=at) == "done"
        at = datetime.fromtimestamp(now + h.span, UTC)
        assert await store.once("later", calls, at=at) is None
        assert [info.due_at for info in await listed(store, "pending")] == [at]


@case
async def a_task_of_the_future_is_kept_until_it_has_run(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        for id, retain in (("a day", 86_400.0), ("for ever", None), ("short", h.span / 2)):
            await store.once(id, calls, at=h.world.now() + h.span, retain=retain)
        await h.pass_time(h.span * 1.01)
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(2))
        assert calls.count == 3
        assert await statuses(store) == {
            "a day": "completed",
            "for ever": "completed",
            "short": "completed",
        }


@case
async def arguments_that_cannot_be_kept_cannot_be_scheduled(h: StoreHarness) -> None:
    async with h.store() as store:
        for fingerprint in (None, "f"):
            with raises(InvalidInput) as caught:
                at = h.world.now() + h.span
                await store.once("it", Calls(), object(), at=at, fingerprint=fingerprint)
            assert "JSON" in str(caught.error)
        assert await listed(store) == []


@case
async def work_runs_what_a_vanished_worker_left(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        calls = Calls()

        async def vanish(*_: Any) -> str:
            store.faults.unavailable()
            return "never recorded"

        vanish.__name__ = "calls"
        with raises(StoreUnavailable):
            await store.once("it", vanish, 7, ttl=h.span)
        await h.pass_time(h.span)
        await other.work(
            {}, tasks={"calls": calls}, poll=0.01, ttl=TTL, until=lambda: calls.count > 0
        )
        assert calls.seen == [((7,), {})]
        assert await statuses(other) == {"it": "completed"}


@case
async def work_leaves_alone_what_it_does_not_know_and_what_has_just_failed(h: StoreHarness) -> None:
    async with h.store() as store:
        broken = Calls(failing=99)
        await store.once("unknown", Calls(), at=h.world.now() + 0.01)
        await store.once("broken", broken, at=h.world.now() + 0.01)
        await h.pass_time(0.02)
        await store.work({}, tasks={"other": broken}, poll=0.001, until=rounds(3))
        assert await statuses(store) == {"unknown": "pending", "broken": "pending"}
        await store.work({}, tasks={"calls": broken}, poll=0.001, until=rounds(5))
        assert broken.count == 2  # each once: what failed is not due again at once
        assert await statuses(store) == {"unknown": "failed", "broken": "failed"}


@case
async def work_tries_a_scheduled_task_again_as_often_as_its_caller_said(h: StoreHarness) -> None:
    async with h.store() as store:
        mended, lost = Calls(failing=1), Calls(failing=99)

        async def hopeless() -> Any:
            return await lost()

        functions: dict[str, Callable[..., Any]] = {"calls": mended, "hopeless": hopeless}
        await store.once("mended", mended, at=h.world.now() + 0.01, attempts=3)
        await store.once("hopeless", hopeless, at=h.world.now() + 0.01, attempts=2)
        await h.pass_time(0.02)
        for tries in (1, 2, 2):
            await store.work({}, tasks=functions, poll=0.001, until=rounds(2))
            assert (mended.count, lost.count) == (tries, tries)
            await h.pass_time(FIRST_RETRY * 1.01)
        assert await statuses(store) == {"hopeless": "failed", "mended": "completed"}
        with raises(TaskFailed):
            await store.once("hopeless", hopeless, at=h.world.now() + 0.01, attempts=2)
