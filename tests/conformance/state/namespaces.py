"""Applications that share a store and do not see each other, whatever they call."""

from __future__ import annotations

from conformance.state.cases import case
from conformance.state.feeds import following
from conformance.state.harness import StoreHarness
from stateward.errors import InvalidInput
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
