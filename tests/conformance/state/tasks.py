"""Tasks: committed once, whoever delivers them and however often."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, severable, until
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    Permanent,
    StoreMisused,
    StoreUnavailable,
    TaskFailed,
)
from stateward.ops import Acquire, SetHead
from stateward.records import TaskInfo
from stateward.state.task_record import DEATHS_FORGIVEN
from stateward.state.work import idempotency_key
from stateward.store import Store
from stateward.testing.conformance.harness import raises

TTL = 60.0  # longer than a case takes: nobody renews meanwhile, nobody loses it


class Calls:
    """A function that counts its calls, fails as often as it is told, then returns `result`."""

    def __init__(self, result: Any = "done", failing: int = 0, error: Exception | None = None):
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.keys: list[str] = []
        self._result = result
        self._failing = failing
        self._error = error or ValueError("not today")

    @property
    def __name__(self) -> str:
        return "calls"

    @property
    def count(self) -> int:
        return len(self.seen)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append((args, kwargs))
        self.keys.append(idempotency_key())
        if self.count <= self._failing:
            raise self._error
        return self._result


async def listed(store: Store, status: str | None = None, **options: Any) -> list[TaskInfo]:
    return [info async for info in store.tasks(status, **options)]


async def statuses(store: Store) -> dict[str, str]:
    return {info.id: info.status for info in await listed(store)}


# --- the result -------------------------------------------------------------------------


@case
async def a_task_runs_once_and_every_delivery_gets_its_result(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Calls({"charged": 5})
        for replica in (store, other, store):
            assert await replica.once("charge", charge, 991, currency="EUR") == {"charged": 5}
        assert charge.seen == [((991,), {"currency": "EUR"})]
        assert await store.once("another", charge, 991, currency="EUR") == {"charged": 5}
        assert charge.count == 2


@case
async def any_json_is_a_result(h: StoreHarness) -> None:
    async with h.store() as store:
        nested = [None, {"a": [1, {"b": []}]}]
        values: tuple[Any, ...] = (None, False, 0, 1.5, "", "é\x00", [], {}, nested)
        for value in values:
            calls = Calls(value)
            id = h.new_id()
            assert await store.once(id, calls) == value
            assert await store.once(id, calls) == value
            assert calls.count == 1


@case
async def a_plain_function_is_a_task_too(h: StoreHarness) -> None:
    async with h.store() as store:
        assert await store.once("length", len, "four") == 4
        assert [info.name for info in await listed(store)] == ["len"]


@case
async def a_result_that_is_not_json_fails_the_task_for_good(h: StoreHarness) -> None:
    async with h.store() as store:
        for value in (object(), {1: 2}, float("nan"), {"a": {1}}, "\ud800"):
            calls = Calls(value)
            id = h.new_id()
            with raises(Permanent) as caught:
                await store.once(id, calls)
            assert "JSON" in str(caught.error)
            with raises(TaskFailed):
                await store.once(id, calls)
            assert calls.count == 1


@case
async def a_result_is_the_same_when_it_is_computed_and_when_it_is_found(h: StoreHarness) -> None:
    """JSON has no tuple: who computed a result must not see another one than whoever finds it."""

    def pair() -> Any:
        return {"at": (1, 2)}

    async with h.store() as store:
        first = await store.once("pair", pair)
        assert first == await store.once("pair", pair) == {"at": [1, 2]}
        async with store.workflow("w", kind="k") as run:
            first = await run.step("pair", pair)
        async with store.workflow("w", kind="k") as run:
            assert first == await run.step("pair", pair) == {"at": [1, 2]}


@case
async def the_arguments_of_a_task_are_kept_no_longer_than_it_may_run(h: StoreHarness) -> None:
    def charge(card: str, *, code: str) -> str:
        return "charged"

    def refused(card: str, *, code: str) -> str:
        raise Permanent("no such card")

    card, code = "4111 1111", "the code is 987"
    replica = await h.replica()
    async with h.store() as store:
        await store.once("k", charge, card, code=code)
        with raises(Permanent):
            await store.once("k2", refused, card, code=code)
        with raises(KeyReusedError):
            await store.once("k", charge, card, code="another")
    for entity in await replica.list_all(h.namespace, expired=True):
        kept = repr(await replica.everything(entity))
        assert card not in kept
        assert code not in kept


@case
async def tasks_of_other_namespaces_are_other_tasks(h: StoreHarness) -> None:
    async with h.store() as store, h.store(namespace=h.new_id()) as elsewhere:
        calls = Calls()
        await store.once("it", calls)
        await elsewhere.once("it", calls)
        assert calls.count == 2


# --- failures ---------------------------------------------------------------------------


@case
async def a_failure_is_tried_again_by_the_next_delivery(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls("at last", failing=2)
        for replica in (store, other):
            with raises(ValueError) as caught:
                await replica.once("it", calls)
            assert str(caught.error) == "not today"
        assert (await listed(store, "failed"))[0].failures == 2
        assert await store.once("it", calls) == "at last"
        assert await other.once("it", calls) == "at last"
        assert calls.count == 3


@case
async def after_its_attempts_a_task_has_failed_for_good(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for attempts in (1, 2, 3):
            calls = Calls(failing=99)
            id = f"it-{attempts}"
            for _ in range(attempts):
                with raises(ValueError):
                    await store.once(id, calls, attempts=attempts)
            for replica in (other, store):
                with raises(TaskFailed) as caught:
                    await replica.once(id, calls, attempts=attempts)
                assert "ValueError: not today" in str(caught.error)
            assert calls.count == attempts
            with raises(ValueError):
                await other.once(id, calls, attempts=attempts + 1)
            assert calls.count == attempts + 1


@case
async def a_permanent_failure_is_final_at_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls(failing=99, error=Permanent("the card is stolen"))
        with raises(Permanent):
            await store.once("it", calls, attempts=9)
        with raises(TaskFailed) as caught:
            await other.once("it", calls, attempts=9)
        assert "the card is stolen" in str(caught.error)
        assert calls.count == 1


@case
async def a_failure_around_the_task_is_not_a_failure_of_the_task(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for number, error in enumerate((StoreUnavailable("elsewhere"), LeaseLost("elsewhere"))):
            calls = Calls(failing=5, error=error)
            for _ in range(5):
                with raises(type(error)):
                    await store.once(f"it-{number}", calls, attempts=1)
            assert (await listed(store, "pending"))[0].failures == 0
            assert await other.once(f"it-{number}", calls, attempts=1, wait=0) == "done"


@case
async def any_error_message_can_be_recorded(h: StoreHarness) -> None:
    async with h.store() as store:
        for message in ("\ud800 lone", "x" * 100_000, "", "a\x00b"):
            calls = Calls(failing=99, error=ValueError(message))
            id = h.new_id()
            with suppress(ValueError):
                await store.once(id, calls, attempts=1)
            with raises(TaskFailed) as caught:
                await store.once(id, calls, attempts=1)
            assert len(str(caught.error)) < 3000


# --- the same call ----------------------------------------------------------------------


@case
async def other_arguments_are_another_task(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        await store.once("completed", calls, 1, a=2)
        with raises(ValueError):
            await store.once("failed", Calls(failing=1), 1, a=2)
        await store.once("pending", calls, 1, a=2, at=h.world.now() + h.span)
        before = await listed(store)
        calls_of_others: tuple[tuple[Any, Any], ...] = (
            ((2,), {"a": 2}),
            ((1,), {"a": 3}),
            ((1, 2), {}),
            ((), {}),
        )
        for id in ("completed", "failed", "pending"):
            for replica in (store, other):
                for args, kwargs in calls_of_others:
                    with raises(KeyReusedError):
                        await replica.once(id, calls, *args, **kwargs)
        assert calls.count == 1
        assert await listed(store) == before


@case
async def other_arguments_are_noticed_while_the_task_runs(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def run() -> str:
            with raises(KeyReusedError):
                await other.once("it", len, "other")
            return "done"

        assert await store.once("it", run, ttl=TTL) == "done"


@case
async def a_fingerprint_says_what_makes_two_calls_the_same(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        for attempt, replica in enumerate((store, other)):
            done = await replica.once("it", calls, {"attempt": attempt}, fingerprint="order-991")
            assert done == "done"
        assert calls.count == 1
        for fingerprint in ("order-992", None):
            with raises(KeyReusedError):
                await other.once("it", calls, {"attempt": 0}, fingerprint=fingerprint)


@case
async def arguments_that_are_not_json_are_not_compared(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        for replica in (store, other):
            assert await replica.once("it", calls, object()) == "done"
        assert calls.count == 1


@case
async def a_task_belongs_to_its_user(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        await store.once("it", calls, user="u")
        await store.once("nobody's", calls)
        for user in ("v", "u"):
            with raises(NotYoursError):
                await other.once("nobody's", calls, user=user)
        with raises(NotYoursError):
            await other.once("it", calls, user="v")
        assert await other.once("it", calls, user="u") == "done"
        assert calls.count == 2
        assert [info.id for info in await listed(store, user="u")] == ["it"]


@case
async def what_cannot_be_meant_is_refused_and_nothing_is_recorded(h: StoreHarness) -> None:
    async with h.store() as store:
        calls = Calls()
        wrong: list[dict[str, Any]] = [
            *[{"attempts": attempts} for attempts in (0, -1, True, "3", 1.5, None)],
            *[{"retain": retain} for retain in (0, -1, "30", True)],
        ]
        for options in wrong:
            with raises(InvalidInput):
                await store.once("it", calls, **options)
        for id in ("", "x" * 513, 7, None):
            with raises(InvalidInput):
                await store.once(id, calls)  # type: ignore[call-arg, arg-type]
        assert calls.count == 0
        assert await listed(store) == []


# --- one at a time ----------------------------------------------------------------------


@case
async def a_task_that_runs_elsewhere_is_waited_for_or_not(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        ended = False

        async def run() -> str:
            await until(h, lambda: ended)
            return "done"

        first = Beside(lambda: store.once("it", run, ttl=TTL))
        await until(h, lambda: is_running(other))
        with raises(LeaseHeld) as caught:
            await other.once("it", run, wait=0)
        assert 0 < caught.error.remaining <= TTL
        with raises(LeaseHeld):
            await other.once("it", run, wait=0.05)
        waiting = Beside(lambda: other.once("it", run))
        assert not waiting.done
        ended = True
        assert await waiting.result() == await first.result() == "done"


async def is_running(store: Store) -> bool:
    return [info.status for info in await listed(store)] == ["running"]


@case
async def many_deliveries_at_once_run_it_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Calls({"charged": 5})

        async def deliver(number: int) -> Any:
            return await (store, other)[number % 2].once("charge", charge, 991)

        deliveries = [Beside(deliver, number) for number in range(10)]
        assert [await one.result() for one in deliveries] == [{"charged": 5}] * 10
        assert charge.count == 1


@case
async def waiting_deliveries_try_again_what_failed(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls(failing=2)

        async def deliver(number: int) -> Any:
            try:
                return await (store, other)[number % 2].once("it", calls)
            except ValueError:
                return "failed"

        deliveries = [Beside(deliver, number) for number in range(5)]
        results = [await one.result() for one in deliveries]
        assert sorted(results) == ["done"] * 3 + ["failed"] * 2
        assert calls.count == 3


# --- taken over -------------------------------------------------------------------------


@clock_case
async def a_task_is_taken_over_and_the_stale_result_is_refused(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def slow() -> str:
            await h.pass_time(TTL)
            assert await other.once("it", Calls("second"), ttl=TTL) == "second"
            return "first"

        assert await store.once("it", slow, ttl=TTL) == "second"
        assert await other.once("it", slow) == "second"
        assert await statuses(other) == {"it": "completed"}


@clock_case
async def the_failure_of_a_stale_run_is_not_recorded(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def slow() -> str:
            await h.pass_time(TTL)
            await other.once("it", Calls("second"), ttl=TTL)
            raise Permanent("nobody wants to know")

        with raises(Permanent):
            await store.once("it", slow, ttl=TTL)
        assert await store.once("it", slow) == "second"
        assert (await listed(other))[0].failures == 0


@clock_case
async def a_stale_result_is_refused_while_the_successor_still_runs(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:

        async def slow() -> str:
            await h.pass_time(TTL)
            take = (Acquire("successor", TTL), SetHead(status="running", due_in=TTL))
            await a.apply(h.entity("it", "task"), *take)
            return "first"

        with raises(LeaseLost):
            await store.once("it", slow, ttl=TTL)
        assert await statuses(store) == {"it": "running"}
        with raises(LeaseHeld):
            await store.once("it", slow, wait=0)


@case
async def a_worker_that_vanished_is_succeeded_by_the_next_delivery(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        calls = Calls()

        async def run() -> str:
            store.faults.unavailable()
            return "never recorded"

        with raises(StoreUnavailable):
            await store.once("it", run, ttl=h.span, fingerprint="f")
        with raises(LeaseHeld):
            await other.once("it", calls, wait=0, fingerprint="f")
        await h.pass_time(h.span)
        assert await other.once("it", calls, wait=5, fingerprint="f") == "done"


# --- listing and retention --------------------------------------------------------------


@case
async def tasks_are_listed_by_status_and_in_order(h: StoreHarness) -> None:
    async with h.store() as store:

        async def look() -> list[list[str]]:
            return [
                [info.id for info in await listed(store, status)]
                for status in ("pending", "running", "completed", "failed")
            ]

        await store.once("d", len, "", at=h.world.now() + h.span)
        with raises(ValueError):
            await store.once("c", Calls(failing=1))
        await store.once("b", len, "")
        assert await store.once("a", look, ttl=TTL) == [["d"], ["a"], ["b"], ["c"]]
        assert [info.id for info in await listed(store)] == ["a", "b", "c", "d"]
        (failed,) = await listed(store, "failed")
        assert (failed.failures, failed.error) == (1, "ValueError: not today")
        assert (failed.name, failed.user, failed.due_at) == ("calls", None, None)


@case
async def many_tasks_are_listed_to_the_last(h: StoreHarness) -> None:
    async with h.store() as store:
        for number in range(210):
            await store.once(f"{number:03}", len, "")
        assert [info.id for info in await listed(store)] == [f"{n:03}" for n in range(210)]


@case
async def a_result_is_kept_for_its_retention_and_then_forgotten(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls()
        await store.once("it", calls, retain=h.span, ttl=h.span / 2)
        await h.pass_time(h.span * 0.5)
        await other.once("it", calls, retain=h.span, ttl=h.span / 2)
        assert calls.count == 1
        await h.pass_time(h.span * 0.5)
        assert await listed(store) == []
        await other.once("it", calls, retain=h.span, ttl=h.span / 2)
        assert calls.count == 2


@clock_case
async def a_result_is_kept_for_a_month_from_its_completion(h: StoreHarness) -> None:
    async with h.store() as store:
        day = 86_400.0

        async def slow() -> str:
            await h.pass_time(10 * day)
            return "done"

        assert await store.once("it", slow, ttl=day, wait=0) == "done"
        await store.once("for ever", slow, retain=None)
        await h.pass_time(19 * day)  # "it" has now been completed for 29 days
        assert len(await listed(store)) == 2
        await h.pass_time(2 * day)
        assert [info.id for info in await listed(store)] == ["for ever"]
        await h.pass_time(10_000 * day)
        assert await store.once("for ever", slow) == "done"


# --- a key for the outside world --------------------------------------------------------


@case
async def the_idempotency_key_is_the_same_at_every_try(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls = Calls(failing=2)
        for replica in (store, other):
            with raises(ValueError):
                await replica.once("it", calls)
        await store.once("it", calls)
        assert len(calls.keys) == 3
        assert len(set(calls.keys)) == 1
        another = Calls()
        await store.once("another", another)
        assert another.keys[0] != calls.keys[0]
        with raises(StoreMisused):
            idempotency_key()


# --- at the edges -----------------------------------------------------------------------


@case
async def a_time_that_no_calendar_has_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        wrong: tuple[Any, ...] = (h.world.now() * 1000, float("nan"), float("inf"), -1.0, "soon")
        for at in wrong:
            with raises(InvalidInput):
                await store.once("later", print, at=at)
        assert [info async for info in store.tasks()] == []


@case
async def arguments_are_the_same_whatever_the_order_of_their_names(h: StoreHarness) -> None:
    calls: list[Any] = []

    def note(order: dict[str, Any], **more: Any) -> int:
        calls.append(order)
        return len(calls)

    async with h.store() as store:
        assert await store.once("t", note, {"a": 1, "b": {"c": 2, "d": 3}}, x=1, y=2) == 1
        assert await store.once("t", note, {"b": {"d": 3, "c": 2}, "a": 1}, y=2, x=1) == 1
        with raises(KeyReusedError):
            await store.once("t", note, {"a": 2, "b": {"c": 2, "d": 3}}, x=1, y=2)
    assert len(calls) == 1


@case
async def a_task_that_takes_its_process_down_again_and_again_fails_for_good(
    h: StoreHarness,
) -> None:
    """What kills its process raises nothing: only the leases that were left behind tell."""
    runs: list[int] = []
    async with h.store() as healthy:
        for _ in range(20):
            async with severable(h) as dying:

                def die() -> None:
                    runs.append(1)
                    dying.faults.unavailable()

                try:
                    await dying.once("poison", die, ttl=h.span, attempts=2, fingerprint="p")
                except StoreUnavailable:
                    await h.pass_time(h.span)
                else:
                    raise AssertionError("it was recorded")
            if len(runs) == 2 + DEATHS_FORGIVEN:
                break
        assert [each.status async for each in healthy.tasks()] == ["running"]
        with raises(Permanent):
            await healthy.once("poison", runs.append, 1, ttl=h.span, attempts=2, fingerprint="p")
        with raises(TaskFailed):
            await healthy.once("poison", runs.append, 1, ttl=h.span, attempts=2, fingerprint="p")
    assert len(runs) == 2 + DEATHS_FORGIVEN


@case
async def a_task_that_ends_its_process_again_and_again_fails_for_good(h: StoreHarness) -> None:
    """It is given back each time, so that the others need not wait; that it was is counted."""
    runs: list[int] = []

    def leave() -> None:
        runs.append(1)
        raise SystemExit("the handler has had enough")

    async with h.store() as store, h.store() as other:
        for _ in range(2 + DEATHS_FORGIVEN):
            with raises(SystemExit):
                await store.once("poison", leave, ttl=TTL, wait=0, attempts=2)
        with raises(Permanent):
            await other.once("poison", leave, ttl=TTL, wait=0, attempts=2)
        with raises(TaskFailed):
            await other.once("poison", leave, ttl=TTL, wait=0, attempts=2)
        (info,) = await listed(store, "failed")
        assert info.error is not None
        assert "processes have died" in info.error
    assert len(runs) == 2 + DEATHS_FORGIVEN


class Aborted(BaseException):
    """What some frameworks end a handler with."""


@case
async def whatever_a_task_raises_is_its_failure(h: StoreHarness) -> None:
    async def abort() -> None:
        raise Aborted("by the framework")

    async with h.store() as store:
        for _ in range(2):
            with raises(Aborted):
                await store.once("t", abort, ttl=TTL, attempts=2)
        with raises(TaskFailed):
            await store.once("t", abort, ttl=TTL, attempts=2)
