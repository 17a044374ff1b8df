"""What a backup reads, and a restore makes of it: the same entity, down to keys and stamps."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.engine import GRACE, KEY_SECONDS, Snapshots
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    CommitsAt,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    List,
    Listed,
    Log,
    LogAt,
    NotDroppedSince,
    NotYours,
    Put,
    Release,
    Replace,
    Restore,
    SetHead,
    Trim,
    Unheld,
    Value,
    digest_of,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a, is_absent, raises

ODD = "a\x00\x01é😀"  # nothing that people choose is syntax


async def whole(a: Caller, entity: Entity, **log: Any) -> Fetched:
    return await a.fetch(entity, Log(whole=True, **log), all_documents=True)


async def put_back(a: Caller, entity: Entity, seen: Fetched, **options: Any) -> Applied:
    """All of an entity in one commit."""
    return await a.apply(entity, Restore(seen.head, seen.entries, seen.documents), **options)


def alike(one: Fetched, two: Fetched) -> bool:
    """The same but for the life, whose number is the engine's own, and the lease."""
    heads = [replace(seen.head, life=0, lease=None) for seen in (one, two)]
    return replace(one, head=heads[0]) == replace(two, head=heads[1])


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


# --- reading ----------------------------------------------------------------------------


@case
async def a_backup_reads_what_is_there_and_what_is_left_of_what_is_gone(h: Harness) -> None:
    a = await h.replica()
    it = h.entity()
    one = await a.apply(it, Append(bodies(1, 2), key="k"))
    two = await a.apply(it, Append(bodies(3, 4)))
    three = await a.apply(it, Append(bodies(5, 6), key="l"))
    four = await a.apply(it, Append(bodies(7)))
    await a.apply(it, Trim(3), Replace({6: None, 5: '"new"'}))
    seen = await whole(a, it)
    assert seen.entries == (
        Entry(2, one.at, "", one.stamp, "k", digest_of(bodies(1, 2))),
        Entry(4, two.at, bodies(4)[0], two.stamp),
        Entry(5, three.at, '"new"', three.stamp),
        Entry(6, three.at, "", three.stamp, "l", digest_of(bodies(5, 6))),
        Entry(7, four.at, bodies(7)[0], four.stamp),
    )
    assert (seen.head.base, seen.head.base_stamp, seen.head.token) == (3, two.stamp, 0)
    assert (seen.count, seen.first, seen.lines, seen.truncated) == (5, 2, "", True)
    plain = await a.fetch(it, Log(details=True))
    assert plain.head == replace(seen.head, base_stamp="")
    assert [e.digest for e in plain.entries] == [None] * 3


@case
async def a_backup_reads_page_by_page(h: Harness) -> None:
    a = await h.replica()
    it = h.entity()
    await eventful(a, it)
    every = (await whole(a, it)).entries
    assert [e.seq for e in every] == [2, 4, 5, 6, 7, 9, 10]
    for size in (1, 2, 3, 7, 8):
        found: list[Entry] = []
        after = 0
        while page := (await whole(a, it, after=after, first=size)).entries:
            assert len(page) <= size
            found += page
            after = page[-1].seq
        assert tuple(found) == every
    assert (await whole(a, it, after=4, upto=7)).entries == every[2:5]
    assert (await whole(a, it, after=3, stamp="other")).reset
    assert await a.refuses(it, "somebody else")
    assert is_absent(await whole(a, h.entity("none")))


@case
async def all_there_is_comes_by_kind_and_id(h: Harness) -> None:
    a = await h.replica()
    every = [
        h.entity(id, kind) for kind in ("a", "a\x00", "thread", "é") for id in ("1", "a\x00", "ß")
    ]
    for number, it in enumerate(every):
        owner = (None, "u", "v")[number % 3]
        await a.apply(it, Append(bodies(number)), owner=owner)
    await a.apply(Entity(h.namespace + "x", "a", "other"), Append(bodies(1)))
    wanted = sorted(every, key=lambda it: (it.kind.encode(), it.id.encode()))
    for limit in (1, 4, 100):
        assert await a.list_all(h.namespace, limit=limit) == wanted
        assert await a.list_all(h.namespace, limit=limit, reverse=True) == wanted[::-1]
    page = is_a((await a.execute(List(h.namespace, limit=100)))[0], Listed)
    assert [found.head for found in page.entities] == [await a.head(it) for it in wanted]
    await a.apply(wanted[0], Drop())
    assert await a.list_all(h.namespace) == wanted[1:]
    assert await a.list_all(h.namespace, expired=True) == wanted[1:]


