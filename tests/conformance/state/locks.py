"""Locks, leaders and the lead of a conversation: one holder at a time, and stale ones refused."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, severable
from stateward.engine import GRACE
from stateward.errors import InvalidInput, LeaseHeld, LeaseLost, NotYoursError
from stateward.ops import Acquire, Entity, Fenced, Lease, Release
from stateward.state.locks import RETAIN, Lock
from stateward.store import Store
from stateward.testing.conformance.harness import Caller, is_a, raises

RENEWED = 1.5  # a ttl that is renewed within the patience of a test

TTLS: tuple[Any, ...] = (0, 0.01, -1, 86_401, float("nan"), float("inf"), True, "30", None)


async def is_held(store: Store, name: str) -> bool:
    """Whether somebody holds this lock."""
    try:
        async with store.lock(name, wait=0):
            return False
    except LeaseHeld:
        return True


def every_lock(store: Store, **options: Any) -> list[Lock]:
    """One of each kind."""
    return [
        store.lock("name", **options),
        store.elect("name", **options),
        store.thread("name").lead(**options),
    ]


# --- one holder at a time ---------------------------------------------------------------


@case
async def a_lock_is_held_by_one_at_a_time(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for mine, theirs in zip(every_lock(store), every_lock(other, wait=0), strict=True):
            async with mine as lease:
                lease.check()
                with raises(LeaseHeld) as caught:
                    await theirs.__aenter__()
                assert 0 < caught.error.remaining <= 30
                assert caught.error.holder == h.world.name()
            async with theirs as taken:
                assert taken.token > lease.token


@case
async def a_waiter_gets_the_lock_when_it_is_given_back(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        order = []

        async def wait_for_it() -> int:
            async with other.lock("it") as lease:
                order.append("waiter")
                return lease.token

        async with store.lock("it") as lease:
            waiter = Beside(wait_for_it)
            await h.world.pause(0.1)
            order.append("holder")
        assert await waiter.result() > lease.token
        assert order == ["holder", "waiter"]


@case
async def a_waiter_gives_up_when_its_time_is_over(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other, store.lock("it"):
        begun = h.world.monotonic()
        with raises(LeaseHeld):
            await other.lock("it", wait=0.1).__aenter__()
        assert 0.1 <= h.world.monotonic() - begun < 10


@case
async def waiters_get_the_lock_one_after_the_other(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        inside: list[int] = []
        most = []

        async def enter(replica: Store, number: int) -> int:
            async with replica.lock("it", ttl=60) as lease:
                inside.append(number)
                most.append(len(inside))
                await h.world.pause(0.001)
                inside.remove(number)
                return lease.token

        waiters = [Beside(enter, (store, other)[n % 2], n) for n in range(6)]
        tokens = [await waiter.result() for waiter in waiters]
        assert most == [1] * 6
        assert len(set(tokens)) == 6


@case
async def locks_of_two_names_or_kinds_are_apart(h: StoreHarness) -> None:
    async with (
        h.store() as store,
        store.lock("a", wait=0),
        store.lock("b", wait=0),
        store.elect("a", wait=0),
        store.thread("a").lead(wait=0),
        h.store(namespace=h.new_id()) as elsewhere,
        elsewhere.lock("a", wait=0),
    ):
        assert await is_held(store, "a")


@case
async def a_lock_is_given_back_when_its_block_fails(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        with raises(ZeroDivisionError):
            async with store.lock("it"):
                raise ZeroDivisionError("the block's own error comes through")
        assert not await is_held(other, "it")


@case
async def a_lock_is_entered_once_at_a_time_and_again_later(h: StoreHarness) -> None:
    async with h.store() as store:
        lock = store.lock("it")
        async with lock as first:
            with raises(InvalidInput):
                await lock.__aenter__()
        async with lock as second:
            assert second.token > first.token


# --- time -------------------------------------------------------------------------------


@case
async def a_holder_that_vanished_is_succeeded_after_its_ttl(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        async with store.lock("it", ttl=h.span) as lease:
            store.faults.unavailable()
        assert await is_held(other, "it")
        await h.pass_time(h.span)
        async with other.lock("it", wait=5) as next_lease:
            assert next_lease.token > lease.token


@case
async def a_lease_is_renewed_beyond_its_ttl(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store, h.store() as other:
        async with store.lock("it", ttl=RENEWED) as lease:
            first = (await a.head(h.entity("it", "lock"))).lease
            assert first is not None
            renewed = first
            for _ in range(2):
                await h.pass_time(0.6 * RENEWED)
                before = renewed
                while renewed.until <= before.until:
                    await h.world.pause(0.01)
                    head = await a.head(h.entity("it", "lock"))
                    assert head.lease is not None
                    renewed = head.lease
            await h.pass_time(0.3 * RENEWED)  # now the first grant would be over
            assert (renewed.token, renewed.nonce) == (first.token, first.nonce)
            assert await is_held(other, "it")
            lease.check()
        assert not await is_held(other, "it")


@clock_case
async def a_lock_that_nobody_holds_is_forgotten_and_its_tokens_still_grow(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        tokens = []
        for passes in (1, RETAIN, RETAIN + GRACE):
            async with store.lock("it") as lease:
                tokens.append(lease.token)
            assert (await a.head(h.entity("it", "lock"))).exists
            await h.pass_time(passes)
            await a.sweep_all()
        assert not (await a.head(h.entity("it", "lock"))).exists
        async with store.lock("it") as lease:
            tokens.append(lease.token)
        assert tokens == sorted(set(tokens))


@case
async def an_impossible_ttl_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        for ttl in TTLS:
            with raises(InvalidInput):
                every_lock(store, ttl=ttl)
            with raises(InvalidInput):
                store.lock("name", ttl=ttl, on=store.thread("name"))
            with raises(InvalidInput):
                store.workflow("name", kind="k", ttl=ttl)
            with raises(InvalidInput):
                await store.once("name", len, "xyz", ttl=ttl)
        assert [info async for info in store.tasks()] == []


@case
async def a_lock_needs_a_name(h: StoreHarness) -> None:
    async with h.store() as store:
        for name in ("", "x" * 513, 7):
            with raises(InvalidInput):
                store.lock(name)  # type: ignore[arg-type]
            with raises(InvalidInput):
                store.elect(name)  # type: ignore[arg-type]
            with raises(InvalidInput):
                store.lock(name, on=store.thread("t"))  # type: ignore[arg-type]


# --- the lead of a conversation, and its fence ------------------------------------------


@case
async def the_leader_of_a_thread_writes_with_its_fence(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        async with thread.lead() as lease:
            assert (await thread.append({"n": 1}, fence=lease)).version == 1
            assert (await thread.append({"n": 2})).version == 2  # a fence is a choice
        with raises(LeaseLost):
            await thread.append({"n": 3}, fence=lease)
        async with store.lock("any name", on=thread) as again:
            assert again.token > lease.token
            with raises(LeaseHeld):
                await store.thread("t", user="u").lead(wait=0).__aenter__()
            assert (await thread.append({"n": 3}, fence=again)).version == 3
        assert (await thread.load()).messages == [{"n": 1}, {"n": 2}, {"n": 3}]


@case
async def a_superseded_leader_is_refused_and_its_successor_is_not_disturbed(
    h: StoreHarness,
) -> None:
    a = await h.replica()
    it = h.entity("t", "thread")
    async with h.store() as store:
        thread = store.thread("t")
        stale = await paused(a, it, h.span)
        await thread.append({"by": "leader"}, fence=stale)
        await h.pass_time(h.span)
        async with thread.lead() as lease:
            assert lease.token > stale.token
            await thread.append({"by": "successor"}, fence=lease)
            with raises(LeaseLost):
                await thread.append({"by": "leader"}, fence=stale)
            assert (await thread.append({"by": "anybody"})).version == 3
            is_a(await a.commit(it, Release(stale.token, stale.nonce)), Fenced)
            with raises(LeaseHeld):
                await thread.lead(wait=0).__aenter__()
            await thread.append({"by": "successor"}, fence=lease)
        with raises(LeaseLost):
            await thread.append({"by": "leader"}, fence=stale)
        said = [message["by"] for message in (await thread.load()).messages]
        assert said == ["leader", "successor", "anybody", "successor"]


async def paused(a: Caller, it: Entity, ttl: float) -> Any:
    """The lease of a holder that does not run, so that nobody renews it."""
    return (await a.apply(it, Acquire("paused", ttl, "a paused process"))).lease


@case
async def an_expired_lease_that_nobody_took_over_still_guards(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        lease = await paused(a, h.entity("t", "thread"), h.span)
        await h.pass_time(h.span)
        assert (await store.thread("t").append({"n": 1}, fence=lease)).version == 1


@case
async def a_forged_token_or_nonce_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        async with thread.lead() as lease:
            forged = [
                Lease(lease.token + 1, lease.nonce, "", 0, 9e9),
                Lease(lease.token - 1, lease.nonce, "", 0, 9e9),
                Lease(0, lease.nonce, "", 0, 9e9),
                Lease(lease.token, "", "", 0, 9e9),
                Lease(lease.token, lease.nonce + "x", "", 0, 9e9),
                Lease(lease.token, h.new_id(), "", 0, 9e9),
            ]
            for fence in forged:
                with raises(LeaseLost):
                    await thread.append({"n": 1}, fence=fence)
            assert (await thread.load()).version == 0
            assert (await thread.append({"n": 1}, fence=lease)).version == 1


@case
async def only_the_lease_of_the_written_thread_can_guard_it(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, another = store.thread("t"), store.thread("another")
        async with store.lock("t") as lock, store.elect("t") as leader, another.lead() as lead:
            for fence in (lock, leader, lead):
                with raises(InvalidInput) as caught:
                    await thread.append({"n": 1}, fence=fence)
                assert "only a thread's own lease" in str(caught.error)
        wrong: tuple[Any, ...] = (object(), "token", 7, True, lock.token, thread)
        for fence in wrong:
            with raises(InvalidInput):
                await thread.append({"n": 1}, fence=fence)
        assert not (await thread.load()).exists


@case
async def the_lead_of_anothers_thread_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t", user="u").append({"n": 1})
        with raises(NotYoursError):
            await store.thread("t", user="v").lead().__aenter__()
        async with store.thread("new", user="u").lead() as lease:
            with raises(NotYoursError):
                await store.thread("new", user="v").append({"n": 1}, fence=lease)
            await store.thread("new", user="u").append({"n": 1}, fence=lease)


@case
async def what_a_dead_process_was_granted_is_free_after_its_ttl(h: StoreHarness) -> None:
    a = await h.replica()
    await paused(a, h.entity("it", "lock"), h.span)
    async with h.store() as store:
        with raises(LeaseHeld) as caught:
            await store.lock("it", wait=0).__aenter__()
        assert caught.error.holder == "a paused process"
        assert 0 < caught.error.remaining <= h.span
        await h.pass_time(h.span)
        assert not await is_held(store, "it")
