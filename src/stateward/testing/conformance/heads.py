"""An entity's head and documents are the same, whichever way they are read.

Engines read heads in several ways: with the newest entries, with documents, in pages, beside a
refusal. Here every field has a value of its own, so that none can pass for another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from msgspec.structs import replace

from stateward.ops import (
    Acquire,
    Append,
    Check,
    Conflict,
    Drop,
    Duplicate,
    Entity,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    Log,
    LogAt,
    Put,
    Replace,
    SetHead,
    Trim,
    Value,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Caller, Harness, bodies, differing, is_a

OP = "the op of the last append"


async def fill(h: Harness, a: Caller, entity: Entity) -> None:
    """Make an entity in its fourth life, with something in each of its fields."""
    for _ in range(3):
        await a.apply(entity, Put("doc", "0"), Append(bodies(0)))
        await h.pass_time(0.01)
        await a.apply(entity, Drop())
    await h.pass_time(0.01)
    puts = (Put("doc", "1"), Put("other", "2"))
    await a.apply(entity, Append(bodies(*range(10))), owner="u", retain=50 * h.span)
    await h.pass_time(0.01)
    await a.apply(entity, Append(bodies(*range(10, 20))), *puts, op=OP)
    await a.apply(entity, Trim(7))
    await a.apply(entity, Put("doc", "3"))
    await h.pass_time(0.01)
    await a.apply(entity, Acquire("n", h.span, "its holder"))
    await h.pass_time(0.01)
    await a.apply(entity, SetHead(status="s", label="l", due=5.0))


def fetches_of(entity: Entity) -> Iterator[Fetch]:
    """Yield fetches of all kinds, of which none is refused."""
    logs = (
        None,
        *(Log(), Log(last=3), Log(last=100), Log(first=3), Log(after=9), Log(after=9, upto=12)),
        *(Log(details=True), Log(last=3, details=True), Log(stamp=OP, after=20), Log(stamp="no")),
        *(Log(after=20), Log(last=0), Log(after=6), Log(after=7), Log(after=7, details=True)),
    )
    for log in logs:
        for owner in (None, "u"):
            yield Fetch(entity, owner, log)
            yield Fetch(entity, owner, log, ("doc",))
            yield Fetch(entity, owner, log, ("other", "doc", "never"))
            yield Fetch(entity, owner, log, all_documents=True)
            yield Fetch(entity, owner, log, all_documents=True, known={"doc": (2, "another")})
    for after in (0, 6, 7):
        yield Fetch(entity, log=Log(after, whole=True))
    yield Fetch(entity, log=Log(whole=True), all_documents=True)


async def listed(
    h: Harness, a: Caller, entity: Entity
) -> AsyncIterator[tuple[Head, dict[str, Value]]]:
    """Yield the entity's head and documents as every kind of listing shows them."""
    by_kind = {"kind": "thing"}
    ways: list[dict[str, Any]] = [
        *({}, by_kind, {"owner": "u"}, by_kind | {"owner": "u"}, by_kind | {"status": "s"}),
        *(by_kind | {"owner": "u", "status": "s"}, by_kind | {"label": "l"}),
        *(by_kind | {"prefix": entity.id}, by_kind | {"recent": True}, by_kind | {"due": True}),
        *(by_kind | {"recent": True, "owner": "u"}, by_kind | {"due": True, "label": "l"}),
        *(by_kind | {"due": True, "owner": "u"}, by_kind | {"expired": True}),
    ]
    for way in ways:
        for reverse in (False, True):
            for names in ((), ("doc", "other", "never")):
                page = await a.listing(h.namespace, **way, reverse=reverse, documents=names)
                (shown,) = [each for each in page.entities if each.entity == entity]
                assert shown.documents.keys() == {*names} - {"never"}, way
                yield shown.head, dict(shown.documents)


async def refusals(a: Caller, entity: Entity) -> AsyncIterator[tuple[Head, dict[str, Value]]]:
    """Yield what is shown of an entity beside every kind of refusal."""
    names = ("doc", "other", "never")
    for checks in ((LogAt(77),), (LogAt(20), LogAt(77))):
        for write in (Append(bodies(1)), Append(bodies(1), key="k"), Put("doc", "4")):
            conflict = is_a(await a.commit(entity, write, checks=checks, reading=names), Conflict)
            yield conflict.head, dict(conflict.values)
    forged: tuple[Check, ...] = (Fence(1, "forged"),)
    for write in (Append(bodies(1)), Put("doc", "4")):
        fenced = is_a(await a.commit(entity, write, checks=forged, reading=names), Fenced)
        yield fenced.head, dict(fenced.values)
    held = is_a(await a.commit(entity, Acquire("another's", 1.0), reading=names), Held)
    yield held.head, dict(held.values)
    for again in (Append(bodies(1)), Put("doc", "4")):
        repeat = is_a(await a.commit(entity, again, op=OP, reading=names), Duplicate)
        yield repeat.head, dict(repeat.values)


@case
async def every_way_to_read_shows_the_same_head_and_documents(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    plain, thinned = h.entity("plain"), h.entity("thinned")
    for entity in (plain, thinned):
        await fill(h, a, entity)
    await a.apply(thinned, Replace({11: None, 13: None}))
    for entity in (plain, thinned):
        head = await b.head(entity)
        counts = (head.version, head.base, head.live, head.commits)
        assert counts == ((20, 7, 13, 12) if entity == plain else (20, 7, 11, 13))
        assert (head.owner, head.status, head.label, head.due) == ("u", "s", "l", 5.0)
        assert head.created < head.updated
        assert 0 < head.dropped < head.created
        assert head.stamp == OP
        assert head.retain == 50 * h.span
        documents = (await b.fetch(entity, all_documents=True)).documents
        assert {name: value.version for name, value in documents.items()} == {"doc": 2, "other": 1}
        for fetch in fetches_of(entity):
            fetched = is_a((await b.execute(fetch))[0], Fetched)
            assert replace(fetched.head, base_stamp="", token=0) == head, fetch
            names = documents if fetch.all_documents else fetch.documents
            expected = {name: documents[name] for name in names if name in documents}
            assert fetched.documents == expected, fetch
            log = fetch.log
            cut = log is not None and not fetched.reset and log.after < head.base
            assert fetched.truncated is cut, fetch
        async for shown in listed(h, b, entity):
            assert shown == (head, documents if shown[1] else {})
        async for shown in refusals(b, entity):
            assert shown == (head, documents)
        within = await b.listing(h.namespace, within=entity)
        assert dict(within.documents) == documents


@case
async def several_are_read_together_as_each_is_alone(h: Harness) -> None:
    """Two entities by the same kind of fetch, and many kinds in one batch."""
    a, b = await h.replica(), await h.replica()
    plain, thinned, never = h.entity("plain"), h.entity("thinned"), h.entity("never")
    for entity in (plain, thinned):
        await fill(h, a, entity)
    await a.apply(thinned, Replace({11: None, 13: None}), Put("doc", "5"))
    alone = [
        [(fetch, (await b.execute(fetch))[0]) for fetch in fetches_of(entity)]
        for entity in (plain, thinned, never)
    ]
    for same in zip(*alone, strict=True):
        fetches, outcomes = zip(*same, strict=True)
        assert not differing(await b.execute(*fetches), outcomes), fetches[0]
    for of_one in alone:
        fetches, outcomes = zip(*of_one, strict=True)
        assert not differing(await b.execute(*fetches), outcomes)
