"""Checks of a commit, and their order: the first check that does not hold is the answer."""

from __future__ import annotations

from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fenced,
    Held,
    KeyReused,
    LogAt,
    NotDroppedSince,
    NotYours,
    Put,
    Release,
    SetHead,
    StatusIn,
    Unheld,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, is_a

# --- the order of checks ----------------------------------------------------------------


@case
async def the_first_refusal_in_the_order_of_the_contract_answers(h: Harness) -> None:
    """One commit against which everything speaks; then its faults are mended one by one."""
    a, entity = await h.replica(), h.entity()
    first = h.new_id()
    granted = await a.apply(
        entity, Append(bodies(1), key="k"), Acquire("mine", h.span), op=first, owner="u"
    )
    assert granted.lease is not None
    good, bad = Fence(granted.lease.token, "mine"), Fence(granted.lease.token, "forged")
    reused, fresh = Append(bodies(2), key="k"), Append(bodies(2), key="other")
    take = Acquire("theirs", h.span)

    async def outcome_of(
        op: str, owner: str, append: Append, checks: tuple[Check, ...], *more: Acquire
    ) -> object:
        return await a.commit(entity, append, *more, op=op, owner=owner, checks=checks)

    wrong = (LogAt(9), StatusIn(("never",)), bad)
    is_a(await outcome_of(first, "v", reused, wrong, take), NotYours)
    duplicate = is_a(await outcome_of(first, "u", reused, wrong, take), Duplicate)
    assert duplicate.own
    assert duplicate.first == granted
    assert is_a(await outcome_of(h.new_id(), "u", reused, wrong, take), KeyReused).key == "k"
    is_a(await outcome_of(h.new_id(), "u", fresh, wrong, take), Fenced)
    mended: tuple[Check, ...] = (LogAt(9), StatusIn(("never",)), good, Unheld())
    is_a(await outcome_of(h.new_id(), "u", fresh, mended, take), Held)
    mended = (LogAt(9), StatusIn(("never",)), good)
    refused = is_a(await outcome_of(h.new_id(), "u", fresh, mended, take), Conflict)
    assert refused.failed == LogAt(9)
    mended = (LogAt(1), StatusIn(("never",)), good)
    refused = is_a(await outcome_of(h.new_id(), "u", fresh, mended, take), Conflict)
    assert refused.failed == StatusIn(("never",))
    mended = (LogAt(1), StatusIn(("",)), good)
    is_a(await outcome_of(h.new_id(), "u", fresh, mended, take), Held)
    assert (await a.head(entity)).version == 1
    is_a(await outcome_of(h.new_id(), "u", fresh, mended), Applied)


@case
async def a_key_that_is_known_answers_before_a_fence_and_a_version(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await a.apply(entity, Append(bodies(1), key="k"))
    checks = (Fence(1, "never granted"), LogAt(0))
    again = is_a(await a.commit(entity, Append(bodies(1), key="k"), checks=checks), Duplicate)
    assert again.first.version == first.version


@case
async def checks_are_asked_in_the_order_given(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), Put("doc", "1"), SetHead(status="s"))
    wrong: list[Check] = [LogAt(5), DocumentAt("doc", 5), Absent(), StatusIn(("t",))]
    for turn in range(len(wrong)):
        checks = (*wrong[turn:], *wrong[:turn])
        conflict = is_a(await a.commit(entity, Put("doc", "2"), checks=checks), Conflict)
        assert conflict.failed == checks[0]
        true = (LogAt(1), DocumentAt("doc", 1), StatusIn(("r", "s")))
        conflict = is_a(await a.commit(entity, Put("doc", "2"), checks=true + checks), Conflict)
        assert conflict.failed == checks[0]


# --- what is checked --------------------------------------------------------------------


