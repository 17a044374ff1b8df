"""Locks and leaders over the contract: a lock is an entity that is nothing but a lease."""

from __future__ import annotations

import asyncio

import pytest

from contract.walk import DAY, Walk, is_a, text
from stateward.engine import GRACE
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fence,
    Fenced,
    Held,
    Lease,
    Put,
    Release,
    Renew,
    Trim,
    Write,
)

LOCK = Entity("shop", "lock", "inventory")
TTL = 30.0
EVERYTHING = 1 << 62


def acquire(nonce: str, *, op: str, lock: Entity = LOCK, ttl: float = TTL) -> Commit:
    """Take the lock. It is kept for a day after its last use, then it is swept."""
    return Commit(lock, op, (Acquire(nonce, ttl, holder=f"worker {nonce}"),), retain=DAY)


def renew(lease: Lease, *, op: str, lock: Entity = LOCK) -> Commit:
    return Commit(lock, op, (Renew(lease.token, lease.nonce, TTL),))


def release(lease: Lease, *, op: str, lock: Entity = LOCK) -> Commit:
    return Commit(lock, op, (Release(lease.token, lease.nonce),))


def guarded(lease: Lease, *writes: Write, op: str, lock: Entity = LOCK) -> Commit:
    """A write that only the holder may make."""
    return Commit(lock, op, writes, (Fence(lease.token, lease.nonce),))


def lease_of(outcome: object) -> Lease:
    return is_a(is_a(outcome, Applied).lease, Lease)


async def test_a_lock_is_one_commit_and_the_second_caller_learns_who_has_it(walk: Walk) -> None:
    mine = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(10)
    held = is_a(await walk.b.one(acquire("b", op="2")), Held)
    assert held.remaining == pytest.approx(20)
    theirs = is_a(held.head.lease, Lease)
    assert (theirs.holder, theirs.token) == ("worker a", mine.token)
    assert theirs.nonce == "", "whoever knew it could pass for the holder"
    assert (walk.a.trips, walk.b.trips) == (1, 1)


async def test_the_same_nonce_gets_the_same_lease_again_for_a_full_ttl(walk: Walk) -> None:
    first = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(20)
    again = lease_of(await walk.a.one(acquire("a", op="2")))
    assert (again.token, again.nonce) == (first.token, first.nonce)
    assert again.until == first.until + 20


async def test_a_lost_reply_of_an_acquire_is_asked_for_again(walk: Walk) -> None:
    lost = acquire("a", op="1")
    await walk.a.one(lost)
    repeated = is_a(await walk.a.one(lost), Duplicate)
    assert repeated.own
    lease = lease_of(repeated.first)
    is_a(await walk.a.one(release(lease, op="2")), Applied)
    lease_of(await walk.b.one(acquire("b", op="3")))


