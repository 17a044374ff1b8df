"""Listings by the latest touch: newest first by the minute, and each page to the moment.

And how many there are of what: both are what a list of conversations shows.
"""

from __future__ import annotations

from stateward.codec import encode
from stateward.engine import MINUTE
from stateward.ops import (
    Acquire,
    Append,
    Commit,
    Conflict,
    Drop,
    Entity,
    Head,
    List,
    Listed,
    LogAt,
    Put,
    Release,
    Restore,
    SetHead,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a
from stateward.testing.conformance.listing import UNRULY, ids_of

LONG_AGO = 1_000_000 * MINUTE


def touched(
    entity: Entity, at: float, owner: str = "", status: str = "", label: str = ""
) -> Commit:
    """A commit after which an entity was touched then, and never since."""
    head = Head(True, owner, status, label, created=at, updated=at, commits=1)
    return Commit(entity, f"{entity.id} {at}", (Restore(head),))


async def recent(a: Caller, h: Harness, **options: object) -> list[str]:
    return await ids_of(a, h, kind="thing", recent=True, **options)


@case
async def what_was_touched_last_comes_first(h: Harness) -> None:
    a = await h.replica()
    ages = dict(zip(UNRULY, range(len(UNRULY)), strict=True))
    await a.execute(
        *[touched(h.entity(id), LONG_AGO - age * MINUTE, "u") for id, age in ages.items()]
    )
    await a.apply(h.entity("other", "kind"), Append(bodies(1)), owner="u")
    for limit in (1, 4, len(ages), 100):
        for owner in (None, "u"):
            assert await recent(a, h, limit=limit, owner=owner) == list(ages)
            backwards = await recent(a, h, limit=limit, owner=owner, reverse=True)
            assert backwards == list(ages)[::-1]
    assert await recent(a, h, owner="v") == []
    await a.apply(h.entity("é"), Append(bodies(1)))
    await a.apply(h.entity("%a"), Append(bodies(1)), owner="u")
    rest = [id for id in ages if id not in ("é", "%a")]
    newest = await recent(a, h, limit=100)
    assert (set(newest[:2]), newest[2:]) == ({"é", "%a"}, rest)


@case
async def pages_go_by_the_minute_and_then_by_id_and_each_is_in_the_exact_order(h: Harness) -> None:
    a = await h.replica()
    seconds = {"a": 10.0, "b": 50.0, "c": 20.5, "d": 20.25, "e": 0.0, "f": 59.75}
    await a.execute(
        *[touched(h.entity(id), LONG_AGO + after, "u") for id, after in seconds.items()],
        touched(h.entity("before"), LONG_AGO - 0.25, "u"),
        touched(h.entity("after"), LONG_AGO + 60.0, "u"),
    )
    for owner in (None, "u"):
        exactly = ["after", "f", "b", "c", "d", "a", "e", "before"]
        assert await recent(a, h, limit=100, owner=owner) == exactly
        assert await recent(a, h, limit=100, owner=owner, reverse=True) == exactly[::-1]
        by_pages = ["after", "f", *("d", "e"), *("b", "c"), *("a", "before")]
        assert await recent(a, h, limit=2, owner=owner) == by_pages
        upwards = ["before", "a", *("c", "b"), *("e", "d"), *("f", "after")]
        assert await recent(a, h, limit=2, owner=owner, reverse=True) == upwards
        assert await recent(a, h, limit=1, owner=owner) == [
            *("after", "f", "e", "d", "c", "b", "a", "before")
        ]


@case
async def a_page_goes_on_from_what_has_moved_since(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    await a.execute(*[touched(h.entity(id), LONG_AGO, "u") for id in "abcdefgh"])
    for options in ({}, {"owner": "u"}):
        page = await a.listing(h.namespace, kind="thing", recent=True, limit=3, **options)
        assert [item.entity.id for item in page.entities] == ["h", "g", "f"]
        await b.execute(touched(h.entity("f"), LONG_AGO + 100 * MINUTE, "u"))
        page = await a.listing(
            h.namespace, kind="thing", recent=True, limit=9, after=page.next, **options
        )
        assert [item.entity.id for item in page.entities] == ["e", "d", "c", "b", "a"]
        await b.execute(touched(h.entity("f"), LONG_AGO, "u"))


@case
async def every_commit_touches_and_a_refused_one_does_not(h: Harness) -> None:
    a = await h.replica()
    ids = ("appended", "put", "leased", "refused", "headed", "never")
    for owner in ("", "u"):
        await a.execute(*[touched(h.entity(id), LONG_AGO, owner) for id in ids])
        await a.apply(h.entity("appended"), Append(bodies(1)), owner=owner)
        await a.apply(h.entity("put"), Put("doc", "1"))
        lease = (await a.apply(h.entity("leased"), Acquire("n", h.span))).lease
        assert lease is not None
        await a.apply(h.entity("leased"), Release(lease.token, "n"))
        await a.apply(h.entity("headed"), SetHead(status="s"))
        refused = await a.commit(h.entity("refused"), Append(bodies(1)), checks=(LogAt(7),))
        is_a(refused, Conflict)
        for options in ({}, {"owner": owner}):
            threads = await recent(a, h, limit=100, **options)
            assert set(threads[:4]) == {"appended", "put", "leased", "headed"}, threads
            assert threads[4:] == ["refused", "never"]


@clock_case
async def an_entity_moves_up_with_every_minute(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    for owner in ("", "u"):
        one, two = h.entity(f"one {owner}"), h.entity(f"two {owner}")
        await a.execute(touched(one, LONG_AGO, owner), touched(two, LONG_AGO, owner))
        for number in range(4):
            claimed = owner if number < 2 else None
            for caller, entity in ((a, one), (b, two), (b, one), (b, two), (a, one)):
                await caller.apply(entity, Append(bodies(number)), owner=claimed)
                for options in ({}, {"owner": owner}):
                    assert (await recent(a, h, limit=9, **options))[0] == entity.id
                await h.pass_time(MINUTE / 2)


@case
async def what_is_recent_can_be_chosen_from(h: Harness) -> None:
    a = await h.replica()
    states = {"a1": "on", "a2": "off", "a3": "on", "b1": "on", "b2": "", "b3": "off"}
    for age, (id, status) in enumerate(states.items()):
        owner, label = "" if "2" in id else "u", "x" if "1" in id else ""
        entity = touched(h.entity(id), LONG_AGO - age * MINUTE, owner, status=status, label=label)
        await a.execute(entity)
    for limit in (1, 2, 100):
        assert await recent(a, h, limit=limit, status="on") == ["a1", "a3", "b1"]
        assert await recent(a, h, limit=limit, status="on", owner="u") == ["a1", "a3", "b1"]
        assert await recent(a, h, limit=limit, status="") == ["b2"]
        assert await recent(a, h, limit=limit, owner="") == ["a2", "b2"]
        assert await recent(a, h, limit=limit, owner="u") == ["a1", "a3", "b1", "b3"]
        assert await recent(a, h, limit=limit, label="x") == ["a1", "b1"]
        assert await recent(a, h, limit=limit, label="x", owner="u", reverse=True) == ["b1", "a1"]
        assert await recent(a, h, limit=limit, prefix="b") == ["b1", "b2", "b3"]
        assert await recent(a, h, limit=limit, prefix="b", owner="u") == ["b1", "b3"]
    await a.apply(h.entity("a2"), Put("doc", "1"), Put("other", "2"))
    page = await a.listing(h.namespace, kind="thing", recent=True, documents=("doc",), limit=2)
    assert [(f.entity.id, {n: v.json for n, v in f.documents.items()}) for f in page.entities] == [
        ("a2", {"doc": "1"}),
        ("a1", {}),
    ]
    assert page.entities[0].head == await a.head(h.entity("a2"))


@case
async def what_is_gone_is_not_recent_and_what_moved_is_with_its_new_owner(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for owner in ("u", "v", ""):
        await a.apply(entity, Put("doc", "1"), owner=owner)
        assert await recent(a, h) == await recent(a, h, owner=owner) == ["it"]
        await a.apply(entity, Drop())
        assert await recent(a, h) == await recent(a, h, owner=owner) == []
    await a.apply(entity, Put("doc", "1"))
    for before, after in (("", "u"), ("u", "v"), ("v", "")):
        await a.apply(entity, SetHead(owner=after))
        assert await recent(a, h, owner=after) == ["it"]
        assert await recent(a, h, owner=before) == []
    await a.apply(entity, SetHead(retain=h.span))
    await h.pass_time(h.span)
    assert await recent(a, h) == await recent(a, h, owner="") == []
    await a.apply(entity, Put("doc", "1"), owner="w")
    assert await recent(a, h) == await recent(a, h, owner="w") == ["it"]
    assert await recent(a, h, owner="") == []


# --- how many ---------------------------------------------------------------------------


@case
async def entities_are_counted_by_kind(h: Harness) -> None:
    a = await h.replica()
    kinds = ("a", "a\x00", "é", "a", "a", "b")
    for number, kind in enumerate(kinds):
        owner = "u" if number % 2 else ""
        await a.apply(h.entity(str(number), kind), Put("doc", "1"), owner=owner)

    async def tally(**options: str) -> dict[str, int]:
        page = await a.listing(h.namespace, tally="kind", **options)
        assert (page.entities, page.next) == ((), None)
        return dict(page.tally)

    assert await tally() == {"a": 3, "a\x00": 1, "b": 1, "é": 1}
    assert list(await tally()) == ["a", "a\x00", "b", "é"]
    assert await tally(owner="u") == {"a": 1, "a\x00": 1, "b": 1}
    assert await tally(owner="") == {"a": 2, "é": 1}
    assert await tally(owner="v") == {}
    assert await tally(kind="a") == {"a": 3}
    assert await tally(kind="a", owner="u") == {"a": 1}
    await a.apply(h.entity("0", "a"), Drop())
    await a.apply(h.entity("3", "a"), SetHead(owner="v"))
    assert await tally() == {"a": 2, "a\x00": 1, "b": 1, "é": 1}
    assert await tally(owner="u") == {"a\x00": 1, "b": 1}
    assert await tally(owner="v") == {"a": 1}


@case
async def owners_are_listed_with_how_much_they_have(h: Harness) -> None:
    a = await h.replica()
    await a.apply(h.entity("nobody's"), Put("doc", "1"))
    for owner in UNRULY:
        await a.apply(h.entity(f"one of {owner}"), Put("doc", "1"), owner=owner)
    await a.apply(h.entity("another", "kind"), Put("doc", "1"), owner="b")

    async def tally(limit: int, **options: str) -> dict[str, int]:
        owners: dict[str, int] = {}
        after: str | None = None
        while True:
            page = await a.listing(h.namespace, tally="owner", limit=limit, after=after, **options)
            assert page.entities == ()
            assert len(page.tally) <= limit
            assert not owners.keys() & page.tally.keys()
            owners |= page.tally
            if page.next is None:
                return owners
            after = page.next

    every = {owner: 2 if owner == "b" else 1 for owner in sorted(UNRULY, key=str.encode)}
    for limit in (3, 100):
        assert list((await tally(limit)).items()) == list(every.items())
        assert await tally(limit, kind="thing") == dict.fromkeys(UNRULY, 1)
        assert await tally(limit, kind="kind") == {"b": 1}
        assert await tally(limit, owner="é") == {"é": 1}
    await a.apply(h.entity("one of é"), Drop())
    await a.apply(h.entity("one of Z"), SetHead(owner="new"))
    await a.apply(h.entity("one of a"), SetHead(owner=""))
    left = await tally(100)
    assert left == {**{o: n for o, n in every.items() if o not in ("é", "Z", "a")}, "new": 1}


@case
async def a_listing_upwards_begins_at_any_minute_and_tells_the_time(h: Harness) -> None:
    a = await h.replica()
    await a.execute(*[touched(h.entity(f"{n}"), LONG_AGO + n * MINUTE / 2, "u") for n in range(8)])
    first = int(LONG_AGO // MINUTE)
    for minute in range(5):
        mark = encode([first + minute, "thing", ""], "a cursor")
        for owner in (None, "u"):
            op = List(h.namespace, "thing", owner, recent=True, reverse=True, after=mark, limit=3)
            page = is_a((await a.execute(op))[0], Listed)
            numbers = [f"{n}" for n in range(2 * minute, 8)]
            assert [item.entity.id for item in page.entities] == numbers[:3]
            applied = await a.apply(h.entity("now", "other"), Append(bodies(1)))
            assert abs(applied.at - page.settled) < MINUTE, "by the engine's clock"
    (none,) = await a.execute(List(h.namespace, "none", recent=True, reverse=True))
    assert is_a(none, Listed).settled > LONG_AGO, "also where there is none"