@case
async def a_log_is_at_its_number_and_with_a_stamp_at_its_history(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    old = await a.apply(entity, Append(bodies(1)))
    await a.apply(entity, Drop())
    new = await a.apply(entity, Append(bodies(1)))
    assert old.version == new.version == 1
    glued = (LogAt(1, old.stamp),)
    assert (
        is_a(await a.commit(entity, Append(bodies(2)), checks=glued), Conflict).failed == glued[0]
    )
    await a.apply(entity, Append(bodies(2)), checks=(LogAt(1, new.stamp),))
    await a.apply(entity, Append(bodies(3)), checks=(LogAt(2),))
    for version in (0, 2, 4):
        is_a(await a.commit(entity, Append(bodies(9)), checks=(LogAt(version),)), Conflict)
    assert (await a.head(entity)).version == 3


@case
async def an_absent_log_is_at_version_0(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    is_a(await a.commit(entity, Append(bodies(1)), checks=(LogAt(1),)), Conflict)
    assert (await a.apply(entity, Append(bodies(1)), checks=(LogAt(0),))).version == 1
    is_a(await a.commit(entity, Append(bodies(1)), checks=(LogAt(0),)), Conflict)


@case
async def a_document_is_at_its_number_and_with_a_stamp_the_very_same(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("doc", "1"), checks=(DocumentAt("doc", 0),))
    is_a(await a.commit(entity, Put("doc", "2"), checks=(DocumentAt("doc", 0),)), Conflict)
    old, new = h.new_id(), h.new_id()
    await a.apply(entity, Put("doc", "2"), op=old, checks=(DocumentAt("doc", 1),))
    await a.apply(entity, Delete("doc"))
    await a.apply(entity, Put("doc", "1"), checks=(DocumentAt("doc", 0),))
    await a.apply(entity, Put("doc", "2"), op=new)
    is_a(await a.commit(entity, Put("doc", "3"), checks=(DocumentAt("doc", 2, old),)), Conflict)
    await a.apply(entity, Put("doc", "3"), checks=(DocumentAt("doc", 2, new),))
    await a.apply(entity, Put("doc", "4"), checks=(DocumentAt("doc", 3),))


@case
async def commits_are_counted_and_the_count_can_be_checked(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    assert (await a.head(entity)).commits == 0
    await a.apply(entity, Put("doc", "1"), op=op, checks=(CommitsAt(0),))
    await a.apply(entity, Delete("none"), checks=(CommitsAt(1),))
    assert (await a.head(entity)).commits == 2
    is_a(await a.commit(entity, Put("doc", "1"), op=op), Duplicate)
    for count in (0, 1, 3):
        checks = (CommitsAt(count),)
        conflict = is_a(await a.commit(entity, Put("doc", "2"), checks=checks), Conflict)
        assert conflict.failed == checks[0]
        assert conflict.head.commits == 2
    await a.apply(entity, Drop(), checks=(CommitsAt(2),))
    assert (await a.head(entity)).commits == 3, "over all lives"
    await a.apply(entity, Put("doc", "3"), checks=(CommitsAt(3),))
    assert (await a.head(entity)).commits == 4


@case
async def a_delayed_write_notices_that_its_entity_was_dropped_meanwhile(h: Harness) -> None:
    a = await h.replica()
    entity, never = h.entity("it"), h.entity("never")
    written = (await a.apply(entity, Append(bodies(1)))).at
    late = (NotDroppedSince(written),)
    await a.apply(entity, Append(bodies(2)), checks=late)
    await a.apply(never, Append(bodies(1)), checks=late)
    await h.pass_time(0.01)
    dropped = (await a.apply(entity, Drop())).at
    assert (await a.head(entity)).dropped == dropped
    await h.pass_time(0.01)
    for checks in (late, (NotDroppedSince(dropped),)):
        conflict = is_a(await a.commit(entity, Append(bodies(3)), checks=checks), Conflict)
        assert conflict.failed == checks[0]
        assert conflict.head.dropped == dropped
    assert not (await a.head(entity)).exists
    again = await a.apply(entity, Append(bodies(4)), checks=(NotDroppedSince(dropped + 0.005),))
    is_a(await a.commit(entity, Append(bodies(5)), checks=late), Conflict)
    assert (await a.head(entity)).dropped == dropped, "also in the next life"
    assert again.version == 1


@case
async def absent_holds_for_what_never_was_and_what_was_dropped(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    assert (await a.apply(entity, Put("doc", "1"), checks=(Absent(),))).created
    conflict = is_a(await a.commit(entity, Put("doc", "2"), checks=(Absent(),)), Conflict)
    assert conflict.head.exists
    await a.apply(entity, Drop())
    assert (await a.apply(entity, Put("doc", "3"), checks=(Absent(),))).created


@case
async def a_status_is_one_of_those_named(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    is_a(await a.commit(entity, SetHead(status="on"), checks=(StatusIn(("on",)),)), Conflict)
    await a.apply(entity, SetHead(status="on"), checks=(StatusIn(("", "off")),))
    conflict = is_a(await a.commit(entity, SetHead(status="off"), checks=(StatusIn(()),)), Conflict)
    assert conflict.head.status == "on"
    await a.apply(entity, SetHead(status="off"), checks=(StatusIn(("off", "on")),))
    is_a(await a.commit(entity, SetHead(status="x"), checks=(StatusIn(("on", "OFF")),)), Conflict)


@case
async def unheld_holds_while_nobody_holds_the_lease(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    put, checks = Put("doc", "1"), (Unheld(),)
    await a.apply(entity, put, checks=checks)
    lease = (await a.apply(entity, Acquire("n", h.span, "me"), checks=checks)).lease
    assert lease is not None
    head = await a.head(entity)
    for writes in ((put,), (Acquire("n", h.span),), (Acquire("m", h.span),), (Drop(),)):
        held = is_a(await b.commit(entity, *writes, checks=checks, reading=("doc",)), Held)
        assert 0 < held.remaining <= h.span
        assert held.head == head
        assert held.values["doc"].version == 1
    fenced = (Fence(lease.token, "n"), Unheld())
    is_a(await a.commit(entity, put, checks=fenced), Held)
    await a.apply(entity, Release(lease.token, "n"))
    await b.apply(entity, put, checks=checks)
    await a.apply(entity, Acquire("n", h.span))
    await h.pass_time(h.span)
    await b.apply(entity, put, checks=checks)
    await a.apply(entity, Acquire("n", h.span))
    await a.apply(entity, Drop())
    await b.apply(entity, put, checks=checks)
