"""One database serves several applications, and none of them sees anything of the others.

All use the same names for everything; the namespaces themselves differ as little as they can.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.store import Store
from holdfast.testing.conformance.belongings import exported
from holdfast.testing.conformance.cases import case
from holdfast.testing.conformance.harness import Harness
from holdfast.testing.conformance.meanwhile import rounds

ENDS = ("", ":", ":thread", "\x00", "%3A", "}", " ")


async def applications(h: Harness, stack: AsyncExitStack) -> list[Store]:
    """A store in each of the namespaces."""
    stores = [h.store(namespace=h.namespace + end) for end in ENDS]
    return [await stack.enter_async_context(store) for store in stores]


def total(state: int, event: dict[str, Any]) -> int:
    result: int = state + event["n"]
    return result


@case
async def the_same_names_mean_other_things_elsewhere(h: Harness) -> None:
    async with AsyncExitStack() as stack:
        stores = await applications(h, stack)
        for number, store in enumerate(stores):
            user = f"owner {number}"  # with one of another namespace this would be refused
            thread = store.thread("t", user=user)
            assert not (await thread.load()).exists
            appended = await thread.append({"n": number}, key="k")
            assert (appended.status, appended.version) == ("stored", 1)
            await thread.vars.put({"n": number})
            await store.user("u").put({"n": number})
            await store.shared("s").put({"n": number})
            await store.journal("j").append({"n": number})
        for number, store in enumerate(stores):
            thread = store.thread("t", user=f"owner {number}")
            assert (await thread.load()).messages == [{"n": number}]
            for document in (thread.vars, store.user("u"), store.shared("s")):
                got = await document.get()
                assert (got.value, got.version) == ({"n": number}, 1)
            assert (await store.journal("j").fold(total, 0)).state == number
        await stores[0].thread("t").delete()
        assert not (await stores[0].thread("t").load()).exists
        assert (await stores[1].thread("t").load()).exists


@case
async def listings_and_contexts_show_only_their_own(h: Harness) -> None:
    async with AsyncExitStack() as stack:
        stores = await applications(h, stack)
        for number, store in enumerate(stores[:-1]):
            await store.thread(f"t {number}", user="u").append({"n": number})
            await store.user("u").put({"n": number}, f"d {number}")
            assert await store.once(f"o {number}", lambda: 1, user="u") == 1
            try:
                async with store.workflow(f"w {number}", kind="refund", user="u"):
                    raise StoreUnavailable("left as it is")
            except StoreUnavailable:
                pass
        for number, store in enumerate(stores):
            mine = [f"{number}"] if store is not stores[-1] else []
            assert [info.id async for info in store.threads()] == [f"t {n}" for n in mine]
            assert [info.id async for info in store.threads("u")] == [f"t {n}" for n in mine]
            assert [info.id async for info in store.tasks()] == [f"o {n}" for n in mine]
            work = [info.id async for info in store.workflows(user="u", status="active")]
            assert work == [f"w {n}" for n in mine]
            context = await store.context(user="u", thread=f"t {number}")
            assert len(context.thread.messages) == len(mine)
            assert [*context.user] == [f"d {n}" for n in mine]
            assert [info.id for info in context.workflows] == work


@case
async def locks_tasks_and_workflows_do_not_meet(h: Harness) -> None:
    async with AsyncExitStack() as stack:
        stores = await applications(h, stack)
        for store in stores:  # each is held until the end of the case
            await stack.enter_async_context(store.lock("name", wait=0))
            await stack.enter_async_context(store.elect("name", wait=0))
            await stack.enter_async_context(store.thread("led").lead(wait=0))
        for number, store in enumerate(stores):
            assert await store.once("o", lambda n: n, number) == number
            async with store.workflow("w", kind=f"kind {number}") as run:
                assert await run.step("s", lambda n: n, number) == number
        for number, store in enumerate(stores):
            info = await store.workflow("w").info()
            assert info is not None
            assert (info.kind, info.status) == (f"kind {number}", "completed")


@case
async def work_drives_only_its_own(h: Harness) -> None:
    async with AsyncExitStack() as stack:
        stores = await applications(h, stack)
        driven: list[str] = []
        for store in stores:
            try:
                async with store.workflow("w", kind="refund", ttl=h.span):
                    raise StoreUnavailable("abandoned")
            except StoreUnavailable:
                pass
        await h.pass_time(h.span)

        async def handle(run: Any) -> None:
            driven.append(run.id)

        await stores[2].work({"refund": handle}, poll=0.001, until=rounds(3))
        assert driven == ["w"]
        for store in stores:
            info = await store.workflow("w").info()
            assert info is not None
            assert info.status == ("completed" if store is stores[2] else "active")


@case
async def a_feed_is_fed_by_its_own_namespace_alone(h: Harness) -> None:
    async with AsyncExitStack() as stack:
        first, *others = await applications(h, stack)
        await first.thread("t").append({"n": 0})
        async with aclosing(first.thread("t").changes()) as changes:
            for number in range(3):
                change = await anext(changes)
                assert (change.message, change.version) == ({"n": number}, number + 1)
                for other in others:
                    await other.thread("t").append({"not": "yours"})
                await first.thread("t").append({"n": number + 1})


@case
async def an_export_and_an_erasure_end_at_the_border(h: Harness) -> None:
    path = h.path("u.jsonl")
    async with AsyncExitStack() as stack:
        first, *others = await applications(h, stack)
        for store in (first, *others):
            mine = store is first
            await store.thread("t", user="u").append({"mine": mine})
            await store.user("u").put({"mine": mine})
        written = await first.user("u").export(path)
        assert (written.entities, written.messages, written.documents) == (2, 1, 1)
        assert "False" not in str(exported(path))
        await first.user("u").erase()
        assert (await first.user("u").get()).value == {}
        assert [info.id async for info in first.threads()] == []
        for store in others:
            assert (await store.user("u").get()).value == {"mine": False}
            assert (await store.thread("t", user="u").load()).messages == [{"mine": False}]
