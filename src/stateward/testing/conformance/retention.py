"""Expiry and removal: an expired entity does not exist, and sweeps take bounded steps."""

from __future__ import annotations

from stateward.engine import GRACE
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Commit,
    Delete,
    Drop,
    Duplicate,
    Fence,
    Head,
    Log,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    Trim,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Harness, bodies, is_a, is_absent, lines

# --- expiry -----------------------------------------------------------------------------


@case
async def an_entity_lives_as_long_as_it_was_told_when_it_was_created(h: Harness) -> None:
    a = await h.replica()
    entity, permanent = h.entity("it"), h.entity("kept")
    applied = await a.apply(entity, Put("doc", "1"), retain=h.span)
    await a.apply(permanent, Put("doc", "1"))
    await a.apply(entity, Put("doc", "2"), retain=100 * h.span)
    head = await a.head(entity)
    assert head.retain == h.span
    assert head.expires is not None
    assert abs(head.expires - applied.at - h.span) < 0.001
    assert (await a.head(permanent)).expires is None
    await h.pass_time(h.span)
    assert not (await a.head(entity)).exists
    assert (await a.head(permanent)).exists


@case
async def what_has_expired_does_not_exist_for_any_operation(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    entity, restored = h.entity(), h.entity("restored")
    writes = (Append(bodies(1), key="k"), Put("doc", "1"), SetHead(status="s", due=1.0))
    for each in (entity, restored):
        await a.apply(each, *writes, owner="u", retain=h.span)
    assert await b.list_all(h.namespace, owner="u") == [entity, restored]
    await h.pass_time(h.span)
    assert is_absent(await b.everything(entity))
    assert is_absent(await b.fetch(entity, Log(last=5)))
    assert not await b.refuses(entity, "v")
    assert await b.list_all(h.namespace, owner="u") == []
    assert await b.list_all(h.namespace, kind="thing") == []
    assert await b.list_all(h.namespace, kind="thing", status="s") == []
    assert await b.list_all(h.namespace, kind="thing", due=True) == []
    assert (await b.listing(h.namespace, within=entity)).documents == ()
    await a.apply(entity, Drop(), checks=(Absent(),), owner="v")
    back = Restore(Head(True, "v", created=1.0, updated=1.0, commits=1))
    assert (await a.apply(restored, back, checks=(Absent(),), owner="v")).created


@case
async def after_expiry_a_new_life_begins_with_nothing(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    old = await a.apply(entity, Append(bodies(1, 2), key="k"), Put("doc", "1"), retain=h.span)
    await h.pass_time(h.span)
    op = h.new_id()
    applied = await b.apply(
        entity, Append(bodies(3), key="k"), op=op, owner="v", checks=(Absent(),)
    )
    assert (applied.version, applied.stamp, applied.created) == (1, op, True)
    fetched = await a.everything(entity)
    assert [(e.seq, e.body) for e in fetched.entries] == [(1, bodies(3)[0])]
    assert fetched.documents == {}
    assert (fetched.head.owner, fetched.head.retain, fetched.head.expires) == ("v", None, None)
    assert (await a.fetch(entity, Log(1, stamp=old.stamp))).reset


@case
async def an_op_that_was_applied_before_expiry_brings_nothing_back(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    first = await a.apply(entity, Append(bodies(1)), op=op, retain=h.span)
    await h.pass_time(h.span)
    assert is_a(await a.commit(entity, Append(bodies(1)), op=op), Duplicate).first == first
    assert not (await a.head(entity)).exists


@case
async def appending_leasing_and_setting_restart_the_retention(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), retain=h.span)
    granted = (await a.apply(entity, Acquire("n", h.span))).lease
    assert granted is not None
    for write in (
        Append(bodies(2)),
        Renew(granted.token, "n", h.span),
        Acquire("n", h.span),
        SetHead(retain=h.span),
    ):
        await h.pass_time(h.span * 0.6)
        applied = await a.apply(entity, write)
        assert not applied.created
        expires = (await a.head(entity)).expires
        assert expires is not None
        assert abs(expires - applied.at - h.span) < 0.001
    await h.pass_time(h.span * 0.6)
    assert (await a.fetch(entity, Log())).lines == lines(1, 2)


@case
async def other_writes_do_not_restart_the_retention(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    applied = await a.apply(
        entity, Append(bodies(1, 2, 3)), Put("old", "1"), Acquire("n", h.span), retain=h.span
    )
    assert applied.lease is not None
    expires = (await a.head(entity)).expires
    token = applied.lease.token
    await h.pass_time(h.span / 2)
    for write in (
        Put("doc", "1"),
        Delete("old"),
        Trim(1),
        Replace({2: "9"}),
        SetHead(status="s", due=5.0, owner="u"),
        Release(token, "n"),
    ):
        await a.apply(entity, write)
        assert (await a.head(entity)).expires == expires, write
    await h.pass_time(h.span / 2)
    assert not (await a.head(entity)).exists


@case
async def nothing_expires_in_the_hands_of_its_holder(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), retain=h.span)
    lease = (await a.apply(entity, Acquire("n", 3 * h.span))).lease
    assert lease is not None
    await h.pass_time(1.5 * h.span)
    await a.apply(entity, SetHead(retain=h.span))
    await h.pass_time(1.2 * h.span)
    assert (await b.head(entity)).exists
    await a.apply(entity, Append(bodies(2)), checks=(Fence(lease.token, "n"),))
    renewed = (await a.apply(entity, Renew(lease.token, "n", 5 * h.span))).lease
    assert renewed is not None
    assert (await b.head(entity)).expires == renewed.until
    await h.pass_time(3 * h.span)
    assert (await b.fetch(entity, Log())).lines == lines(1, 2)
    await h.pass_time(2 * h.span)
    assert not (await b.head(entity)).exists


@case
async def what_is_created_with_its_lease_lasts_as_long_as_that(h: Harness) -> None:
    a = await h.replica()
    take, append = Acquire("n", 3 * h.span), Append(bodies(1))
    ways = ((take,), (append, take), (take, append), (take, Put("doc", "1")), (SetHead(), take))
    for number, writes in enumerate(ways):
        entity = h.entity(f"{number}")
        lease = (await a.apply(entity, *writes, retain=h.span)).lease
        expires = (await a.head(entity)).expires
        assert lease is not None
        assert expires is not None
        assert abs(expires - lease.until) < 0.001, writes


@case
async def who_held_it_once_does_not_keep_it(h: Harness) -> None:
    a = await h.replica()
    dropped, released = h.entity("dropped"), h.entity("released")
    for entity in (dropped, released):
        await a.apply(entity, Append(bodies(1)), Acquire("n", 100 * h.span), retain=h.span)
    await a.apply(dropped, Drop())
    await a.apply(released, Release(None, "n"))
    for entity in (dropped, released):
        applied = await a.apply(entity, Append(bodies(2)), retain=h.span)
        expires = (await a.head(entity)).expires
        assert expires is not None
        assert abs(expires - applied.at - h.span) < 0.001


@case
async def what_has_expired_is_listed_for_those_who_ask_for_it(h: Harness) -> None:
    """An erasure must find it: it is still stored."""
    a = await h.replica()
    expired, living, dropped = h.entity("expired"), h.entity("living"), h.entity("dropped")
    for entity in (expired, living, dropped):
        writes = (Append(bodies(1)), SetHead(status="s"))
        await a.apply(entity, *writes, owner="u", retain=None if entity is living else h.span)
    await a.apply(dropped, Drop())
    await h.pass_time(h.span)
    assert await a.list_all(h.namespace, owner="u") == [living]
    for options in ({"owner": "u"}, {"kind": "thing"}):
        listed = await a.listing(h.namespace, expired=True, **options)
        assert [item.entity for item in listed.entities] == [expired, living]
        assert [item.head for item in listed.entities] == [
            await a.head(expired),
            await a.head(living),
        ]
    await a.apply(expired, Drop(), owner="u")
    assert await a.list_all(h.namespace, owner="u", expired=True) == [living]


@case
async def a_retention_can_be_changed_and_taken_away(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), retain=h.span)
    await a.apply(entity, SetHead(retain=3 * h.span))
    await h.pass_time(2 * h.span)
    head = await a.head(entity)
    assert head.exists
    assert head.retain == 3 * h.span
    await a.apply(entity, SetHead(retain=0))
    head = await a.head(entity)
    assert (head.retain, head.expires) == (None, None)
    await h.pass_time(2 * h.span)
    await a.apply(entity, Append(bodies(2)))
    head = await a.head(entity)
    assert (head.version, head.expires) == (2, None)
    await a.apply(entity, SetHead(retain=h.span))
    await h.pass_time(h.span)
    assert not (await a.head(entity)).exists


# --- sweeping ---------------------------------------------------------------------------


@clock_case
async def nothing_is_forgotten_before_the_grace_is_over(h: Harness) -> None:
    a = await h.replica()
    dropped, expired = h.entity("dropped"), h.entity("expired")
    ops = {dropped: h.new_id(), expired: h.new_id()}
    tokens = {}
    for entity, op in ops.items():
        applied = await a.apply(entity, Append(bodies(1)), Acquire("n", 1.0), op=op, retain=100.0)
        assert applied.lease is not None
        tokens[entity] = applied.lease.token
    await h.pass_time(50.0)
    await a.apply(expired, Append(bodies(2)))  # it expires later than it did at first
    await h.pass_time(100.0)
    await a.apply(dropped, Drop())
    await h.pass_time(GRACE - 1.0)
    await a.sweep_all()
    for entity, op in ops.items():
        is_a(await a.commit(entity, Append(bodies(1)), op=op), Duplicate)
        assert not (await a.head(entity)).exists
        lease = (await a.apply(entity, Acquire("n", 1.0))).lease
        assert lease is not None
        assert lease.token > tokens[entity]


@clock_case
async def what_is_gone_for_longer_than_the_grace_is_removed(h: Harness) -> None:
    a = await h.replica()
    await a.sweep_all()
    dropped, expired, living = h.entity("dropped"), h.entity("expired"), h.entity("living")
    await a.apply(dropped, Append(bodies(1)), Put("doc", "1"))
    await a.apply(dropped, Drop())
    await a.apply(expired, Append(bodies(1)), Put("doc", "1"), retain=100.0)
    await a.apply(living, Append(bodies(1)), Put("doc", "1"), retain=10 * GRACE)
    await h.pass_time(GRACE + 101.0)
    steps = await a.sweep_all()
    assert sum(step.entities for step in steps) == 2
    assert sum(step.rows for step in steps) >= 2
    assert (await a.fetch(living, Log(), documents=("doc",))).lines == lines(1)
    assert (await a.apply(dropped, Append(bodies(2)))).version == 1
    assert (await a.apply(expired, Append(bodies(2)))).version == 1


@clock_case
async def sweeping_goes_in_bounded_steps_to_its_end(h: Harness) -> None:
    a = await h.replica()
    await a.sweep_all()
    for number in range(4):
        puts = [Put(f"doc {n}", "1") for n in range(10)]
        await a.apply(h.entity(str(number)), Append(bodies(*range(25))), *puts, retain=100.0)
    await h.pass_time(GRACE + 101.0)
    steps = await a.sweep_all(limit=10)
    assert len(steps) > 4
    assert all(step.rows <= 20 for step in steps), "about the limit, not a multiple of it"
    assert sum(step.entities for step in steps) == 4
    assert (await a.sweep(limit=10)) == type(steps[0])()
    for number in range(4):
        assert not (await a.head(h.entity(str(number)))).exists


@clock_case
async def sweeping_says_that_there_is_more_while_there_is(h: Harness) -> None:
    """Also where what comes first has nothing to remove: bare heads, former lives without rows."""
    a = await h.replica()
    await a.sweep_all()
    bare = [h.entity(f"{number}") for number in range(6)]
    await a.execute(*[Commit(entity, h.new_id(), (SetHead(status="s"),)) for entity in bare])
    await a.apply(h.entity("full"), Append(bodies(1, 2)), Put("doc", "1"))
    for entity in (*bare, h.entity("full")):
        await a.apply(entity, Drop())
    await a.sweep_all(limit=2)
    left = await a.sweep(limit=1000)
    assert (left.entities, left.rows, left.more) == (0, 0, False)
    await h.pass_time(GRACE + 1.0)
    steps = await a.sweep_all(limit=2)
    assert sum(step.entities for step in steps) == 7
    left = await a.sweep(limit=1000)
    assert (left.entities, left.rows, left.more) == (0, 0, False)


@clock_case
async def an_entity_that_is_kept_alive_is_never_swept(h: Harness) -> None:
    a = await h.replica()
    entity, reborn = h.entity("it"), h.entity("reborn")
    await a.apply(entity, Append(bodies(0)), retain=2 * GRACE)
    await a.apply(reborn, Append(bodies(0)), retain=100.0)
    await a.apply(reborn, Drop())
    await a.apply(reborn, Append(bodies(9)), Put("doc", "9"))
    for number in range(1, 6):
        await h.pass_time(1.9 * GRACE)
        await a.apply(entity, Append(bodies(number)))
        await a.sweep_all()
        assert (await a.fetch(entity, Log())).lines == lines(*range(number + 1))
        fetched = await a.fetch(reborn, Log(), documents=("doc",))
        assert (fetched.lines, fetched.documents["doc"].json) == (lines(9), "9")
    await a.apply(entity, SetHead(retain=0))
    await h.pass_time(100 * GRACE)
    await a.sweep_all()
    assert (await a.head(entity)).version == 6


@case
async def sweeping_does_not_touch_what_lives(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for life in (1, 2, 3):
        await a.apply(entity, Append(bodies(life, life)), Put("doc", f"{life}"))
        before = await a.everything(entity)
        await a.sweep_all(limit=1)
        assert await a.everything(entity) == before
        if life < 3:
            await a.apply(entity, Drop())


@case
async def sweeping_leaves_a_later_life_whole(h: Harness) -> None:
    """The sweep removes rows of earlier lives alone, whichever life has more entries."""
    a = await h.replica()
    for old, new in ((2, 20), (20, 2)):
        entity = h.entity(f"{old} {new}")
        for _ in range(3):
            await a.apply(entity, Append(bodies(*range(old)), key="k"), Put("doc", "1"))
            await a.apply(entity, Drop())
        added = Append(bodies(*range(new)), key="k")
        await a.apply(entity, added, Put("doc", "2"), Put("other", "3"))
        before = await a.everything(entity)
        for limit in (1, 1000):
            await a.sweep_all(limit)
            assert await a.everything(entity) == before
        assert is_a(await a.commit(entity, added), Duplicate).first.version == new
