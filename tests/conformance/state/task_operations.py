"""Tasks operated from outside: shown, tried again, cancelled, whatever they do meanwhile."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, rounds, severable, until
from conformance.state.methods import Meanwhile
from conformance.state.tasks import TTL, Calls, is_running, listed, statuses
from stateward.errors import (
    InvalidInput,
    NotYoursError,
    Permanent,
    StateConflictError,
    StatewardError,
    StoreUnavailable,
    TaskCancelled,
    TaskFailed,
)
from stateward.state.task_record import DEATHS_FORGIVEN
from stateward.store import Store
from stateward.testing.conformance.harness import raises

# --- shown ------------------------------------------------------------------------------


@case
async def a_task_shows_who_runs_it_since_when_and_at_which_try(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        task = other.task("it")
        assert await task.info() is None
        with raises(ValueError):
            await store.once("it", Calls(failing=1))
        failed = await task.info()
        assert failed is not None
        assert (failed.status, failed.attempt, failed.error) == (
            "failed",
            1,
            "ValueError: not today",
        )
        assert (failed.holder, failed.since) == (None, failed.updated_at)

        async def look() -> None:
            shown = await task.info()
            assert shown is not None
            assert (shown.status, shown.attempt, shown.failures) == ("running", 2, 1)
            assert shown.holder == h.world.name()
            assert shown.since >= failed.since
            assert [shown] == await listed(other, "running")

        look.__name__ = "calls"
        await store.once("it", look, ttl=TTL)
        done = await task.info()
        assert done is not None
        assert (done.status, done.holder, done.due_at) == ("completed", None, None)


@case
async def what_is_not_there_or_anothers_cannot_be_operated(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.once("it", Calls(), user="u")
        missing, anothers = store.task("no"), store.task("it", user="v")
        for operate in (missing.retry, missing.cancel):
            with raises(InvalidInput) as caught:
                await operate()
            assert "'no'" in str(caught.error)
        for operate in (anothers.retry, anothers.cancel):
            with raises(NotYoursError):
                await operate()
        with raises(NotYoursError):
            await anothers.info()
        with raises(InvalidInput):
            await store.task("it").cancel(7)  # type: ignore[arg-type]
        with raises(InvalidInput):
            store.task("")


@case
async def a_page_of_the_failed_is_one_round_trip(h: StoreHarness) -> None:
    engine = Meanwhile(h.make_engine(), 0, h.close)  # which only counts: no call has this number
    options: dict[str, Any] = {"namespace": h.namespace, "world": h.world, "heartbeat": None}
    async with Store(engine, spill=False, **options) as store:
        for number in range(7):
            with raises(Permanent):
                await store.once(f"f{number}", Calls(failing=1, error=Permanent("no")))
            await store.once(f"c{number}", Calls())
        await store.task("f3").cancel("enough")
        seen: list[str] = []
        cursor: str | None = None
        while True:
            before = engine.calls
            page = await listed(store, "failed", order="recent", limit=3, before=cursor)
            if not page:
                break
            assert len(page) <= 3
            assert engine.calls == before + 1
            seen += [info.id for info in page]
            cursor = page[-1].cursor
        assert sorted(seen) == ["f0", "f1", "f2", "f4", "f5", "f6"]
        (cancelled,) = await listed(store, "cancelled", order="recent", limit=3)
        assert (cancelled.id, cancelled.error) == ("f3", "TaskCancelled: enough")


# --- tried again ------------------------------------------------------------------------


@case
async def a_task_that_failed_for_good_is_tried_again_by_its_next_delivery(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls("mended", failing=2, error=Permanent("a bug"))
        with raises(Permanent):
            await store.once("it", calls, 7)
        with raises(TaskFailed):
            await store.once("it", calls, 7)
        again = await other.task("it").retry()
        assert (again.status, again.failures, again.error) == ("pending", 0, None)
        assert again.due_at is None  # nobody has its arguments until it is delivered
        await other.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(2))
        assert calls.count == 1
        with raises(Permanent):
            await store.once("it", calls, 7)
        await other.task("it").retry()
        assert await store.once("it", calls, 7) == "mended"
        assert calls.count == 3


@case
async def a_delivery_for_later_brings_the_arguments_of_one_that_is_tried_again(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        calls = Calls("mended", failing=1, error=Permanent("a bug"))
        with raises(Permanent):
            await store.once("it", calls, 7)
        await store.task("it").retry()
        for _ in range(2):
            assert await store.once("it", calls, 7, at=h.world.now() + h.span / 2) is None
        assert [info.due_at is None for info in await listed(store, "pending")] == [False]
        await h.pass_time(h.span / 2)
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=lambda: calls.count == 2)
        assert await statuses(store) == {"it": "completed"}


@case
async def a_scheduled_task_that_failed_for_good_is_tried_again_by_work(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls("mended", failing=1, error=Permanent("a bug"))
        await store.once("it", calls, 7, at=h.world.now() + 0.01)
        await h.pass_time(0.02)
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=lambda: calls.count == 1)
        assert await statuses(store) == {"it": "failed"}
        again = await store.task("it").retry()
        assert (again.status, again.due_at is None) == ("pending", False)
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=lambda: calls.count == 2)
        assert calls.seen == [((7,), {})] * 2
        assert await statuses(store) == {"it": "completed"}


@case
async def a_dead_task_is_tried_again_with_all_its_lives(h: StoreHarness) -> None:
    leaving = True

    def leave() -> str:
        if leaving:
            raise SystemExit("the handler has had enough")
        return "stayed"

    async with h.store() as store:
        for _ in range(1 + DEATHS_FORGIVEN):
            with raises(SystemExit):
                await store.once("it", leave, ttl=TTL, attempts=1)
        with raises(Permanent):
            await store.once("it", leave, ttl=TTL, attempts=1)
        await store.task("it").retry()
        with raises(SystemExit):
            await store.once("it", leave, ttl=TTL, attempts=1)
        leaving = False
        assert await store.once("it", leave, ttl=TTL, attempts=1) == "stayed"


@case
async def only_what_failed_or_was_cancelled_is_tried_again(h: StoreHarness) -> None:
    async with h.store() as store:

        async def run() -> None:
            with raises(StateConflictError) as caught:
                await store.task("it").retry()
            assert caught.error.current == "running"

        await store.once("it", run, ttl=TTL)
        await store.once("later", Calls(), at=h.world.now() + h.span)
        for id, status in (("it", "completed"), ("later", "pending")):
            with raises(StateConflictError) as caught:
                await store.task(id).retry()
            assert caught.error.current == status


# --- cancelled --------------------------------------------------------------------------


@case
async def a_scheduled_task_is_cancelled_and_never_runs_until_it_is_tried_again(
    h: StoreHarness,
) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        await store.once("it", calls, at=h.world.now() + 0.01)
        cancelled = await other.task("it").cancel("the customer has left")
        assert (cancelled.status, cancelled.due_at) == ("cancelled", None)
        assert cancelled.error == "TaskCancelled: the customer has left"
        assert await other.task("it").cancel("another reason") == cancelled
        await h.pass_time(0.02)
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=rounds(2))
        for _ in range(2):
            with raises(TaskCancelled) as caught:
                await store.once("it", calls)
            assert "the customer has left" in str(caught.error)
        assert calls.count == 0
        await store.task("it").retry()
        await store.work({}, tasks={"calls": calls}, poll=0.001, until=lambda: calls.count > 0)
        assert await statuses(other) == {"it": "completed"}


@case
async def what_completed_first_stays_completed(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.once("it", Calls())
        assert (await store.task("it").cancel("too late")).status == "completed"
        assert await store.once("it", Calls()) == "done"


@case
async def a_failed_task_is_cancelled_so_that_no_delivery_tries_it_again(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls(failing=1)
        with raises(ValueError):
            await store.once("it", calls)
        cancelled = await store.task("it").cancel()
        assert (cancelled.status, cancelled.failures) == ("cancelled", 1)
        with raises(TaskCancelled):
            await store.once("it", calls)
        assert calls.count == 1


@case
async def a_task_that_is_cancelled_while_it_runs_has_run_in_vain(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def run() -> str:
            assert (await other.task("it").cancel("stop")).status == "cancelled"
            return "too late"

        with raises(TaskCancelled) as caught:
            await store.once("it", run, ttl=TTL)
        assert "stop" in str(caught.error)
        shown = await other.task("it").info()
        assert shown is not None
        assert (shown.status, shown.holder, shown.attempt) == ("cancelled", None, 0)
        # Nobody holds it: it is free at once.
        await other.task("it").retry()
        assert await other.once("it", Calls(), wait=0) == "done"


@case
async def a_failure_after_the_cancellation_is_not_recorded(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def run() -> str:
            await other.task("it").cancel("stop")
            raise ValueError("not today")

        with raises(ValueError):
            await store.once("it", run, ttl=TTL)
        (info,) = await listed(other)
        assert (info.status, info.error) == ("cancelled", "TaskCancelled: stop")


@case
async def a_running_task_is_told_at_its_next_renewal(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        looks: list[float] = []

        async def run() -> str:
            while True:  # until it is cancelled, or asks the store
                looks.append(h.world.monotonic())
                await store.shared("it").get()
                await h.world.pause(0.01)

        running = Beside(lambda: store.once("it", run, ttl=0.3))
        await until(h, lambda: is_running(other))
        await other.task("it").cancel("stop")
        with raises(TaskCancelled):
            await running.result()
        assert looks
        assert await statuses(other) == {"it": "cancelled"}


@case
async def one_that_was_given_back_after_its_cancellation_stays_cancelled(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def run() -> str:
            await other.task("it").cancel("stop")
            raise StoreUnavailable("another store, which is down")

        with raises(StoreUnavailable):
            await store.once("it", run, ttl=TTL)
        assert await statuses(other) == {"it": "cancelled"}
        with raises(TaskCancelled):
            await other.once("it", run, wait=0)


@clock_case
async def one_whose_process_vanished_is_cancelled_and_what_comes_late_is_refused(
    h: StoreHarness,
) -> None:
    """An expired lease that nobody took over still writes for its holder: not after this."""
    async with severable(h) as store, h.store() as other:

        async def run() -> str:
            outage = store.faults.unavailable()
            await h.pass_time(h.span)
            assert (await other.task("it").cancel("stop")).status == "cancelled"
            outage.clear()
            return "too late"

        with raises(StatewardError):  # whichever it notices first
            await store.once("it", run, ttl=h.span)
        assert await statuses(other) == {"it": "cancelled"}


@clock_case
async def a_successor_is_cancelled_like_its_predecessor(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def second() -> str:
            await other.task("it").cancel("stop")
            return "second"

        async def first() -> str:
            await h.pass_time(TTL)
            with raises(TaskCancelled):
                await other.once("it", second, ttl=TTL)
            return "first"

        with raises(TaskCancelled):
            await store.once("it", first, ttl=TTL)
        assert await statuses(other) == {"it": "cancelled"}


@case
async def of_cancelling_and_completing_at_once_one_happens(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for number in range(8):
            id = f"it-{number}"

            async def deliver(id: str = id) -> Any:
                try:
                    return await store.once(id, Calls(), ttl=TTL)
                except TaskCancelled:
                    return "cancelled"

            delivery = Beside(deliver)
            await until(h, lambda id=id: exists(other, id))  # type: ignore[misc]
            shown = await other.task(id).cancel("stop")
            result = await delivery.result()
            assert (shown.status, result) in (("completed", "done"), ("cancelled", "cancelled"))
            assert (await statuses(other))[id] == shown.status


async def exists(store: Store, id: str) -> bool:
    return await store.task(id).info() is not None


@case
async def a_cancelled_task_is_kept_as_long_as_a_completed_one(h: StoreHarness) -> None:
    async with h.store() as store:

        async def run() -> None:
            await store.task("running").cancel()

        with raises(TaskCancelled):
            await store.once("running", run, ttl=h.span / 2, retain=h.span)
        await store.once("later", Calls(), at=h.world.now() + h.span / 2, retain=h.span)
        await store.task("later").cancel()
        assert len(await listed(store, "cancelled")) == 2
        await h.pass_time(h.span * 1.6)
        assert await listed(store) == []
