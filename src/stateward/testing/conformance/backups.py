"""The contract of reads for a backup: entities whole, all of them, and each at one moment."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.engine import GRACE, Snapshots
from stateward.ops import (
    Append,
    Drop,
    Entity,
    Entry,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Put,
    Replace,
    SetHead,
    Trim,
    digest_of,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a, is_absent

ODD = "a\x00\x01é😀"  # nothing that people choose is syntax


async def whole(a: Caller, entity: Entity, **log: Any) -> Fetched:
    return await a.fetch(entity, Log(whole=True, **log), all_documents=True)


async def eventful(a: Caller, entity: Entity) -> None:
    """Something of everything that an entity can have."""
    await a.apply(entity, Append(bodies(1, 2), key="trimmed"), owner=f"u{ODD}", retain=GRACE)
    await a.apply(entity, Append(bodies(3)))
    noted = Append(bodies(4, 5), key=f"k{ODD}", note='{"saw":[3]}')
    await a.apply(entity, noted, op=f"op{ODD}{a.world.new_id()}")
    await a.apply(entity, Append(bodies(6, 7), key="removed"))
    await a.apply(entity, Append(bodies(8, 9, 10)))
    await a.apply(entity, Put(f"doc{ODD}", '{"a": "\\u0000"}'), Put("plain", "1"))
    await a.apply(entity, Put("plain", "[2]"), Trim(3), Replace({5: '"edited"', 7: None, 8: None}))
    await a.apply(entity, SetHead(status=f"s{ODD}", label=f"l{ODD}", due=7.25))


@case
async def a_backup_reads_what_is_there_and_what_is_left_of_what_is_gone(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    one = await a.apply(entity, Append(bodies(1, 2), key="k"))
    two = await a.apply(entity, Append(bodies(3, 4)))
    three = await a.apply(entity, Append(bodies(5, 6), key="l"))
    four = await a.apply(entity, Append(bodies(7)))
    await a.apply(entity, Trim(3), Replace({6: None, 5: '"new"'}))
    backup = await whole(a, entity)
    assert backup.entries == (
        Entry(2, one.at, "", one.stamp, "k", digest_of(bodies(1, 2))),
        Entry(4, two.at, bodies(4)[0], two.stamp),
        Entry(5, three.at, '"new"', three.stamp),
        Entry(6, three.at, "", three.stamp, "l", digest_of(bodies(5, 6))),
        Entry(7, four.at, bodies(7)[0], four.stamp),
    )
    assert (backup.head.base, backup.head.base_stamp, backup.head.token) == (3, two.stamp, 0)
    assert (backup.count, backup.first, backup.lines, backup.truncated) == (5, 2, "", True)
    plain = await a.fetch(entity, Log(details=True))
    assert plain.head == replace(backup.head, base_stamp="")
    assert [e.digest for e in plain.entries] == [None] * 3


@case
async def a_backup_reads_page_by_page(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await eventful(a, entity)
    every = (await whole(a, entity)).entries
    assert [e.seq for e in every] == [2, 4, 5, 6, 7, 9, 10]
    for size in (1, 2, 3, 7, 8):
        entries: list[Entry] = []
        after = 0
        while page := (await whole(a, entity, after=after, first=size)).entries:
            assert len(page) <= size
            entries += page
            after = page[-1].seq
        assert tuple(entries) == every
    assert (await whole(a, entity, after=4, upto=7)).entries == every[2:5]
    assert (await whole(a, entity, after=3, stamp="other")).reset
    assert await a.refuses(entity, "somebody else")
    assert is_absent(await whole(a, h.entity("none")))


@case
async def all_there_is_comes_by_kind_and_id(h: Harness) -> None:
    a = await h.replica()
    every = [
        h.entity(id, kind) for kind in ("a", "a\x00", "thread", "é") for id in ("1", "a\x00", "ß")
    ]
    for number, entity in enumerate(every):
        owner = (None, "u", "v")[number % 3]
        await a.apply(entity, Append(bodies(number)), owner=owner)
    await a.apply(Entity(h.namespace + "x", "a", "other"), Append(bodies(1)))
    wanted = sorted(every, key=lambda entity: (entity.kind.encode(), entity.id.encode()))
    for limit in (1, 4, 100):
        assert await a.list_all(h.namespace, limit=limit) == wanted
        assert await a.list_all(h.namespace, limit=limit, reverse=True) == wanted[::-1]
    page = is_a((await a.execute(List(h.namespace, limit=100)))[0], Listed)
    assert [item.head for item in page.entities] == [await a.head(entity) for entity in wanted]
    await a.apply(wanted[0], Drop())
    assert await a.list_all(h.namespace) == wanted[1:]
    assert await a.list_all(h.namespace, expired=True) == wanted[1:]


@case
async def all_there_is_can_include_what_has_expired(h: Harness) -> None:
    a = await h.replica()
    await a.apply(h.entity("stays", "b"), Append(bodies(1)))
    await a.apply(h.entity("goes", "a"), Append(bodies(1)), retain=h.span)
    await h.pass_time(h.span)
    assert [entity.id for entity in await a.list_all(h.namespace)] == ["stays"]
    assert [entity.id for entity in await a.list_all(h.namespace, expired=True)] == [
        "goes",
        "stays",
    ]


@case
async def a_snapshot_shows_one_moment_whatever_is_written_meanwhile(h: Harness) -> None:
    """Run only for an engine with snapshots: others show each entity as it is when it is read."""
    a, b = await h.replica(), await h.replica()
    if not a.engine.capabilities.snapshots:
        return
    untouched, changed, dropped, late = (
        h.entity(id) for id in ("kept", "changed", "dropped", "late")
    )
    for entity in (untouched, changed, dropped):
        await eventful(a, entity)
    every = [changed, dropped, untouched]
    wanted = [await whole(a, entity) for entity in every]
    engine: Snapshots = a.engine  # type: ignore[assignment]
    async with engine.snapshot() as reader:
        for replica in (a, b):
            await replica.apply(changed, Append(bodies(11)), Put("plain", "3"), Trim(9))
            await replica.apply(late, Append(bodies(1)))
        await b.apply(dropped, Drop())
        listed = is_a((await reader.execute((List(h.namespace),)))[0], Listed)
        assert [item.entity for item in listed.entities] == every
        assert [item.head.version for item in listed.entities] == [10, 10, 10]
        reads = [Fetch(entity, log=Log(whole=True), all_documents=True) for entity in every]
        assert await reader.execute(reads) == wanted
        assert await reader.execute(reads[:1]) == wanted[:1]
        absent = (await reader.execute((Fetch(late),)))[0]
        assert is_absent(is_a(absent, Fetched))
    assert (await a.head(changed)).version == 12
