"""Leases: one holder at a time, and a token that only grows."""

from __future__ import annotations

from stateward.engine import GRACE
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    CommitsAt,
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
    SetHead,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Caller, Harness, bodies, hidden, is_a


async def take(a: Caller, entity: Entity, nonce: str, ttl: float, holder: str = "") -> Lease:
    """Acquire the lease, which must be free."""
    lease = (await a.apply(entity, Acquire(nonce, ttl, holder))).lease
    assert lease is not None
    assert lease.nonce == nonce
    return lease


async def is_fenced(a: Caller, entity: Entity, lease: Lease) -> bool:
    """Whether a write under this lease is refused."""
    fence = Fence(lease.token, lease.nonce)
    outcome = await a.commit(entity, Put("guarded", "1"), checks=(fence,))
    assert isinstance(outcome, Applied | Fenced)
    return isinstance(outcome, Fenced)


# --- taking and holding -----------------------------------------------------------------


@case
async def a_free_lease_is_granted(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    applied = await a.apply(entity, Acquire("n", h.span, "replica 1"))
    lease = applied.lease
    assert lease is not None
    assert (lease.nonce, lease.holder) == ("n", "replica 1")
    assert lease.token > 0
    assert lease.granted == applied.at
    assert abs(lease.until - lease.granted - h.span) < 0.001
    head = await b.head(entity)
    assert head.exists
    assert head.lease == hidden(lease)


@case
async def a_held_lease_is_refused_to_everybody_else(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = await take(a, entity, "mine", h.span, "same name")
    head = await a.head(entity)
    held = is_a(await b.commit(entity, Acquire("theirs", 5 * h.span, "same name")), Held)
    assert 0 < held.remaining <= h.span
    assert held.head == head
    assert head.lease == hidden(lease), "a nonce is shown to its holder alone"
    assert (await b.head(entity)).lease == hidden(lease)


@case
async def the_same_nonce_gets_the_same_lease_again_for_longer(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "n", h.span)
    await h.pass_time(h.span / 2)
    second = await take(b, entity, "n", h.span)
    assert second.token == first.token
    assert second.until > first.until
    await h.pass_time(h.span * 0.75)
    is_a(await a.commit(entity, Acquire("theirs", h.span)), Held)
    assert not await is_fenced(a, entity, first)


@case
async def a_lease_ends_when_its_time_is_up(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    await h.pass_time(h.span)
    second = await take(b, entity, "second", h.span)
    assert second.token > first.token
    assert second.granted >= first.until
    is_a(await a.commit(entity, Acquire("first", h.span)), Held)


@case
async def leases_of_two_entities_are_apart(h: Harness) -> None:
    a = await h.replica()
    one, two = h.entity("1"), h.entity("2")
    lease = await take(a, one, "n", h.span)
    other = await take(a, two, "other", h.span)
    is_a(await a.commit(two, Put("doc", "1"), checks=(Fence(lease.token, "n"),)), Fenced)
    assert not await is_fenced(a, one, lease)
    assert not await is_fenced(a, two, other)


@case
async def a_lease_and_what_it_guards_are_taken_in_one_commit(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    applied = await a.apply(
        entity, SetHead(status="running"), Acquire("n", h.span), Append(bodies(1))
    )
    assert applied.lease is not None
    writes = (SetHead(status="stolen"), Acquire("other", h.span), Append(bodies(2)))
    is_a(await b.commit(entity, *writes), Held)
    head = await b.head(entity)
    assert (head.status, head.version, head.lease) == ("running", 1, hidden(applied.lease))


@case
async def a_repeated_acquire_answers_with_the_first_lease(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    first = await a.apply(entity, Acquire("n", h.span), op=op)
    assert first.lease is not None
    await a.apply(entity, Release(first.lease.token, "n"))
    other = await take(a, entity, "other", h.span)
    again = is_a(await a.commit(entity, Acquire("n", h.span), op=op), Duplicate)
    assert again.first.lease == first.lease
    assert again.head.lease == hidden(other), "and whose it is by now"


@case
async def an_op_that_was_refused_and_then_used_up_takes_no_lease_when_it_arrives_late(
    h: Harness,
) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    op = h.new_id()
    refused = is_a(await b.commit(entity, Acquire("late", h.span), op=op), Held)
    unchanged = CommitsAt(refused.head.commits)
    used_up = is_a(await b.commit(entity, SetHead(), checks=(unchanged,), op=op), Applied)
    assert used_up.lease is None
    await a.apply(entity, Release(lease.token, "n"))
    late = is_a(await b.commit(entity, Acquire("late", h.span), op=op), Duplicate)
    assert late.first.lease is None
    assert (await a.head(entity)).lease is None
    await take(a, entity, "another", h.span)


# --- renewing and giving back -----------------------------------------------------------


@case
async def renewing_extends_to_a_full_time(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    await h.pass_time(h.span / 2)
    applied = await a.apply(entity, Renew(lease.token, "n", h.span))
    renewed = applied.lease
    assert renewed is not None
    assert (renewed.token, renewed.nonce) == (lease.token, "n")
    assert abs(renewed.until - applied.at - h.span) < 0.001
    await h.pass_time(h.span * 0.75)
    is_a(await b.commit(entity, Acquire("other", h.span)), Held)
    await h.pass_time(h.span / 2)
    await take(b, entity, "other", h.span)


@case
async def a_lease_given_back_is_free_at_once(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    assert (await a.apply(entity, Release(first.token, "first"))).lease is None
    assert (await b.head(entity)).lease is None
    assert await is_fenced(a, entity, first)
    second = await take(b, entity, "second", h.span)
    assert second.token > first.token


@case
async def only_the_holder_renews_and_gives_back(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    head = await a.head(entity)
    for token, nonce in (
        (lease.token, "forged"),
        (lease.token + 1, "n"),
        (lease.token - 1, "n"),
        (0, "n"),
        (lease.token, ""),
    ):
        renewed = await a.commit(entity, Append(bodies(1)), Renew(token, nonce, 9 * h.span))
        released = await a.commit(entity, Append(bodies(1)), Release(token, nonce))
        assert renewed == released == Fenced(head)
    for nonce in ("forged", ""):
        assert await a.commit(entity, Release(None, nonce)) == Fenced(head)
    assert (head.lease, head.version) == (hidden(lease), 0)
    assert await a.head(entity) == head


@case
async def a_lease_whose_grant_was_never_heard_of_is_given_back_by_its_nonce(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    await a.apply(entity, Release(None, "n"))
    assert (await a.head(entity)).lease is None
    assert await is_fenced(a, entity, lease)
    is_a(await a.commit(entity, Release(None, "n")), Fenced)
    is_a(await a.commit(h.entity("never leased"), Release(None, "n")), Fenced)


@case
async def what_was_given_back_or_taken_over_is_not_renewed(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    await a.apply(entity, Release(first.token, "first"))
    assert (await a.head(entity)).lease is None
    for second in (None, await take(b, entity, "second", h.span)):
        renewed = is_a(await a.commit(entity, Renew(first.token, "first", h.span)), Fenced)
        released = is_a(await a.commit(entity, Release(first.token, "first")), Fenced)
        assert renewed == released
        assert second is None or renewed.head.lease == hidden(second)


@case
async def a_holder_who_comes_back_after_another_gets_a_new_token(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    await a.apply(entity, Release(first.token, "first"))
    again = await take(a, entity, "first", h.span)
    assert again.token > first.token
    assert await is_fenced(a, entity, first)
    assert not await is_fenced(a, entity, again)


# --- the token only grows ---------------------------------------------------------------


@case
async def a_token_grows_over_everything_that_ends_a_lease(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    leases = [await take(a, entity, "1", h.span)]
    await a.apply(entity, Release(leases[-1].token, "1"))
    leases.append(await take(b, entity, "2", h.span))
    await h.pass_time(h.span)
    leases.append(await take(a, entity, "3", h.span))
    await a.apply(entity, Drop())
    leases.append(await take(b, entity, "4", h.span))
    await b.apply(entity, Drop())
    await b.apply(entity, Put("doc", "1"))
    assert (await b.head(entity)).lease is None
    leases.append(await take(a, entity, "5", h.span))
    tokens = [lease.token for lease in leases]
    assert tokens == sorted(set(tokens))
    for old in leases[:-1]:
        assert await is_fenced(a, entity, old)
    assert not await is_fenced(a, entity, leases[-1])


@case
async def a_token_grows_over_an_entity_that_expired(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = (await a.apply(entity, Acquire("n", h.span / 2), retain=h.span)).lease
    assert first is not None
    await h.pass_time(h.span)
    assert (await a.head(entity)).lease is None
    assert await is_fenced(a, entity, first)
    is_a(await a.commit(entity, Renew(first.token, "n", h.span)), Fenced)
    is_a(await a.commit(entity, Release(None, "n")), Fenced)
    second = await take(a, entity, "n", h.span)
    assert second.token > first.token
    assert await is_fenced(a, entity, first)


@case
async def a_drop_ends_the_lease(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lease = await take(a, entity, "n", h.span)
    await a.apply(entity, Drop())
    is_a(await a.commit(entity, Renew(lease.token, "n", h.span)), Fenced)
    is_a(await a.commit(entity, Release(None, "n")), Fenced)
    await a.apply(entity, Put("doc", "1"))
    assert (await a.head(entity)).lease is None
    is_a(await a.commit(entity, Renew(lease.token, "n", h.span)), Fenced)
    is_a(await a.commit(entity, Release(None, "n")), Fenced)
    assert await is_fenced(a, entity, lease)


@clock_case
async def a_token_grows_over_what_was_swept(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await take(a, entity, "n", h.span)
    await a.apply(entity, Drop())
    await h.pass_time(GRACE + 1.0)
    await a.sweep_all()
    assert (await take(a, entity, "n", h.span)).token > first.token


# --- the clock --------------------------------------------------------------------------


@clock_case
async def a_clock_set_back_does_not_make_a_lease_last_for_hours(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    first = await take(a, entity, "first", h.span)
    h.step_back(3600.0)
    second = await take(b, entity, "second", h.span)
    assert second.token > first.token
    assert await is_fenced(a, entity, first)
    is_a(await a.commit(entity, Acquire("first", h.span)), Held)


@clock_case
async def a_lease_renewed_after_the_clock_was_set_back_is_held_for_its_full_time(
    h: Harness,
) -> None:
    a, b = await h.replica(), await h.replica()
    for id, again in (("renewed", False), ("acquired", True)):
        entity = h.entity(id)
        lease = await take(a, entity, "n", h.span)
        h.step_back(3600.0)
        if again:
            assert (await take(a, entity, "n", h.span)).token == lease.token
        else:
            await a.apply(entity, Renew(lease.token, "n", h.span))
        await h.pass_time(h.span / 2)
        is_a(await b.commit(entity, Acquire("other", h.span)), Held)
        await h.pass_time(h.span)
        assert (await take(b, entity, "other", h.span)).token > lease.token
