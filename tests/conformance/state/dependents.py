"""Effects and children are kept, expire and are deleted with the entity they belong to."""

from __future__ import annotations

from typing import Any

from conformance.state import operations
from conformance.state.cases import case, clock_case
from conformance.state.effects import Payments, left_unknown, listed, statuses
from conformance.state.harness import StoreHarness
from stateward.errors import EffectUnknown, LeaseLost, WorkflowFailed
from stateward.state.run import Run
from stateward.store import Store
from stateward.testing.conformance.harness import raises

DAY = 86_400.0


async def ids(store: Store) -> list[str]:
    return [info.id async for info in store.workflows()]


async def pay(store: Store, id: str, charge: Payments, **options: Any) -> None:
    async with store.workflow(id, kind="k", user="u", **options) as run:
        await run.effect("pay", charge, id)


@clock_case
async def effects_are_kept_as_long_as_their_conversation_was_told_to_be(h: StoreHarness) -> None:
    async with h.store(retain=DAY) as store:
        for early in (True, False):  # told before the effect, or after it
            charge = Payments()
            for how in ("pin", "retain", "neither"):
                thread = store.thread(f"{how} {early}")
                await thread.append({"n": 1})
                if not early:
                    await thread.effect("c", charge, how)
                if how == "pin":
                    await thread.pin()
                elif how == "retain":
                    await thread.retain(10 * DAY)
                if early:
                    await thread.effect("c", charge, how)
            assert len(charge.seen) == 3
        await h.pass_time(2 * DAY)
        left = {info.of async for info in store.effects()}
        assert left == {f"{how} {early}" for how in ("pin", "retain") for early in (True, False)}
        await store.thread("pin True").unpin()
        await h.pass_time(2 * DAY)
        left = {info.of async for info in store.effects()}
        assert left == {"pin False", "retain True", "retain False"}


