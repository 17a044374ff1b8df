"""Restores: the entity that was backed up, down to keys and stamps."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.engine import GRACE, KEY_SECONDS
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
    Fetched,
    Head,
    Held,
    KeyReused,
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
)
from stateward.testing.conformance.backups import ODD, eventful, whole
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a, is_absent, raises


async def put_back(a: Caller, entity: Entity, backup: Fetched, **options: Any) -> Applied:
    """All of an entity in one commit."""
    return await a.apply(entity, Restore(backup.head, backup.entries, backup.documents), **options)


def alike(one: Fetched, two: Fetched) -> bool:
    """Return True if both are equal but for the lease and the life, which the engine numbers."""
    heads = [replace(backup.head, life=0, lease=None) for backup in (one, two)]
    return replace(one, head=heads[0]) == replace(two, head=heads[1])


@case
async def what_is_restored_is_what_was_read(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    entity, copy = h.entity(), h.entity(f"copy{ODD}")
    await eventful(a, entity)
    backup = await whole(a, entity)
    applied = await put_back(a, copy, backup)
    assert (applied.version, applied.stamp, applied.created) == (10, backup.head.stamp, True)
    assert alike(await whole(b, copy), backup)
    assert replace((await b.everything(copy)).head, life=0) == replace(
        backup.head, life=0, base_stamp=""
    )
    assert (await b.everything(copy)).entries == (await b.everything(entity)).entries
    assert (await b.fetch(copy, Log())).lines == (await b.fetch(entity, Log())).lines
    assert (await b.fetch(copy, Log(last=2))).lines == (await b.fetch(entity, Log(last=2))).lines


@case
async def a_restored_entity_goes_on(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    await eventful(a, entity)
    await put_back(a, copy, await whole(a, entity))
    for where in (entity, copy):
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
    entity, copy = h.entity(), h.entity("copy")
    await eventful(a, entity)
    await put_back(a, copy, await whole(a, entity))
    keyed = {"trimmed": bodies(1, 2), f"k{ODD}": bodies(4, 5), "removed": bodies(6, 7)}
    for key, texts in keyed.items():
        first = is_a(await a.commit(entity, Append(texts, key=key)), Duplicate)
        again = is_a(await a.commit(copy, Append(texts, key=key)), Duplicate)
        assert (again.first, again.own) == (first.first, False)
        reused = is_a(await a.commit(copy, Append(bodies(0), key=key)), KeyReused)
        assert reused.version == first.first.version
    assert (await a.head(copy)).version == 10


@case
async def cursors_of_before_hold_after_a_restore(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    stamps = [(await a.apply(entity, Append(bodies(n, n + 1)))).stamp for n in (1, 3, 5, 7)]
    await a.apply(entity, Trim(3), Replace({6: None, 8: None}))
    await put_back(a, copy, await whole(a, entity))
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
    entity, copy = h.entity(), h.entity("copy")
    await eventful(a, entity)
    backup = await whole(a, entity)
    names = sorted(backup.documents)
    for size in (1, 2, 3, 5):
        parts = [backup.entries[at : at + size] for at in range(0, len(backup.entries), size)]
        version, stamp = 0, ""
        for number, part in enumerate(parts):
            last = part is parts[-1]
            upto = max(part[-1].seq, backup.head.base)
            its_stamp = backup.head.base_stamp if upto == backup.head.base else part[-1].stamp
            head = backup.head if last else replace(backup.head, version=upto, stamp=its_stamp)
            some = {name: backup.documents[name] for name in names[number : number + 1]}
            if last:
                some = {name: backup.documents[name] for name in names[number:]}
            checks = (LogAt(version, stamp),) if number else ()
            write = Restore(head, part, some, continued=number > 0)
            applied = await a.apply(copy, write, checks=checks)
            version, stamp = applied.version, applied.stamp
            assert (version, stamp) == (head.version, head.stamp)
            await a.apply(copy, Restore(head, part, some, continued=number > 0))
            there = await a.everything(copy)
            assert there.head.live == len(there.entries)
            assert not (await a.fetch(copy, Log(version, stamp=stamp))).reset
        assert alike(await whole(a, copy), backup)


@case
async def where_a_part_ends_an_append_is_taken_to_end(h: Harness) -> None:
    a = await h.replica()
    original, copy = h.entity(), h.entity("copy")
    await a.apply(original, Append(bodies(1, 2, 3)))
    backup = await whole(a, original)
    for number, entry in enumerate(backup.entries):
        head = replace(backup.head, version=entry.seq)
        await a.apply(copy, Restore(head, (entry,), continued=number > 0))
    for entity, left in ((original, (1, 3)), (copy, (1, 2, 3))):
        await a.apply(entity, Replace({2: None}))
        assert tuple(entry.seq for entry in (await whole(a, entity)).entries) == left
        assert [e.seq for e in (await a.everything(entity)).entries] == [1, 3]


@case
async def the_same_restore_twice_is_the_same_as_once(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    await eventful(a, entity)
    backup = await whole(a, entity)
    op = h.new_id()
    first = await put_back(a, copy, backup, op=op)
    again = await put_back(a, copy, backup, op=op)
    assert (first.created, again.created) == (True, False)
    assert alike(await whole(a, copy), backup)
    assert len(await a.list_all(h.namespace)) == 2


@case
async def what_was_there_before_a_restore_goes(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    entity, other = h.entity(), h.entity("other")
    op = h.new_id()
    await a.apply(
        entity, *[Put(f"old {n}", "1") for n in range(3)], Append(bodies(*range(20)), key="old")
    )
    await a.apply(entity, SetHead(status="old", label="old", due=1.0, owner="old"), op=op)
    await eventful(a, other)
    backup = await whole(a, other)
    before = await a.head(entity)
    await put_back(b, entity, backup)
    after = await whole(a, entity)
    assert alike(after, backup)
    assert after.head.life != before.life
    is_a(await a.commit(entity, SetHead(status="new"), op=op), Applied)
    await a.apply(entity, Append(bodies(*range(20)), key="old"))
    await a.sweep_all()
    assert (await a.head(entity)).version == 30


@case
async def what_was_restored_is_not_taken_for_a_repeated_call(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    await a.apply(entity, Append(bodies(0)))
    await a.apply(entity, Append(bodies(1, 2)), op=op)
    await put_back(a, entity, await whole(a, entity))
    assert (await a.apply(entity, Append(bodies(1, 2)), op=op)).version == 5
    assert is_a(await a.commit(entity, Append(bodies(1, 2)), op=op), Duplicate).first.version == 5


@case
async def a_restored_entity_is_found_where_it_belongs(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, SetHead(status="was", label="was", due=1.0), owner="was")
    head = Head(True, "is", "on", "l", 2.0, created=3.0, updated=4.0, commits=5)
    await a.apply(entity, Restore(head))
    for options in ({"owner": "is"}, {"status": "on"}, {"due": True}, {"label": "l"}, {}):
        assert await a.list_all(h.namespace, kind="thing", **options) == [entity], options
    for name, value in (("owner", "was"), ("status", "was"), ("label", "was"), ("owner", "")):
        assert await a.list_all(h.namespace, kind="thing", **{name: value}) == [], name  # type: ignore[arg-type]
    assert replace(await a.head(entity), life=0) == head
    await a.apply(entity, Restore(replace(head, owner="", status="", label="", due=None)))
    for options in ({"owner": "is"}, {"status": "on"}, {"due": True}, {"label": "l"}):
        assert await a.list_all(h.namespace, kind="thing", **options) == [], options
    assert await a.list_all(h.namespace, owner="") == [entity]


@case
async def a_restored_lease_is_nobodys_and_its_token_only_grows(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    lease = (await a.apply(entity, Acquire("n", h.span, "me"), Put("doc", "1"))).lease
    assert lease is not None
    backup = await whole(a, entity)
    assert backup.head.token == lease.token
    far = replace(backup.head, token=lease.token + 10**12)  # a clock that ran ahead
    await a.apply(copy, Restore(far, (), backup.documents))
    head = (await whole(a, copy)).head
    assert (head.lease, head.token) == (None, far.token)
    for write in (Release(far.token, "n"), Release(lease.token, "n")):
        is_a(await a.commit(copy, write), Fenced)
    is_a(await a.commit(copy, Put("doc", "2"), checks=(Fence(far.token, "n"),)), Fenced)
    taken = (await a.apply(copy, Acquire("m", h.span))).lease
    assert taken is not None
    assert taken.token > far.token
    await put_back(a, copy, backup)
    head = (await whole(a, copy)).head
    assert (head.lease, head.token) == (None, taken.token), "a restore does not take tokens back"
    is_a(await a.commit(copy, Put("doc", "2"), checks=(Fence(taken.token, "m"),)), Fenced)


@case
async def a_write_delayed_past_a_drop_stays_refused_after_a_restore(h: Harness) -> None:
    a = await h.replica()
    entity, other = h.entity(), h.entity("other")
    await a.apply(other, Append(bodies(1)))
    backup = await whole(a, other)
    written = (await a.apply(entity, Append(bodies(1)))).at
    await h.pass_time(0.01)
    dropped = (await a.apply(entity, Drop())).at
    await put_back(a, entity, backup)
    assert (await a.head(entity)).dropped == dropped
    late = (NotDroppedSince(written),)
    is_a(await a.commit(entity, Append(bodies(2)), checks=late), Conflict)
    await put_back(a, other, await whole(a, entity))
    is_a(await a.commit(other, Append(bodies(2)), checks=late), Conflict)


@case
async def a_restore_is_refused_like_any_commit(h: Harness) -> None:
    a = await h.replica()
    entity, none = h.entity(), h.entity("none")
    op = h.new_id()
    put = await a.apply(entity, Put("doc", "1"), op=op, owner="u")
    lease = (await a.apply(entity, Acquire("n", h.span))).lease
    assert lease is not None
    before = await whole(a, entity)
    write = Restore(Head(True, commits=1, created=1.0, updated=1.0), (Entry(1, 1.0, "1", "s"),))
    is_a(await a.commit(entity, write, owner="v"), NotYours)
    duplicate = is_a(await a.commit(entity, write, op=op), Duplicate)
    assert (duplicate.own, duplicate.first) == (True, put)
    is_a(await a.commit(entity, write, checks=(Fence(lease.token, "other"),)), Fenced)
    is_a(await a.commit(entity, write, checks=(Unheld(),)), Held)
    check = DocumentAt("doc", 2)
    conflict = is_a(await a.commit(entity, write, checks=(LogAt(0), check)), Conflict)
    assert conflict.failed == check
    assert conflict.values["doc"].json == "1"
    assert await whole(a, entity) == before
    is_a(await a.commit(none, write, checks=(LogAt(1),)), Conflict)
    assert is_absent(await whole(a, none))
    applied = await a.apply(entity, write, checks=(Fence(lease.token, "n"),), reading=("doc",))
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
    commits = [Commit(entity, h.new_id(), (Restore(head, entries, documents),)) for entity in every]
    for outcome in await a.execute(*commits):
        is_a(outcome, Applied)
    assert await a.list_all(h.namespace, limit=7) == every
    for entity in every[::13]:
        backup = await whole(a, entity)
        assert (backup.entries, backup.documents) == (entries, documents)
        assert replace(backup.head, life=0, live=0) == head


@case
async def what_is_restored_expires_when_it_would_have(h: Harness) -> None:
    a = await h.replica()
    entity, copy, gone = h.entity(), h.entity("copy"), h.entity("gone")
    await a.apply(entity, Append(bodies(1)), retain=h.span)
    backup = await whole(a, entity)
    await h.pass_time(h.span / 2)
    await put_back(a, copy, backup)
    assert (await a.head(copy)).expires == backup.head.expires
    await h.pass_time(h.span / 2)
    assert is_absent(await whole(a, copy))
    await put_back(a, gone, backup)
    assert is_absent(await whole(a, gone)), "its time had come before it was restored"
    assert (await a.apply(gone, Append(bodies(1)))).created


@clock_case
async def what_was_restored_and_has_expired_is_swept(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    await a.apply(entity, Append(bodies(1)), retain=100.0)
    await put_back(a, copy, await whole(a, entity))
    await a.sweep_all()
    assert (await a.head(copy)).exists
    await h.pass_time(GRACE + 101.0)
    await a.sweep_all()
    for where in (entity, copy):
        assert (await a.head(where)) == Head(), "nothing is left"


@clock_case
async def a_key_is_forgotten_when_it_would_have_been(h: Harness) -> None:
    a = await h.replica()
    entity, copy = h.entity(), h.entity("copy")
    await a.apply(entity, Append(bodies(1), key="old"))
    await h.pass_time(KEY_SECONDS - 10.0)
    await a.apply(entity, Append(bodies(2), key="new"), Trim(2))
    assert [e.key for e in (await whole(a, entity)).entries] == ["old", "new"]
    await put_back(a, copy, await whole(a, entity))
    is_a(await a.commit(copy, Append(bodies(1), key="old")), Duplicate)
    await h.pass_time(10.0)
    assert [e.key for e in (await whole(a, entity)).entries] == ["new"]
    assert [e.key for e in (await whole(a, copy)).entries] == ["new"]
    assert (await a.apply(copy, Append(bodies(1), key="old"))).version == 3