async def test_renewal_keeps_a_lock_past_its_ttl(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    for beat in range(6):
        walk.advance(TTL / 3)
        lease = lease_of(await walk.a.one(renew(lease, op=f"beat {beat}")))
        is_a(await walk.b.one(acquire("b", op=f"try {beat}")), Held)
    walk.advance(TTL)
    lease_of(await walk.b.one(acquire("b", op="2")))


async def test_a_lock_that_is_renewed_outlives_its_retention(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    for beat in range(25):
        walk.advance(DAY / 24)
        lease = lease_of(await walk.a.one(renew(lease, op=f"beat {beat}")))


async def test_after_expiry_another_takes_over_and_the_old_token_is_refused(walk: Walk) -> None:
    old = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(TTL)
    new = lease_of(await walk.b.one(acquire("b", op="2")))
    assert new.token > old.token
    fenced = is_a(await walk.a.one(guarded(old, Put("stock", "1"), op="3")), Fenced)
    assert is_a(fenced.head.lease, Lease).token == new.token
    is_a(await walk.a.one(renew(old, op="4")), Fenced)
    is_a(await walk.a.one(release(old, op="5")), Fenced)
    is_a(await walk.b.one(guarded(new, Put("stock", "2"), op="6")), Applied)
    assert (await walk.b.fetch(LOCK, None, "stock")).documents["stock"].json == "2"


async def test_an_expired_lease_that_nobody_took_still_fences_for_its_holder(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(3 * TTL)
    is_a(await walk.a.one(guarded(lease, Put("stock", "1"), op="2")), Applied)


async def test_a_release_frees_at_once_and_only_once(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    giving_back = release(lease, op="2")
    is_a(await walk.a.one(giving_back), Applied)
    assert is_a(await walk.a.one(giving_back), Duplicate).own  # its reply was lost
    is_a(await walk.a.one(release(lease, op="3")), Fenced)
    is_a(await walk.a.one(guarded(lease, Put("stock", "1"), op="4")), Fenced)
    assert lease_of(await walk.b.one(acquire("b", op="5"))).token > lease.token


async def test_only_the_entitys_own_lease_is_a_fence(walk: Walk) -> None:
    """Token and nonce are compared with the lease of the entity that is written, no other.

    Two leases granted in the same microsecond share a token, so the nonce tells them apart: it
    is drawn for each acquire, not once for a process.
    """
    thread = Entity("shop", "thread", "s-1")
    elsewhere = lease_of(await walk.a.one(acquire("a", op="1")))
    said = Append((text({"role": "assistant"}),))
    is_a(await walk.a.one(guarded(elsewhere, said, op="2", lock=thread)), Fenced)
    assert not (await walk.a.fetch(thread)).head.exists

    leading = lease_of(await walk.a.one(acquire("a2", op="3", lock=thread)))
    is_a(await walk.a.one(guarded(elsewhere, said, op="4", lock=thread)), Fenced)
    is_a(await walk.a.one(guarded(leading, said, op="5", lock=thread)), Applied)


async def test_a_lease_and_a_documents_version_are_checked_in_one_commit(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    is_a(await walk.b.one(Commit(LOCK, "2", (Put("stock", "7"),))), Applied)  # holds no lease
    fence = Fence(lease.token, lease.nonce)
    stale = Commit(LOCK, "3", (Put("stock", "6"),), (fence, DocumentAt("stock", 0)))
    conflict = is_a(await walk.a.one(stale), Conflict)
    assert conflict.values["stock"].json == "7"
    fresh = Commit(LOCK, "4", (Put("stock", "6"),), (DocumentAt("stock", 1), fence))
    assert is_a(await walk.a.one(fresh), Applied).documents == {"stock": 2}
    walk.advance(TTL)
    lease_of(await walk.b.one(acquire("b", op="5")))
    both_wrong = Commit(LOCK, "6", (Put("stock", "5"),), (DocumentAt("stock", 1), fence))
    is_a(await walk.a.one(both_wrong), Fenced)  # whatever stands first in the commit


async def test_tokens_grow_over_a_drop_even_if_the_clock_steps_back(walk: Walk) -> None:
    old = lease_of(await walk.a.one(acquire("a", op="1")))
    is_a(await walk.b.one(Commit(LOCK, "2", (Drop(),))), Applied)
    is_a(await walk.a.one(guarded(old, Put("stock", "1"), op="3")), Fenced)
    assert not (await walk.a.fetch(LOCK)).head.exists
    walk.advance(-3600)
    new = lease_of(await walk.b.one(acquire("b", op="4")))
    assert new.token == old.token + 1
    is_a(await walk.a.one(guarded(old, Put("stock", "1"), op="5")), Fenced)


async def test_a_lock_nobody_uses_is_swept_and_its_tokens_still_grow(walk: Walk) -> None:
    old = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(DAY + GRACE)
    assert (await walk.a.sweep()).entities == 1
    assert lease_of(await walk.b.one(acquire("b", op="2"))).token > old.token


async def test_a_clock_that_steps_back_does_not_block_for_an_hour(walk: Walk) -> None:
    old = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(-3600)
    new = lease_of(await walk.b.one(acquire("b", op="2")))
    assert new.token > old.token
    is_a(await walk.a.one(guarded(old, Put("stock", "1"), op="3")), Fenced)


async def test_a_release_that_appends_wakes_who_waits(walk: Walk) -> None:
    """`wait` watches logs, and a release changes none: so it appends an entry, and trims it."""
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    held = is_a(await walk.b.one(acquire("b", op="2")), Held)
    waiting = asyncio.create_task(walk.b.engine.wait({LOCK: held.head.version}, 60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    writes = (Release(lease.token, lease.nonce), Append(("{}",)), Trim(EVERYTHING))
    is_a(await walk.a.one(Commit(LOCK, "3", writes)), Applied)
    async with asyncio.timeout(10):
        await waiting
    lease_of(await walk.b.one(acquire("b", op="4")))
    assert (await walk.b.fetch(LOCK)).head.live == 0  # nothing piles up


# --- what the contract does not carry yet ---------------------------------------------------


async def test_a_retention_shorter_than_the_ttl_does_not_end_the_lease(walk: Walk) -> None:
    short = Commit(LOCK, "1", (Acquire("a", TTL),), retain=TTL / 2)
    lease = lease_of(await walk.a.one(short))
    walk.advance(TTL * 0.6)
    is_a(await walk.b.one(acquire("b", op="2")), Held)
    is_a(await walk.a.one(renew(lease, op="3")), Applied)


async def test_a_renewal_after_the_clock_stepped_back_holds_again(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(acquire("a", op="1")))
    walk.advance(-3600)
    lease_of(await walk.a.one(renew(lease, op="2")))
    is_a(await walk.b.one(acquire("b", op="3")), Held)
