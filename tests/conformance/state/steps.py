"""Steps of a workflow: recorded when they are finished, and never run again."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from email.message import Message
from json import JSONDecodeError
from subprocess import CalledProcessError
from typing import Any
from urllib.error import HTTPError

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.logged import logged
from conformance.state.meanwhile import severable
from stateward.errors import (
    InvalidInput,
    LeaseHeld,
    LeaseLost,
    Permanent,
    StoreUnavailable,
    WorkflowFinished,
)
from stateward.state.work import idempotency_key
from stateward.store import Store
from stateward.testing.conformance.harness import raises


class Refusal(Exception):
    """A failure as clients write them, with more than its text."""

    def __init__(self, message: str, *, code: str, token: str) -> None:
        self.code, self.token, self.request = code, token, None
        super().__init__(message, object())

    def __str__(self) -> str:
        return f"{self.code} {self.request}"


class Steps:
    """The effects of steps: which were made, in their order, and under which keys."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.keys: list[str] = []

    async def make(self, what: str) -> str:
        self.made.append(what)
        self.keys.append(idempotency_key())
        return f"{what} made"

    async def refuse(self, what: str, error: Exception | None = None) -> str:
        await self.make(what)
        raise error or ValueError(f"{what} was refused")


async def refund(run: Any, steps: Steps) -> list[str]:
    """Three steps of which the middle one comes twice."""
    return [
        await run.step("fetch", steps.make, "fetch"),
        await run.step("pay", steps.make, "pay 1"),
        await run.step("pay", steps.make, "pay 2"),
        await run.step("tell", steps.make, "tell"),
    ]


ALL = ["fetch", "pay 1", "pay 2", "tell"]
ANSWERS = [f"{what} made" for what in ALL]


async def status(store: Store, id: str = "w") -> str | None:
    info = await store.workflow(id).info()
    return None if info is None else info.status


# --- steps ------------------------------------------------------------------------------


