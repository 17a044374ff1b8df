"""Workflows: one driver, one input and one owner each; moved, found and forgotten by anybody."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from conformance.state.steps import ALL, ANSWERS, Steps, refund
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    Permanent,
    StateConflictError,
    StatewardError,
    StoreClosed,
    WorkflowFinished,
)
from stateward.records import WorkflowInfo
from stateward.state.workflow_record import DEATHS_FORGIVEN, Machine
from stateward.store import Store
from stateward.testing.conformance.harness import raises

MACHINE: Machine = {
    "review": ("approved", "refused"),
    "approved": ("paid",),
    "refused": [],
    "paid": [],
}


async def listed(store: Store, **options: Any) -> list[WorkflowInfo]:
    return [info async for info in store.workflows(**options)]


# --- one driver, one input, one owner ---------------------------------------------------


@case
async def a_workflow_has_one_driver_at_a_time(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        steps = Steps()

        async def drive() -> list[str]:
            async with other.workflow("w", kind="refund") as run:
                answers = await refund(run, steps)
            return answers

        async with store.workflow("w", kind="refund", ttl=60) as run:
            with raises(LeaseHeld) as caught:
                await other.workflow("w", kind="refund", wait=0).__aenter__()
            assert 0 < caught.error.remaining <= 60
            with raises(LeaseHeld):
                await other.workflow("w", wait=0.05).__aenter__()
            waiting = Beside(drive)
            assert await refund(run, steps) == ANSWERS
        assert await waiting.result() == ANSWERS  # replayed
        assert steps.made == ALL


@case
async def a_store_that_is_closed_under_a_workflow_fails_nothing(h: StoreHarness) -> None:
    """A replica that is shut down leaves its work to others, and its tasks."""
    closing, steps = h.store(), Steps()

    async def shut_down() -> str:
        await closing.close()
        await closing.thread("t").load()
        return "never"

    async with h.store() as other:
        with raises(StatewardError) as caught:
            async with closing.workflow("w", kind="refund") as run:
                await run.step("first", shut_down)
        assert isinstance(caught.error, StoreClosed | LeaseLost), caught.error
        (found,) = await listed(other)
        assert found.status == "active", found
        async with other.workflow("w", kind="refund", wait=5.0) as run:
            assert await refund(run, steps) == ANSWERS
        closing = h.store()
        with raises(StatewardError):
            await closing.once("t", shut_down)
        assert await other.once("t", lambda: "done", wait=5.0) == "done"


@case
async def a_workflow_is_entered_once_at_a_time(h: StoreHarness) -> None:
    async with h.store() as store:
        workflow = store.workflow("w", kind="k")
        async with workflow:
            with raises(InvalidInput):
                await workflow.__aenter__()


@case
async def another_kind_or_input_is_another_workflow(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        same: dict[str, Any] = {"kind": "refund", "input": {"order": 991, "of": "u"}}
        wrong: list[dict[str, Any]] = [same | {"kind": "return"}, same | {"input": {"order": 992}}]

        async def refuse_others() -> None:
            for options in wrong:
                for replica in (store, other):
                    with raises(KeyReusedError):
                        await replica.workflow("w", **options).__aenter__()

        async with store.workflow("w", **same, ttl=60) as run:
            await refuse_others()  # while it is held
            await run.wait("approval")
        await refuse_others()  # while it is parked
        await store.workflow("w").signal("approval")
        for options in (same, {"kind": "refund"}, {}):  # what is not said is not compared
            async with other.workflow("w", **options, wait=0) as run:
                assert run.input == same["input"]
                await run.wait("approval")
        await refuse_others()  # when it is finished
        assert [info.status for info in await listed(store)] == ["completed"]


@case
async def a_workflow_that_was_never_begun_cannot_be_entered_without_its_kind(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        with raises(InvalidInput):
            await store.workflow("w").__aenter__()
        assert await store.workflow("w").info() is None
        assert await listed(store) == []


@case
async def a_workflow_belongs_to_its_user(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.workflow("w", kind="k", user="u", machine=MACHINE) as run:
            await run.wait("approval")
        theirs = store.workflow("w", kind="k", user="v")
        refused = (
            theirs.__aenter__,
            theirs.info,
            theirs.delete,
            lambda: theirs.signal("approval"),
            lambda: theirs.transition("approved"),
        )
        for call in refused:
            with raises(NotYoursError):
                await call()
        assert await store.workflow("w", user="u").signal("approval")


@case
async def a_deleted_workflow_is_begun_anew(h: StoreHarness) -> None:
    async with h.store() as store:
        for number in (1, 2):
            steps = Steps()
            async with store.workflow("w", kind=f"kind {number}", input=number) as run:
                await refund(run, steps)
            assert steps.made == ALL
            await store.workflow("w").delete()
            assert await store.workflow("w").info() is None
        await store.workflow("w").delete()


@case
async def what_is_no_workflow_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        wrong: list[dict[str, Any]] = [
            {"kind": ""},
            {"kind": 7},
            {"kind": "k", "user": ""},
            {"kind": "k", "machine": {"a": ("b",)}},
            {"kind": "k", "machine": {"": ()}},
        ]
        for options in wrong:
            with raises(InvalidInput):
                store.workflow("w", **options)
        for value in (object(), {1: 2}, float("nan")):
            with raises(InvalidInput):
                await store.workflow("w", kind="k", input=value).__aenter__()
        async with store.workflow("w", kind="k") as run:
            names: tuple[Any, ...] = ("", 7, "x" * 513)
            for name in names:
                with raises(InvalidInput):
                    await run.step(name, len, "")
            with raises(InvalidInput):
                await run.save({"a": object()})
        assert [info.status for info in await listed(store)] == ["completed"]


# --- state and machine ------------------------------------------------------------------


@case
async def the_state_is_saved_and_seen_by_everybody(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k") as run:
            await run.save({"total": 5})
            assert run.state == {"total": 5}
            info = await other.workflow("w").info()
            assert info is not None
            assert info.state == {"total": 5}
            await run.save({"total": 6})
            await run.wait("approval")
        async with other.workflow("w") as run:
            assert run.state == {"total": 6}


@case
async def a_workflow_moves_along_its_machine_whoever_moves_it(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k", machine=MACHINE) as run:
            assert run.at == "review"
            # Any agent may, without driving, while another drives.
            assert await other.workflow("w").transition("approved", expect="review") == "review"
            with raises(StateConflictError) as caught:
                await run.transition("refused", expect="review")
            assert (caught.error.expected, caught.error.current) == ("review", "approved")
            with raises(InvalidInput) as refused:
                await run.transition("refused")
            assert "'paid'" in str(refused.error)
            await run.step("one", len, "")  # moving it has not disturbed its driver
            assert await run.transition("paid") == "approved"
            assert run.at == "paid"
            with raises(InvalidInput):
                await run.transition("review")
        info = await other.workflow("w").info()
        assert info is not None
        assert (info.status, info.step) == ("completed", "paid")
        with raises(WorkflowFinished):
            await other.workflow("w").transition("review")
        async with other.workflow("w") as run:
            assert run.at == "paid"


@case
async def of_many_who_move_it_at_once_one_succeeds(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with store.workflow("w", kind="k", machine=MACHINE) as run:
            await run.wait("approval")

        async def decide(number: int) -> str:
            to = ("approved", "refused")[number % 2]
            try:
                await (store, other)[number % 2].workflow("w").transition(to, expect="review")
            except StateConflictError:
                return "too late"
            return to

        deciders = [Beside(decide, number) for number in range(6)]
        decisions = [await decider.result() for decider in deciders]
        (decision,) = [one for one in decisions if one != "too late"]
        info = await store.workflow("w").info()
        assert info is not None
        assert info.step == decision


@case
async def a_workflow_without_a_machine_does_not_move(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(InvalidInput):
            await store.workflow("w").transition("approved")
        async with store.workflow("w", kind="k") as run:
            with raises(InvalidInput):
                await run.transition("approved")


# --- listing ----------------------------------------------------------------------------


@case
async def workflows_are_listed_by_kind_user_and_status(h: StoreHarness) -> None:
    async with h.store() as store:
        for id, kind, user, ends in (
            ("a", "refund", "u", False),
            ("b", "refund", "v", True),
            ("c", "return", "u", True),
            ("d", "return", None, False),
        ):
            async with store.workflow(id, kind=kind, user=user, machine=MACHINE) as run:
                await run.save({"of": id})
                if not ends:
                    await run.wait("approval")

        async def ids(**options: Any) -> str:
            return "".join([info.id for info in await listed(store, **options)])

        assert await ids() == "abcd"
        assert await ids(kind="refund") == "ab"
        assert await ids(user="u") == "ac"
        assert await ids(status="active") == "ad"
        assert await ids(status="completed") == "bc"
        assert await ids(kind="refund", user="u", status="active") == "a"
        assert await ids(kind="refund", user="u", status="failed") == ""
        (info,) = await listed(store, user="v")
        assert (info.id, info.kind, info.user, info.status) == ("b", "refund", "v", "completed")
        assert (info.step, info.state) == ("review", {"of": "b"})


@case
async def many_workflows_are_listed_to_the_last(h: StoreHarness) -> None:
    async with h.store() as store:
        for number in range(205):
            async with store.workflow(f"{number:03}", kind="k"):
                pass
        assert [info.id for info in await listed(store)] == [f"{n:03}" for n in range(205)]


@case
async def a_context_shows_the_users_unfinished_workflows(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for id, user, ends in (("a", "u", False), ("b", "u", True), ("c", "v", False)):
            async with store.workflow(id, kind="refund", user=user, machine=MACHINE) as run:
                await run.save({"order": id})
                if not ends:
                    await run.wait("approval")
        (info,) = (await other.context(user="u", thread="t")).workflows
        assert (info.id, info.kind, info.step) == ("a", "refund", "review")
        assert info.state == {"order": "a"}
        assert (await other.context(user="w", thread="t")).workflows == []


@case
async def a_driver_that_resumes_does_not_move_along_the_machine_again(h: StoreHarness) -> None:
    machine = {"review": ("approved",), "approved": ("paid",), "paid": ()}

    async def drive(store: Store) -> list[str]:
        async with store.workflow("w-1", kind="refund", machine=machine) as run:
            was = [await run.transition("approved", expect="review")]
            await run.wait("money")
            return [*was, await run.transition("paid", expect="approved")]
        return []

    async with h.store() as store, h.store() as other:
        assert await drive(store) == [], "parked"
        await other.workflow("w-1").signal("money")
        assert await drive(other) == ["review", "approved"]
        info = await store.workflow("w-1").info()
        assert info is not None
        assert (info.status, info.step) == ("completed", "paid")


@case
async def a_workflow_that_ends_its_process_again_and_again_has_failed(h: StoreHarness) -> None:
    """It is given back each time, so that the others need not wait; that it was is counted."""
    async with h.store() as store, h.store() as other:
        for _ in range(1 + DEATHS_FORGIVEN):
            with raises(SystemExit):
                async with store.workflow("w", kind="k", wait=0):
                    raise SystemExit("the handler has had enough")
        with raises(Permanent):
            async with other.workflow("w", kind="k", wait=0):
                pass
        (info,) = [each async for each in store.workflows()]
        assert info.status == "failed"


@case
async def a_workflow_that_records_something_in_each_life_is_not_given_up(h: StoreHarness) -> None:
    async with h.store() as store:
        lives = 2 * DEATHS_FORGIVEN

        async def live(life: int) -> None:
            async with store.workflow("w", kind="k", wait=0) as run:
                for number in range(life):
                    await run.step("step", lambda: None)
                    assert number < life
                raise SystemExit("the machine goes")

        for life in range(1, lives):
            with raises(SystemExit):
                await live(life)
        for _ in range(DEATHS_FORGIVEN):  # those without progress count
            with raises(SystemExit):
                await live(lives - 1)
        with raises(Permanent):
            await live(lives)