@case
async def the_effects_of_a_deleted_conversation_go_but_for_unknown_ones(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t"), Payments(None, ValueError("no"), TimeoutError())
        await thread.append({"n": 1})
        await thread.effect("done", charge)
        with raises(ValueError):
            await thread.effect("failed", charge)
        await left_unknown(thread, "unknown", charge)
        await store.thread("t2").effect("done", charge)
        await thread.delete()
        assert sorted(info.id for info in await listed(store)) == [
            "thread/t/unknown",
            "thread/t2/done",
        ]
        with raises(EffectUnknown):
            await thread.effect("unknown", charge)
        assert await thread.effect("done", charge) == "paid"


@case
async def an_effect_whose_owner_is_deleted_while_its_tool_acts_leaves_nothing(
    h: StoreHarness,
) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append({"n": 1})

        async def act() -> str:
            await other.thread("t", user="u").delete()
            return "paid"

        async def refuse() -> str:
            await other.thread("t", user="u").delete()
            raise ValueError("refused")

        async def lose() -> str:
            await other.thread("t", user="u").delete()
            raise TimeoutError("no reply")

        assert await thread.effect("done", act) == "paid"
        with raises(ValueError):
            await thread.effect("failed", refuse)
        assert await listed(store) == []
        with raises(EffectUnknown):
            await thread.effect("unknown", lose, keyed=True, name="pay")
        assert await statuses(store) == {"unknown": "unknown"}
        for _ in range(2):  # carried out, and then recorded
            pay: Any = thread.effect("unknown", lambda: "paid", keyed=True, name="pay")
            assert await pay == "paid"
        assert await statuses(store) == {"unknown": "done"}


@case
async def an_effect_of_a_workflow_that_is_deleted_meanwhile_leaves_nothing(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def act() -> str:
            await other.workflow("w").delete()
            return "paid"

        with raises(LeaseLost):
            async with store.workflow("w", kind="k", user="u") as run:
                await run.effect("pay", act)
        assert (await ids(store), await listed(store)) == ([], [])


@clock_case
async def the_effects_of_a_workflow_expire_with_it_and_leave_its_id_free(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments()
        await pay(store, "w", charge, retain=DAY)
        await pay(store, "kept", charge)
        await h.pass_time(2 * DAY)
        assert [info.of for info in await listed(store)] == ["kept"]
        await pay(store, "w", charge, retain=DAY)
        assert len(charge.seen) == 3


@clock_case
async def an_effect_that_ends_its_workflow_by_failing_expires_with_it(h: StoreHarness) -> None:
    """The workflow has recorded nothing before: only its end can say that it has an effect."""
    async with h.store() as store:
        with raises(ValueError):
            await pay(store, "w", Payments(ValueError("declined")), retain=DAY)
        assert [info.status for info in await listed(store)] == ["failed"]
        await h.pass_time(2 * DAY)
        assert (await ids(store), await listed(store)) == ([], [])


@clock_case
async def a_retried_workflow_keeps_its_effects_until_it_ends_again(h: StoreHarness) -> None:
    async with h.store() as store:
        charge, healthy = Payments(), False

        async def flow(run: Run) -> None:
            await run.effect("pay", charge)
            if not healthy:
                raise LookupError("refused")
            await run.wait("go")

        with raises(LookupError):
            async with store.workflow("w", kind="k", retain=DAY) as run:
                await flow(run)
        healthy = True
        await store.workflow("w").retry()
        await operations.drive(store, flow)
        await h.pass_time(2 * DAY)
        assert await statuses(store) == {"effect pay#1": "done"}
        await store.workflow("w").signal("go")
        await operations.drive(store, flow)
        await h.pass_time(2 * DAY)
        assert (await ids(store), await listed(store), len(charge.seen)) == ([], [], 1)


@case
async def a_deleted_workflow_is_begun_with_new_effects(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments()
        for _ in range(2):
            await pay(store, "w", charge)
            await store.workflow("w").delete()
            assert await listed(store) == []
        assert len(charge.seen) == 2


@case
async def an_unknown_effect_survives_its_workflow_until_it_is_decided(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments(TimeoutError())
        with raises(EffectUnknown):
            await pay(store, "w", charge)
        await store.workflow("w").delete()
        with raises(EffectUnknown):
            await pay(store, "w", charge)
        (info,) = await listed(store, "unknown")
        await store.effect(info.id).resolve("done", result="found")
        await store.workflow("w").retry()
        async with store.workflow("w", wait=5) as run:
            assert await run.effect("pay", charge, "w") == "found"
        assert len(charge.seen) == 1


async def parent(run: Run) -> Any:
    answer = await run.child("c", kind="child")
    await run.wait("go")
    return answer


@clock_case
async def a_child_is_kept_until_its_parent_has_its_result_and_has_ended(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments()

        async def child(run: Run) -> Any:
            return await run.effect("pay", charge)

        async with store.workflow("w", kind="k", retain=DAY) as run:
            run.result = await parent(run)
        await operations.work(store, child=child)
        await h.pass_time(3 * DAY)  # no worker drives the parent meanwhile
        assert await operations.drive(store, parent)
        await h.pass_time(3 * DAY)
        assert sorted(await ids(store)) == ["w", "w/c#1"]
        await store.workflow("w").signal("go")
        assert not await operations.drive(store, parent)
        assert await store.workflow("w").result(wait=0) == "paid"
        assert len(charge.seen) == 1
        await h.pass_time(2 * DAY)
        assert (await ids(store), await listed(store)) == ([], [])


@clock_case
async def a_child_that_outlives_its_parent_is_kept_for_its_own_time(h: StoreHarness) -> None:
    async with h.store() as store:

        async def leave(run: Run) -> None:
            raise LookupError("refused")

        async def done(run: Run) -> int:
            return 1

        async with store.workflow("w", kind="k", retain=DAY) as run:
            await parent(run)
        with raises(LookupError):
            async with store.workflow("w") as run:
                await leave(run)
        await h.pass_time(2 * DAY)
        assert await ids(store) == ["w/c#1"]
        await operations.work(store, child=done)
        assert await ids(store) == ["w/c#1"]
        await h.pass_time(2 * DAY)
        assert await ids(store) == []


@case
async def a_workflow_is_deleted_with_its_children_and_their_effects(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments()

        async def child(run: Run) -> Any:
            return await run.effect("pay", charge)

        await operations.drive(store, parent)
        await operations.work(store, child=child, k=parent)
        await store.workflow("w/c#2", kind="child").start()  # nobody's child
        await store.workflow("w").delete()
        assert (await ids(store), await listed(store)) == (["w/c#2"], [])


@case
async def a_child_whose_failure_was_let_out_late_is_retried_with_its_parent(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        healthy = False

        async def child(run: Run) -> str:
            if not healthy:
                raise LookupError("refused")
            return "made"

        async def late(run: Run) -> str:
            try:
                return str(await run.child("c", kind="child"))
            except WorkflowFailed:
                await run.step("clean up", list)
                raise

        await operations.drive(store, late)
        await operations.work(store, child=child, k=late)
        assert (await operations.told(store)).status == "failed"
        healthy = True
        await store.workflow("w").retry()
        await operations.work(store, child=child, k=late)
        assert await store.workflow("w").result(wait=0) == "made"
