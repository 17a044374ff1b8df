"""Several applications in one database, each with a namespace, all with the same names in it.

The namespaces themselves differ as little as they can. See also `namespaces`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from conformance.state.belongings import exported
from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import rounds
from stateward.errors import StoreUnavailable
from stateward.store import Store

ENDS = ("", ":", ":thread", "\x00", "%3A", "}", " ")


async def applications(h: StoreHarness, stack: AsyncExitStack) -> list[Store]:
    """A store in each of the namespaces."""
    stores = [h.store(namespace=h.namespace + end) for end in ENDS]
    return [await stack.enter_async_context(store) for store in stores]


@case
async def the_same_name_may_belong_to_somebody_else_elsewhere(h: StoreHarness) -> None:
    async with AsyncExitStack() as stack:
        stores = await applications(h, stack)
        for number, store in enumerate(stores):
            thread = store.thread("t", user=f"owner {number}")
            assert (await thread.append({"n": number}, key="k")).status == "stored"
        await stores[0].thread("t").delete()
        for number, store in enumerate(stores[1:], 1):
            window = await store.thread("t", user=f"owner {number}").load()
            assert (window.messages, window.version) == ([{"n": number}], 1)


@case
async def leases_of_all_of_them_can_be_held_at_once(h: StoreHarness) -> None:
    async with AsyncExitStack() as stack:
        for store in await applications(h, stack):  # until the end of the case
            await stack.enter_async_context(store.lock("name", wait=0))
            await stack.enter_async_context(store.elect("name", wait=0))
            await stack.enter_async_context(store.thread("name").lead(wait=0))


@case
async def work_drives_only_its_own(h: StoreHarness) -> None:
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
async def an_export_ends_at_the_border(h: StoreHarness) -> None:
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
