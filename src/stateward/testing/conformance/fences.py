"""Fences: only the holder of a lease writes."""

from __future__ import annotations

from stateward.ops import Acquire, Append, Drop, Fence, Fenced, Held, Put, Release, Renew
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, hidden, is_a
from stateward.testing.conformance.leases import is_fenced, take


@case
async def a_fence_lets_only_the_holder_write(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    for forged in (
        Fence(lease.token, "forged"),
        Fence(lease.token, ""),
        Fence(lease.token + 1, "n"),
        Fence(lease.token - 1, "n"),
        Fence(0, ""),
        Fence(-1, "n"),
    ):
        refused = is_a(await b.commit(entity, Append(bodies(9)), checks=(forged,)), Fenced)
        assert refused.head.lease == hidden(lease)
    await a.apply(entity, Append(bodies(1)), checks=(Fence(lease.token, "n"),))
    assert (await b.head(entity)).version == 1


@case
async def a_fence_on_what_was_never_leased_is_refused(h: Harness) -> None:
    a = await h.replica()
    absent, bare = h.entity("absent"), h.entity("bare")
    await a.apply(bare, Put("doc", "1"))
    for entity in (absent, bare):
        for fence in (Fence(1, "n"), Fence(0, ""), Fence(0, "n")):
            is_a(await a.commit(entity, Put("doc", "2"), checks=(fence,)), Fenced)
    assert not (await a.head(absent)).exists
    assert (await a.everything(bare)).documents["doc"].json == "1"


@case
async def a_lease_that_ran_out_still_fences_for_its_holder_until_it_is_taken(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    await h.pass_time(2 * h.span)
    assert not await is_fenced(a, entity, first)
    second = await take(b, entity, "second", h.span)
    assert await is_fenced(a, entity, first)
    assert not await is_fenced(b, entity, second)


@case
async def a_lease_that_ran_out_and_was_not_taken_can_be_renewed(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    await h.pass_time(2 * h.span)
    renewed = (await a.apply(entity, Renew(lease.token, "n", h.span))).lease
    assert renewed is not None
    assert renewed.token == lease.token
    is_a(await b.commit(entity, Acquire("other", h.span)), Held)


@case
async def a_forged_fence_without_a_nonce_does_not_fit_a_lease_given_back(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    await a.apply(entity, Release(lease.token, "n"))
    forged = Fence(lease.token, "")
    is_a(await a.commit(entity, Put("doc", "1"), checks=(forged,)), Fenced)
    is_a(await a.commit(entity, Renew(lease.token, "", h.span)), Fenced)
    is_a(await a.commit(entity, Release(lease.token, "")), Fenced)
    is_a(await a.commit(entity, Release(None, "")), Fenced)
    await a.apply(entity, Drop())
    is_a(await a.commit(entity, Put("doc", "1"), checks=(forged,)), Fenced)
    await a.apply(entity, Put("doc", "1"))
    is_a(await a.commit(entity, Put("doc", "1"), checks=(forged,)), Fenced)