@case
async def a_workflow_makes_its_steps_and_completes(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        options: dict[str, Any] = {"kind": "refund", "user": "u", "input": {"order": 991}}
        async with store.workflow("w", **options) as run:
            assert (run.id, run.kind, run.user, run.input) == ("w", "refund", "u", {"order": 991})
            assert (run.state, run.at, run.status, run.parked) == ({}, None, "active", False)
            assert await refund(run, steps) == ANSWERS
            assert await status(other) == "active"
        assert await status(other) == "completed"
        assert steps.made == ALL
        assert len(set(steps.keys)) == 4  # every occurrence has a key of its own


@case
async def a_step_gets_its_arguments_and_gives_its_result(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k") as run:

            def join(*parts: str, by: str) -> str:
                return by.join(parts)

            assert await run.step("join", join, "a", "b", by="-") == "a-b"
            values: tuple[Any, ...] = (None, 0, "", [], {}, {"a": [1.5, None, "é\x00"]})
            for value in values:
                assert await run.step("value", lambda kept: kept, value) == value
        async with store.workflow("w") as run:
            assert await run.step("join", join, by="") == "a-b"
            assert await run.step("value", list) is None


@case
async def a_workflow_resumes_behind_its_last_finished_step(h: StoreHarness) -> None:
    """The driver vanishes in the first step or in a later one; the next goes on from there."""
    for lost in (0, 2):
        async with severable(h) as store, h.store() as other:
            steps = Steps()
            id = f"lost-{lost}"

            async def vanish(run: Any, steps: Steps = steps, lost: int = lost) -> None:
                for what in ALL[:lost]:
                    await run.step(what.split()[0], steps.make, what)
                store.faults.unavailable()
                await run.step(ALL[lost].split()[0], steps.make, ALL[lost])

            with raises(StoreUnavailable):
                async with store.workflow(id, kind="refund", ttl=h.span) as run:
                    await vanish(run)
            with raises(LeaseHeld):
                await other.workflow(id, wait=0).__aenter__()
            await h.pass_time(h.span)
            async with other.workflow(id, wait=5) as run:
                assert await refund(run, steps) == ANSWERS
            # Only the effect whose record was never made is made again, under the same key.
            assert steps.made == ALL[: lost + 1] + ALL[lost:]
            assert steps.keys[lost] == steps.keys[lost + 1]
            assert await status(other, id) == "completed"


@case
async def a_record_whose_answer_was_lost_is_found_by_the_next_driver(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        steps = Steps()
        with raises(StoreUnavailable) as caught:
            async with store.workflow("w", kind="refund", ttl=h.span) as run:
                await run.step("fetch", steps.make, "fetch")
                lost = store.faults.fail_after(times=None)
                await run.step("pay", steps.make, "pay 1")
        assert lost.fired > 1
        assert caught.error.applied == "unknown"
        lost.clear()
        await h.pass_time(h.span)
        async with other.workflow("w", wait=5) as run:
            await refund(run, steps)
        assert steps.made == ALL


@case
async def after_an_unsure_record_the_run_is_over(h: StoreHarness) -> None:
    async with severable(h) as store:
        steps = Steps()
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="k", ttl=60) as run:
                with store.faults.unavailable(), raises(StoreUnavailable):
                    await run.step("one", steps.make, "one")
                later = (
                    lambda: run.step("two", steps.make, "two"),
                    lambda: run.wait("signal"),
                    lambda: run.sleep(0),
                    lambda: run.save({"n": 1}),
                    lambda: run.transition("approved"),
                )
                for call in later:
                    with raises(StoreUnavailable):
                        await call()
                # Leaving the block as if nothing had happened does not complete it.
        assert steps.made == ["one"]
        assert await status(store) == "active"
        async with store.workflow("w", wait=0) as run:
            assert await run.step("one", steps.make, "one again") == "one again made"


@clock_case
async def a_superseded_driver_records_nothing_and_its_run_is_over(h: StoreHarness) -> None:
    async def step(run: Any, steps: Steps) -> None:
        await run.step("stale", steps.make, "stale")

    async def save(run: Any, steps: Steps) -> None:
        await run.save({"by": "stale"})

    async def wait(run: Any, steps: Steps) -> None:
        await run.wait("anything")

    for first in (step, save, wait):
        async with h.store() as store, h.store() as other:
            steps = Steps()
            id = first.__name__
            with raises(LeaseLost):
                async with store.workflow(id, kind="k", ttl=60) as run:
                    await h.pass_time(60)
                    async with other.workflow(id, ttl=60) as successor:
                        with raises(LeaseLost):
                            await first(run, steps)
                        made = len(steps.made)
                        with raises(LeaseLost):
                            await run.step("later", steps.make, "later")
                        assert len(steps.made) == made  # its effect was not even tried
                        assert await successor.step("one", steps.make, "one") == "one made"
            info = await other.workflow(id).info()
            assert info is not None
            assert (info.status, info.state) == ("completed", {})


# --- retries and failures ---------------------------------------------------------------


@case
async def a_failing_step_is_tried_again(h: StoreHarness) -> None:
    async with h.store() as store:
        steps = Steps()

        async def at_the_second_try() -> str:
            if len(steps.made) < 1:
                await steps.refuse("pay")
            return await steps.make("pay")

        async with store.workflow("w", kind="k") as run:
            assert await run.step("pay", at_the_second_try, retries=1) == "pay made"
        assert steps.made == ["pay", "pay"]
        assert steps.keys[0] == steps.keys[1]


@case
async def a_step_that_fails_for_good_fails_its_workflow(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        with raises(ValueError):
            async with store.workflow("w", kind="refund") as run:
                await run.step("fetch", steps.make, "fetch")
                await run.step("pay", steps.refuse, "pay 1")
        info = await other.workflow("w").info()
        assert info is not None
        assert (info.status, (info.error or "").partition(":")[0]) == ("failed", "ValueError")
        assert steps.made == ["fetch", "pay 1"]
        with raises(WorkflowFinished):
            async with other.workflow("w", kind="refund") as run:
                assert run.status == "failed"
                await refund(run, steps)
        assert steps.made == ["fetch", "pay 1"]


@case
async def a_permanent_failure_is_not_tried_again(h: StoreHarness) -> None:
    async with h.store() as store:
        steps = Steps()
        with raises(Permanent):
            async with store.workflow("w", kind="k") as run:
                await run.step("pay", steps.refuse, "pay", Permanent("stolen"), retries=9)
        assert steps.made == ["pay"]
        assert await status(store) == "failed"


@case
async def a_failure_that_the_block_handles_is_no_failure(h: StoreHarness) -> None:
    async with h.store() as store:
        steps = Steps()
        async with store.workflow("w", kind="k") as run:
            with raises(ValueError):
                await run.step("pay", steps.refuse, "pay")
            await run.step("tell", steps.make, "tell")
        assert await status(store) == "completed"


@case
async def a_result_that_is_not_json_fails_the_workflow_without_retry(h: StoreHarness) -> None:
    async with h.store() as store:
        for number, value in enumerate((object(), {1: 2}, float("inf"), "\udfff")):
            calls: list[int] = []

            def odd(kept: Any = value, calls: list[int] = calls) -> Any:
                calls.append(1)
                return kept

            with raises(Permanent) as caught:
                async with store.workflow(f"w-{number}", kind="k") as run:
                    await run.step("odd", odd, retries=9)
            assert "JSON" in str(caught.error)
            assert len(calls) == 1
            assert await status(store, f"w-{number}") == "failed"


@case
async def a_failure_around_the_workflow_leaves_it_to_others_at_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for number, error in enumerate((StoreUnavailable("elsewhere"), LeaseLost("elsewhere"))):
            steps = Steps()
            id = f"w-{number}"
            with raises(type(error)):
                async with store.workflow(id, kind="refund", ttl=60) as run:
                    await run.step("fetch", steps.make, "fetch")
                    await run.step("pay", steps.refuse, "pay 1", error, retries=9)
            assert await status(other, id) == "active"
            async with other.workflow(id, wait=0) as run:
                await refund(run, steps)
            assert steps.made == ["fetch", "pay 1", *ALL[1:]]


@case
async def an_impossible_number_of_retries_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        steps = Steps()
        wrong: tuple[Any, ...] = (-1, 1.5, "3", None, True)
        async with store.workflow("w", kind="k") as run:
            for retries in wrong:
                with raises(InvalidInput):
                    await run.step("pay", steps.make, "pay", retries=retries)
        assert steps.made == []


# --- finished ---------------------------------------------------------------------------


@case
async def a_finished_workflow_replays_its_answers_and_refuses_new_steps(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        async with store.workflow("w", kind="refund", input=7) as run:
            await refund(run, steps)
            await run.save({"total": 5})
        before = await store.workflow("w").info()
        for replica in (store, other):
            async with replica.workflow("w", kind="refund", input=7) as run:
                assert (run.status, run.state, run.input) == ("completed", {"total": 5}, 7)
                assert await refund(run, steps) == ANSWERS
                new = (
                    lambda: run.step("new", steps.make, "new"),
                    lambda: run.wait("signal"),
                    lambda: run.sleep(1),
                )
                for call in new:
                    with raises(WorkflowFinished):
                        await call()
                await run.save({"total": 1})  # as on the way here: it stores nothing
        with raises(ZeroDivisionError):
            async with other.workflow("w"):
                raise ZeroDivisionError("what happens in a replay changes nothing")
        assert steps.made == ALL
        assert await store.workflow("w").info() == before


@case
async def steps_that_the_code_no_longer_asks_for_are_reported(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()
        with raises(StoreUnavailable):
            async with store.workflow("w", kind="refund") as run:
                await run.step("fetch", steps.make, "fetch")
                await run.step("old step", steps.make, "old step")
                raise StoreUnavailable("the old code ends here")
        with logged("workflow_steps_not_asked_for", "steps") as warnings:
            async with other.workflow("w", wait=0) as run:
                assert run.unasked == ["fetch#1", "old step#1"]
                assert await run.step("fetch", steps.make, "fetch") == "fetch made"
                assert run.unasked == ["old step#1"]
                await run.step("new step", steps.make, "new step")
        assert warnings == [("w", ["old step#1"])]
        assert await status(other) == "completed"
        assert steps.made == ["fetch", "old step", "new step"]


# --- failures that the run goes on after ------------------------------------------------


class CardDeclined(ValueError):
    """Of the application's own."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@case
async def a_failure_that_was_caught_is_raised_again_and_not_tried_again(h: StoreHarness) -> None:
    """Or the other branch, which has been taken and recorded, would be followed by this one."""
    steps = Steps()
    declined: list[str] = []

    async def charge(run: Any) -> None:
        try:
            await run.step("charge", steps.refuse, "charge", CardDeclined("no funds"))
        except CardDeclined as error:
            declined.append(str(error))
            await run.step("cancel", steps.make, "cancel")
        else:
            await run.step("ship", steps.make, "ship")
        await run.wait("seen")

    async with h.store() as store, h.store() as other:
        for replica in (store, other, store):
            async with replica.workflow("w", kind="order") as run:
                await charge(run)
            assert run.parked
        await store.workflow("w").signal("seen")
        async with other.workflow("w", kind="order") as run:
            await charge(run)
        assert await status(store) == "completed"
        async with store.workflow("w", kind="order") as run:
            await charge(run)
    assert steps.made == ["charge", "cancel"]
    assert declined == ["no funds"] * 5


@case
async def a_failure_comes_back_as_its_own_class_with_its_text(h: StoreHarness) -> None:
    """Also if its class makes the text of attributes, or cannot make one at all."""
    async with h.store() as store:
        made = [
            HTTPError("http://bank", 402, "declined", Message(), None),
            CalledProcessError(3, ["charge", "o-1"]),
            FileNotFoundError(2, "No such file"),
            JSONDecodeError("m", "document", 3),
            Refusal("declined", code="card_declined", token="sk-4711"),
            KeyError("no card"),
            ValueError("a", 1),
        ]

        def fail(number: int) -> None:
            raise made[number]

        async def drive() -> list[Exception]:
            caught: list[Exception] = []
            async with store.workflow("w", kind="k") as run:
                for number in range(len(made)):
                    try:
                        await run.step("fail", fail, number)
                    except Exception as error:
                        caught.append(error)
            return caught

        first, again = await drive(), await drive()
        assert first == made
        for error, replayed in zip(made, again, strict=True):
            assert replayed is not error
            assert type(replayed) is type(error)
            assert f"{replayed}" == f"{error}"
        assert (vars(again[0])["code"], vars(again[1])["returncode"]) == (402, 3)
        assert vars(again[4]) == {"code": "card_declined", "request": None}  # and no secret


@case
async def a_caught_failure_without_anything_after_it_ends_the_same_way_again(
    h: StoreHarness,
) -> None:
    steps = Steps()
    caught: list[str] = []
    async with h.store() as store, h.store() as other:
        for replica in (store, other):
            async with replica.workflow("w", kind="order") as run:
                try:
                    await run.step("charge", steps.refuse, "charge")
                except ValueError as error:
                    caught.append(str(error))
        assert await status(other) == "completed"
    assert (steps.made, caught) == (["charge"], ["charge was refused"] * 2)


@case
async def a_caught_failure_is_kept_by_whatever_is_stored_next(h: StoreHarness) -> None:
    machine = {"new": ("refused",), "refused": ()}
    ways: tuple[Any, ...] = (
        lambda run: run.save({"charged": False}),
        lambda run: run.transition("refused"),
        lambda run: run.sleep(3600),
    )
    for nth, go_on in enumerate(ways):
        steps = Steps()
        async with h.store() as store, h.store() as other:
            for replica in (store, other):
                with suppress(StoreUnavailable):
                    async with replica.workflow(f"w{nth}", kind="k", machine=machine) as run:
                        try:
                            await run.step("charge", steps.refuse, "charge")
                        except ValueError:
                            await go_on(run)
                        raise StoreUnavailable("left to another")
        assert steps.made == ["charge"]


@case
async def a_sleep_until_a_time_that_is_computed_anew_ends(h: StoreHarness) -> None:
    """As code does that says in an hour: the time that counts is the first one."""
    async with h.store() as store:
        for parked in (True, False):
            async with store.workflow("w", kind="k") as run:
                await run.sleep(until=datetime.fromtimestamp(h.world.now() + h.span, UTC))
            assert run.parked == parked
            await h.pass_time(h.span)
        assert await status(store) == "completed"


@case
async def a_time_that_is_none_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        times: tuple[Any, ...] = (float("nan"), float("inf"), 1e300, "1", True)
        for wrong in times:
            with raises(InvalidInput):
                async with store.workflow(f"sleep-{wrong}", kind="k") as run:
                    await run.sleep(wrong)
            with raises(InvalidInput):
                async with store.workflow(f"wait-{wrong}", kind="k") as run:
                    await run.wait("signal", timeout=wrong)


@case
async def an_input_is_the_same_whatever_the_order_of_its_names(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k", input={"a": 1, "b": {"c": 2, "d": 3}}):
            pass
        async with store.workflow("w", kind="k", input={"b": {"d": 3, "c": 2}, "a": 1}) as run:
            assert run.status == "completed"
