"""Applications that share a store and do not see each other, whatever they call."""

from __future__ import annotations

import os

from conformance.state.cases import case
from conformance.state.feeds import following
from conformance.state.harness import StoreHarness
from stateward.errors import InvalidInput, LeaseHeld, StoreClosed
from stateward.store import Store
from stateward.testing.conformance.harness import raises


async def use(store: Store, mine: str) -> None:
    """Everything there is, under the same ids in each namespace."""
    await store.thread("t", user="u").append({"of": mine}, key="k")
    await store.thread("t", user="u").vars.put({"of": mine})
    await store.user("u").put({"of": mine})
    await store.shared("s").put({"of": mine})
    await store.journal("j").append({"of": mine})
    assert await store.once("task", lambda: mine) == mine
    async with store.workflow("w", kind="refund", user="u", input={"of": mine}) as run:
        assert await run.step("who", lambda: mine) == mine


async def check(store: Store, mine: str) -> None:
    """What is seen is one's own, by every way to see it."""
    its = {"of": mine}
    thread = store.thread("t", user="u")
    assert (await thread.load()).messages == [its]
    assert (await thread.append(its, key="k")).status == "duplicate"
    assert (await thread.vars.get()).value == its
    assert (await store.user("u").get()).value == its
    assert (await store.shared("s").get()).value == its
    context = await store.context(user="u", thread="t", last=5)
    assert context.thread.messages == [its]
    assert context.user["default"].value == its
    assert [change.message async for change in thread.changes(follow=False)] == [its]
    events = [change async for change in store.journal("j").changes(follow=False)]
    assert [change.message for change in events] == [its]
    assert [info.id async for info in store.threads(user="u")] == ["t"]
    assert [info.id async for info in store.workflows(kind="refund")] == ["w"]
    assert [info.id async for info in store.workflows(user="u")] == ["w"]
    assert [info.id async for info in store.tasks(status="completed")] == ["task"]
    assert await store.once("task", lambda: "another's") == mine


@case
async def every_call_and_every_listing_sees_its_own_namespace(h: StoreHarness) -> None:
    names = [h.namespace, h.namespace + ":", h.namespace + "%", h.namespace + "\x00"]
    for name in names:
        async with h.store(namespace=name) as store:
            assert [info.id async for info in store.threads(user="u")] == []
            assert [info.id async for info in store.workflows(kind="refund")] == []
            assert [info.id async for info in store.tasks()] == []
            await use(store, name)
    for name in names:
        async with h.store(namespace=name) as store:
            await check(store, name)


@case
async def a_lock_is_held_in_its_namespace_alone(h: StoreHarness) -> None:
    async with h.store() as store, h.store(namespace=h.new_id()) as elsewhere:
        async with store.thread("t").lead(ttl=20) as lease:
            async with store.lock("l", ttl=20), elsewhere.lock("l", ttl=20, wait=0):
                pass
            async with elsewhere.thread("t").lead(ttl=20, wait=0):
                pass
            with raises(InvalidInput):
                await elsewhere.thread("t").append({"n": 1}, fence=lease)
            await store.thread("t").append({"n": 1}, fence=lease)
        assert (await elsewhere.thread("t").load()).messages == []


@case
async def a_feed_hears_of_its_namespace_alone(h: StoreHarness) -> None:
    async with (
        h.store() as store,
        h.store(namespace=h.new_id()) as elsewhere,
        following(store.thread("t")) as feed,
    ):
        await elsewhere.thread("t").append({"of": "another"})
        await store.thread("t").append({"of": "mine"})
        assert (await anext(feed)).message == {"of": "mine"}
        await elsewhere.thread("t").append({"of": "another"})
        await store.thread("t").append({"of": "mine too"})
        change = await anext(feed)
        assert (change.message, change.version) == ({"of": "mine too"}, 2)


@case
async def an_erasure_and_a_sweep_leave_other_namespaces_alone(h: StoreHarness) -> None:
    other = h.new_id()
    async with h.store() as store, h.store(namespace=other) as elsewhere:
        await use(store, h.namespace)
        await use(elsewhere, other)
        await store.user("u").erase()
        await store.sweep()
        assert not (await store.thread("t").load()).exists
        assert [info.id async for info in store.threads(user="u")] == []
        await check(elsewhere, other)


@case
async def tenants_of_one_store_do_not_see_each_other(h: StoreHarness) -> None:
    async with h.store() as store:
        tenants = {name: store.within(name) for name in (h.new_id(), h.new_id())}
        tenants[h.namespace] = store
        for name, tenant in tenants.items():
            await use(tenant, name)
        for name, tenant in tenants.items():
            await check(tenant, name)
            async with h.store(namespace=name) as alone:
                await check(alone, name)
        receipt = await store.user("u").erase()
        assert receipt.removed["thread"] == 1
        for name, tenant in tenants.items():
            if tenant is not store:
                await check(tenant, name)
        assert (await store.thread("t", user="u").load()).messages == []


@case
async def a_tenant_costs_no_connection(h: StoreHarness) -> None:
    async with h.store() as store:
        await use(store.within(h.new_id()), "first")
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            tenant = store.within(h.new_id())
            await tenant.thread("t").append({"n": 1})
            assert (await tenant.thread("t").load()).version == 1
        # A heartbeat may have made one of its own meanwhile.
        assert len(os.listdir("/dev/fd")) < before + 10


@case
async def a_tenant_ends_with_its_store_and_not_before(h: StoreHarness) -> None:
    name = h.new_id()
    store = h.store()
    async with store.within(name) as tenant:
        await tenant.thread("t").append({"n": 1})
    assert (await tenant.thread("t").load()).version == 1
    await tenant.close()
    assert (await store.thread("t").load()).version == 0
    async with h.store(namespace=name) as other, tenant.lock("l", ttl=20):
        with raises(LeaseHeld):
            async with other.lock("l", ttl=20, wait=0):
                pass
        async with store.lock("l", ttl=20, wait=0):  # of the store's own namespace
            pass
    await store.close()
    with raises(StoreClosed):
        await tenant.thread("t").load()
    for wrong in ("", "x" * 513):
        with raises(InvalidInput):
            store.within(wrong)