@case
async def all_there_is_can_include_what_has_expired(h: Harness) -> None:
    a = await h.replica()
    await a.apply(h.entity("stays", "b"), Append(bodies(1)))
    await a.apply(h.entity("goes", "a"), Append(bodies(1)), retain=h.span)
    await h.pass_time(h.span)
    assert [it.id for it in await a.list_all(h.namespace)] == ["stays"]
    assert [it.id for it in await a.list_all(h.namespace, expired=True)] == ["goes", "stays"]


# --- restoring --------------------------------------------------------------------------


@case
async def what_is_restored_is_what_was_read(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    it, copy = h.entity(), h.entity(f"copy{ODD}")
    await eventful(a, it)
    seen = await whole(a, it)
    applied = await put_back(a, copy, seen)
    assert (applied.version, applied.stamp, applied.created) == (10, seen.head.stamp, True)
    assert alike(await whole(b, copy), seen)
    assert replace((await b.everything(copy)).head, life=0) == replace(
        seen.head, life=0, base_stamp=""
    )
    assert (await b.everything(copy)).entries == (await b.everything(it)).entries
    assert (await b.fetch(copy, Log())).lines == (await b.fetch(it, Log())).lines
    assert (await b.fetch(copy, Log(last=2))).lines == (await b.fetch(it, Log(last=2))).lines


@case
async def a_restored_entity_goes_on(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await eventful(a, it)
    await put_back(a, copy, await whole(a, it))
    for where in (it, copy):
        before = await a.head(where)
        added = await a.apply(
            where, Append(bodies(11)), Put("plain", "3"), checks=(CommitsAt(before.commits),)
        )
        assert (added.version, added.documents["plain"], added.created) == (11, 3, False)
        after = await a.head(where)
        assert (after.live, after.commits) == (before.live + 1, before.commits + 1)
        assert after.stamp == added.stamp != before.stamp
        trimmed = await a.apply(where, Trim(9))
        assert (await a.fetch(where, Log())).lines == "\n".join(bodies(10, 11))
        assert (await a.fetch(where, Log(9, stamp=before.stamp))).count == 2
        assert trimmed.version == 11
        assert (await a.head(where)).live == 2


@case
async def a_restored_entity_knows_its_keys(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await eventful(a, it)
    await put_back(a, copy, await whole(a, it))
    keyed = {"trimmed": bodies(1, 2), f"k{ODD}": bodies(4, 5), "removed": bodies(6, 7)}
    for key, texts in keyed.items():
        first = is_a(await a.commit(it, Append(texts, key=key)), Duplicate)
        again = is_a(await a.commit(copy, Append(texts, key=key)), Duplicate)
        assert (again.first, again.own) == (first.first, False)
        reused = is_a(await a.commit(copy, Append(bodies(0), key=key)), KeyReused)
        assert reused.version == first.first.version
    assert (await a.head(copy)).version == 10


@case
async def cursors_of_before_hold_after_a_restore(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    stamps = [(await a.apply(it, Append(bodies(n, n + 1)))).stamp for n in (1, 3, 5, 7)]
    await a.apply(it, Trim(3), Replace({6: None, 8: None}))
    await put_back(a, copy, await whole(a, it))
    for seq in range(3, 9):
        stamp = stamps[(seq - 1) // 2]
        for log in (Log(seq, stamp=stamp), Log(seq, stamp=stamp, details=True)):
            assert not (await a.fetch(copy, log)).reset, seq
        assert (await a.fetch(copy, Log(seq, stamp=f"not {stamp}"))).reset, seq
    is_a(await a.commit(copy, Append(bodies(9)), checks=(LogAt(8, "other"),)), Conflict)
    await a.apply(copy, Append(bodies(9)), checks=(LogAt(8, stamps[-1]),))


@case
async def a_long_log_comes_in_parts(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await eventful(a, it)
    seen = await whole(a, it)
    names = sorted(seen.documents)
    for size in (1, 2, 3, 5):
        parts = [seen.entries[at : at + size] for at in range(0, len(seen.entries), size)]
        version, stamp = 0, ""
        for number, part in enumerate(parts):
            last = part is parts[-1]
            upto = max(part[-1].seq, seen.head.base)
            its_stamp = seen.head.base_stamp if upto == seen.head.base else part[-1].stamp
            head = seen.head if last else replace(seen.head, version=upto, stamp=its_stamp)
            some = {name: seen.documents[name] for name in names[number : number + 1]}
            if last:
                some = {name: seen.documents[name] for name in names[number:]}
            checks = (LogAt(version, stamp),) if number else ()
            write = Restore(head, part, some, continued=number > 0)
            applied = await a.apply(copy, write, checks=checks)
            version, stamp = applied.version, applied.stamp
            assert (version, stamp) == (head.version, head.stamp)
            await a.apply(copy, Restore(head, part, some, continued=number > 0))
            there = await a.everything(copy)
            assert there.head.live == len(there.entries)
            assert not (await a.fetch(copy, Log(version, stamp=stamp))).reset
        assert alike(await whole(a, copy), seen)


@case
async def where_a_part_ends_an_append_is_taken_to_end(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await a.apply(it, Append(bodies(1, 2, 3)))
    seen = await whole(a, it)
    for number, entry in enumerate(seen.entries):
        head = replace(seen.head, version=entry.seq)
        await a.apply(copy, Restore(head, (entry,), continued=number > 0))
    for entity, left in ((it, (1, 3)), (copy, (1, 2, 3))):
        await a.apply(entity, Replace({2: None}))
        assert tuple(entry.seq for entry in (await whole(a, entity)).entries) == left
        assert [e.seq for e in (await a.everything(entity)).entries] == [1, 3]


@case
async def the_same_restore_twice_is_the_same_as_once(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await eventful(a, it)
    seen = await whole(a, it)
    op = h.new_id()
    first = await put_back(a, copy, seen, op=op)
    again = await put_back(a, copy, seen, op=op)
    assert (first.created, again.created) == (True, False)
    assert alike(await whole(a, copy), seen)
    assert len(await a.list_all(h.namespace)) == 2


@case
async def what_was_there_before_a_restore_goes(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    it, other = h.entity(), h.entity("other")
    op = h.new_id()
    await a.apply(
        it, *[Put(f"old {n}", "1") for n in range(3)], Append(bodies(*range(20)), key="old")
    )
    await a.apply(it, SetHead(status="old", label="old", due=1.0, owner="old"), op=op)
    await eventful(a, other)
    seen = await whole(a, other)
    before = await a.head(it)
    await put_back(b, it, seen)
    after = await whole(a, it)
    assert alike(after, seen)
    assert after.head.life != before.life
    is_a(await a.commit(it, SetHead(status="new"), op=op), Applied)
    await a.apply(it, Append(bodies(*range(20)), key="old"))
    await a.sweep_all()
    assert (await a.head(it)).version == 30


@case
async def what_was_restored_is_not_taken_for_a_repeated_call(h: Harness) -> None:
    a = await h.replica()
    it = h.entity()
    op = h.new_id()
    await a.apply(it, Append(bodies(0)))
    await a.apply(it, Append(bodies(1, 2)), op=op)
    await put_back(a, it, await whole(a, it))
    assert (await a.apply(it, Append(bodies(1, 2)), op=op)).version == 5
    assert is_a(await a.commit(it, Append(bodies(1, 2)), op=op), Duplicate).first.version == 5


@case
async def a_restored_entity_is_found_where_it_belongs(h: Harness) -> None:
    a = await h.replica()
    it = h.entity()
    await a.apply(it, SetHead(status="was", label="was", due=1.0), owner="was")
    head = Head(True, "is", "on", "l", 2.0, created=3.0, updated=4.0, commits=5)
    await a.apply(it, Restore(head))
    for options in ({"owner": "is"}, {"status": "on"}, {"due": True}, {"label": "l"}, {}):
        assert await a.list_all(h.namespace, kind="thing", **options) == [it], options
    for name, value in (("owner", "was"), ("status", "was"), ("label", "was"), ("owner", "")):
        assert await a.list_all(h.namespace, kind="thing", **{name: value}) == [], name  # type: ignore[arg-type]
    assert replace(await a.head(it), life=0) == head
    await a.apply(it, Restore(replace(head, owner="", status="", label="", due=None)))
    for options in ({"owner": "is"}, {"status": "on"}, {"due": True}, {"label": "l"}):
        assert await a.list_all(h.namespace, kind="thing", **options) == [], options
    assert await a.list_all(h.namespace, owner="") == [it]


@case
async def a_restored_lease_is_nobodys_and_its_token_only_grows(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    lease = (await a.apply(it, Acquire("n", h.span, "me"), Put("doc", "1"))).lease
    assert lease is not None
    seen = await whole(a, it)
    assert seen.head.token == lease.token
    far = replace(seen.head, token=lease.token + 10**12)  # a clock that ran ahead
    await a.apply(copy, Restore(far, (), seen.documents))
    head = (await whole(a, copy)).head
    assert (head.lease, head.token) == (None, far.token)
    for write in (Release(far.token, "n"), Release(lease.token, "n")):
        is_a(await a.commit(copy, write), Fenced)
    is_a(await a.commit(copy, Put("doc", "2"), checks=(Fence(far.token, "n"),)), Fenced)
    taken = (await a.apply(copy, Acquire("m", h.span))).lease
    assert taken is not None
    assert taken.token > far.token
    await put_back(a, copy, seen)
    head = (await whole(a, copy)).head
    assert (head.lease, head.token) == (None, taken.token), "a restore does not take tokens back"
    is_a(await a.commit(copy, Put("doc", "2"), checks=(Fence(taken.token, "m"),)), Fenced)


@case
async def a_write_delayed_past_a_drop_stays_refused_after_a_restore(h: Harness) -> None:
    a = await h.replica()
    it, other = h.entity(), h.entity("other")
    await a.apply(other, Append(bodies(1)))
    seen = await whole(a, other)
    written = (await a.apply(it, Append(bodies(1)))).at
    await h.pass_time(0.01)
    dropped = (await a.apply(it, Drop())).at
    await put_back(a, it, seen)
    assert (await a.head(it)).dropped == dropped
    late = (NotDroppedSince(written),)
    is_a(await a.commit(it, Append(bodies(2)), checks=late), Conflict)
    await put_back(a, other, await whole(a, it))
    is_a(await a.commit(other, Append(bodies(2)), checks=late), Conflict)


@case
async def a_restore_is_refused_like_any_commit(h: Harness) -> None:
    a = await h.replica()
    it, none = h.entity(), h.entity("none")
    op = h.new_id()
    put = await a.apply(it, Put("doc", "1"), op=op, owner="u")
    lease = (await a.apply(it, Acquire("n", h.span))).lease
    assert lease is not None
    before = await whole(a, it)
    write = Restore(Head(True, commits=1, created=1.0, updated=1.0), (Entry(1, 1.0, "1", "s"),))
    is_a(await a.commit(it, write, owner="v"), NotYours)
    known = is_a(await a.commit(it, write, op=op), Duplicate)
    assert (known.own, known.first) == (True, put)
    is_a(await a.commit(it, write, checks=(Fence(lease.token, "other"),)), Fenced)
    is_a(await a.commit(it, write, checks=(Unheld(),)), Held)
    check = DocumentAt("doc", 2)
    conflict = is_a(await a.commit(it, write, checks=(LogAt(0), check)), Conflict)
    assert conflict.failed == check
    assert conflict.values["doc"].json == "1"
    assert await whole(a, it) == before
    is_a(await a.commit(none, write, checks=(LogAt(1),)), Conflict)
    assert is_absent(await whole(a, none))
    applied = await a.apply(it, write, checks=(Fence(lease.token, "n"),), reading=("doc",))
    assert applied.values["doc"].json == "1"


@case
async def a_restore_stands_alone_in_its_commit(h: Harness) -> None:
    a = await h.replica()
    head = Head(True, commits=1)
    with raises(ValueError):
        await a.commit(h.entity(), Restore(head), Put("doc", "1"))
    assert is_absent(await whole(a, h.entity()))


@case
async def many_are_restored_in_one_batch(h: Harness) -> None:
    a = await h.replica()
    head = Head(True, version=2, stamp="s", created=1.5, updated=2.5, commits=1)
    entries = tuple(Entry(n, 1.5, text, "s") for n, text in enumerate(bodies(1, 2), 1))
    documents = {"doc": Value("1", 3, "t", 2.25, 1)}
    every = [h.entity(f"{n:02}") for n in range(40)]
    commits = [Commit(it, h.new_id(), (Restore(head, entries, documents),)) for it in every]
    for outcome in await a.execute(*commits):
        is_a(outcome, Applied)
    assert await a.list_all(h.namespace, limit=7) == every
    for it in every[::13]:
        seen = await whole(a, it)
        assert (seen.entries, seen.documents) == (entries, documents)
        assert replace(seen.head, life=0, live=0) == head


@case
async def what_is_restored_expires_when_it_would_have(h: Harness) -> None:
    a = await h.replica()
    it, copy, gone = h.entity(), h.entity("copy"), h.entity("gone")
    await a.apply(it, Append(bodies(1)), retain=h.span)
    seen = await whole(a, it)
    await h.pass_time(h.span / 2)
    await put_back(a, copy, seen)
    assert (await a.head(copy)).expires == seen.head.expires
    await h.pass_time(h.span / 2)
    assert is_absent(await whole(a, copy))
    await put_back(a, gone, seen)
    assert is_absent(await whole(a, gone)), "its time had come before it was restored"
    assert (await a.apply(gone, Append(bodies(1)))).created


@clock_case
async def what_was_restored_and_has_expired_is_swept(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await a.apply(it, Append(bodies(1)), retain=100.0)
    await put_back(a, copy, await whole(a, it))
    await a.sweep_all()
    assert (await a.head(copy)).exists
    await h.pass_time(GRACE + 101.0)
    await a.sweep_all()
    for where in (it, copy):
        assert (await a.head(where)) == Head(), "nothing is left"


@clock_case
async def a_key_is_forgotten_when_it_would_have_been(h: Harness) -> None:
    a = await h.replica()
    it, copy = h.entity(), h.entity("copy")
    await a.apply(it, Append(bodies(1), key="old"))
    await h.pass_time(KEY_SECONDS - 10.0)
    await a.apply(it, Append(bodies(2), key="new"), Trim(2))
    assert [e.key for e in (await whole(a, it)).entries] == ["old", "new"]
    await put_back(a, copy, await whole(a, it))
    is_a(await a.commit(copy, Append(bodies(1), key="old")), Duplicate)
    await h.pass_time(10.0)
    assert [e.key for e in (await whole(a, it)).entries] == ["new"]
    assert [e.key for e in (await whole(a, copy)).entries] == ["new"]
    assert (await a.apply(copy, Append(bodies(1), key="old"))).version == 3


# --- one moment -------------------------------------------------------------------------


@case
async def a_snapshot_shows_one_moment_whatever_is_written_meanwhile(h: Harness) -> None:
    """Only of an engine that says so: others show each entity as it is when it is read."""
    a, b = await h.replica(), await h.replica()
    if not a.engine.capabilities.snapshots:
        return
    kept, changed, dropped, late = (h.entity(id) for id in ("kept", "changed", "dropped", "late"))
    for it in (kept, changed, dropped):
        await eventful(a, it)
    every = [changed, dropped, kept]
    wanted = [await whole(a, it) for it in every]
    engine: Snapshots = a.engine  # type: ignore[assignment]
    async with engine.snapshot() as reader:
        for replica in (a, b):
            await replica.apply(changed, Append(bodies(11)), Put("plain", "3"), Trim(9))
            await replica.apply(late, Append(bodies(1)))
        await b.apply(dropped, Drop())
        listed = is_a((await reader.execute((List(h.namespace),)))[0], Listed)
        assert [found.entity for found in listed.entities] == every
        assert [found.head.version for found in listed.entities] == [10, 10, 10]
        reads = [Fetch(it, log=Log(whole=True), all_documents=True) for it in every]
        assert await reader.execute(reads) == wanted
        assert await reader.execute(reads[:1]) == wanted[:1]
        absent = (await reader.execute((Fetch(late),)))[0]
        assert is_absent(is_a(absent, Fetched))
    assert (await a.head(changed)).version == 12
