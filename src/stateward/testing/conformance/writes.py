"""Writes: the effect of each on an entity, its versions and its stamps."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.ops import (
    Acquire,
    Append,
    Delete,
    Drop,
    Duplicate,
    Head,
    Log,
    NotYours,
    Put,
    Replace,
    SetHead,
    Trim,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, differing, is_a, is_absent, lines

# --- append -----------------------------------------------------------------------------


@case
async def a_log_counts_every_entry_ever_appended(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first, second, third = h.new_id(), h.new_id(), h.new_id()
    one = await a.apply(entity, Append(bodies(1)), op=first)
    two = await a.apply(entity, Append(bodies(2, 3)), op=second)
    six = await a.apply(entity, Append(bodies(4, 5, 6)), op=third)
    assert [(one.version, one.stamp), (two.version, two.stamp), (six.version, six.stamp)] == [
        (1, first),
        (3, second),
        (6, third),
    ]
    assert (one.created, two.created, six.created) == (True, False, False)
    head = await a.head(entity)
    assert (head.version, head.stamp, head.live, head.base) == (6, third, 6, 0)
    assert (await a.fetch(entity, Log())).lines == lines(1, 2, 3, 4, 5, 6)


@case
async def a_long_append_keeps_its_order(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    numbers = range(1, 3001)
    assert (await a.apply(entity, Append(bodies(*numbers)))).version == 3000
    read = (await b.fetch(entity, Log())).lines
    assert not differing(read.split("\n"), bodies(*numbers))


@case
async def writes_that_append_nothing_leave_version_and_stamp(h: Harness) -> None:
    a = await h.replica()
    entity, bare = h.entity("it"), h.entity("bare")
    op = h.new_id()
    await a.apply(entity, Append(bodies(1, 2)), op=op)
    for write in (Put("doc", "1"), Delete("doc"), SetHead(status="s"), Replace({1: "9"}), Trim(1)):
        applied = await a.apply(entity, write)
        assert (applied.version, applied.stamp) == (2, op)
        head = await a.head(entity)
        assert (head.version, head.stamp) == (2, op)
    applied = await a.apply(bare, Put("doc", "1"))
    assert (applied.version, applied.stamp) == (0, "")


@case
async def times_are_those_of_the_commit(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await a.apply(entity, Append(bodies(1)))
    head = await a.head(entity)
    assert head.created == head.updated == first.at
    await h.pass_time(0.01)
    second = await a.apply(entity, Put("doc", "1"))
    head = await a.head(entity)
    assert second.at > first.at
    assert (head.created, head.updated) == (first.at, second.at)
    fetched = await a.everything(entity)
    assert fetched.entries[0].at == first.at
    assert fetched.documents["doc"].updated == second.at


# --- documents --------------------------------------------------------------------------


@case
async def a_document_counts_its_puts_since_it_was_last_missing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for version in (1, 2, 3):
        op = h.new_id()
        applied = await a.apply(entity, Put("doc", f"{version}"), op=op)
        assert applied.documents == {"doc": version}
        value = (await a.everything(entity)).documents["doc"]
        assert (value.json, value.version, value.stamp) == (f"{version}", version, op)
        assert value.updated == applied.at
    assert (await a.apply(entity, Delete("doc"))).documents == {"doc": 0}
    assert (await a.everything(entity)).documents == {}
    assert (await a.apply(entity, Put("doc", "1"))).documents == {"doc": 1}


@case
async def deleting_a_missing_document_changes_nothing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("doc", "1"))
    before = (await a.everything(entity)).documents
    assert (await a.apply(entity, Delete("none"))).documents == {"none": 0}
    assert (await a.everything(entity)).documents == before


@case
async def documents_of_one_entity_are_apart_from_each_other(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("a", "1"), Put("b", "2"))
    await a.apply(entity, Put("a", "3"))
    await a.apply(entity, Delete("b"), Put("c", "4"))
    documents = (await a.everything(entity)).documents
    assert {name: (v.json, v.version) for name, v in documents.items()} == {
        "a": ("3", 2),
        "c": ("4", 1),
    }


@case
async def a_document_remembers_where_the_log_was(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("zero", "1"))
    await a.apply(entity, Append(bodies(1, 2)))
    await a.apply(entity, Put("two", "1"))
    await a.apply(entity, Put("before", "1"), Append(bodies(3)), Put("after", "1"))
    await a.apply(entity, Put("zero again", "1"), Trim(3))
    documents = (await a.everything(entity)).documents
    assert {name: value.log for name, value in documents.items()} == {
        "zero": 0,
        "two": 2,
        "before": 2,
        "after": 3,
        "zero again": 3,
    }


@case
async def the_writes_of_a_commit_are_carried_out_in_order(h: Harness) -> None:
    a = await h.replica()
    append, trim = Append(bodies(4, 5, 6)), Trim(5)
    for id, writes, left in (
        ("trim first", (trim, append), (4, 5, 6)),
        ("trim last", (append, trim), (6,)),
        ("replace first", (Replace({5: None}), append), (1, 2, 3, 4, 5, 6)),
        ("replace last", (append, Replace({5: None})), (1, 2, 3, 4, 6)),
        ("both", (Replace({2: '{"n":9}'}), Trim(1), append), (9, 3, 4, 5, 6)),
    ):
        entity = h.entity(id)
        await a.apply(entity, Append(bodies(1, 2, 3)))
        assert (await a.apply(entity, *writes)).version == 6
        assert (await a.fetch(entity, Log())).lines == lines(*left), id


# --- trim and replace -------------------------------------------------------------------


@case
async def trimming_removes_the_beginning_and_keeps_the_count(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2, 3)))
    last = h.new_id()
    await a.apply(entity, Append(bodies(4, 5)), op=last)
    applied = await a.apply(entity, Trim(2))
    assert (applied.version, applied.stamp) == (5, last)
    head = await a.head(entity)
    assert (head.version, head.base, head.live, head.stamp) == (5, 2, 3, last)
    fetched = await a.fetch(entity, Log())
    assert (fetched.lines, fetched.first, fetched.count) == (lines(3, 4, 5), 3, 3)
    assert (await a.apply(entity, Append(bodies(6)))).version == 6


@case
async def trimming_what_is_trimmed_or_not_there_changes_nothing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2, 3)))
    await a.apply(entity, Trim(2))
    for upto in (0, 1, 2):
        await a.apply(entity, Trim(upto))
        head = await a.head(entity)
        assert (head.base, head.live) == (2, 1)
    await a.apply(entity, Trim(99))
    head = await a.head(entity)
    assert (head.version, head.base, head.live) == (3, 3, 0)
    assert (await a.fetch(entity, Log())).count == 0
    assert (await a.apply(entity, Append(bodies(4)))).version == 4
    assert (await a.fetch(entity, Log())).lines == lines(4)


@case
async def replacing_rewrites_entries_where_they_stand(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2), key="k"))
    await a.apply(entity, Append(bodies(3)))
    before = (await a.everything(entity)).entries
    await h.pass_time(0.01)
    applied = await a.apply(entity, Replace({2: '"redacted"', 3: '"too"', 4: '"no such entry"'}))
    assert applied.version == 3
    after = await b.everything(entity)
    assert [e.body for e in after.entries] == [bodies(1)[0], '"redacted"', '"too"']
    assert [(e.seq, e.at, e.stamp, e.key) for e in after.entries] == [
        (e.seq, e.at, e.stamp, e.key) for e in before
    ]
    assert (after.head.version, after.head.live) == (3, 3)


@case
async def replacing_what_was_never_there_changes_nothing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)))
    for number in (2, 2**31, 2**63, 2**64, 10**30):
        await a.apply(entity, Replace({number: '"x"'}))
        await a.apply(entity, Replace({number: None}))
    after = await a.everything(entity)
    assert ([e.body for e in after.entries], after.head.live) == (list(bodies(1)), 1)


@case
async def replacing_by_nothing_removes_entries_and_keeps_the_count(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2, 3, 4)))
    await a.apply(entity, Replace({2: None, 4: None, 5: None, 0: None}))
    head = await a.head(entity)
    assert (head.version, head.base, head.live) == (4, 0, 2)
    assert (await a.fetch(entity, Log())).lines == lines(1, 3)
    await a.apply(entity, Replace({2: '"back"'}))
    assert (await a.head(entity)).live == 2, "what was removed is not held any more"
    await a.apply(entity, Append(bodies(5)))
    assert (await a.fetch(entity, Log())).lines == lines(1, 3, 5)
    await a.apply(entity, Trim(3))
    head = await a.head(entity)
    assert (head.version, head.base, head.live) == (5, 3, 1)


@case
async def replacing_what_was_trimmed_changes_nothing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2), key="k"))
    await a.apply(entity, Append(bodies(3)))
    await a.apply(entity, Trim(2))
    before = await a.everything(entity)
    await a.apply(entity, Replace({1: '"x"', 2: '"x"'}))
    await a.apply(entity, Replace({1: None, 2: None}))
    after = await a.everything(entity)
    assert after.entries == before.entries
    assert after.head.live == 1


# --- the head ---------------------------------------------------------------------------


@case
async def head_fields_that_are_not_named_stay(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, SetHead(status="s", due=5.0), owner="u", retain=1e6)
    await a.apply(entity, SetHead())
    head = await a.head(entity)
    assert (head.status, head.due, head.owner, head.retain) == ("s", 5.0, "u", 1e6)
    await a.apply(entity, SetHead(status="t"))
    head = await a.head(entity)
    assert (head.status, head.due, head.owner, head.retain) == ("t", 5.0, "u", 1e6)
    await a.apply(entity, SetHead(due=0))
    head = await a.head(entity)
    assert (head.status, head.due, head.owner, head.retain) == ("t", None, "u", 1e6)
    await a.apply(entity, SetHead(label="l"))
    head = await a.head(entity)
    assert (head.status, head.label, head.owner) == ("t", "l", "u")
    await a.apply(entity, SetHead(status="t"))
    assert (await a.head(entity)).label == "l"
    await a.apply(entity, SetHead(status="", owner="", label=""))
    head = await a.head(entity)
    assert (head.status, head.label, head.owner) == ("", "", "")


@case
async def due_in_is_counted_from_the_commit(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    applied = await a.apply(entity, SetHead(due_in=30.0))
    due = (await a.head(entity)).due
    assert due is not None
    assert abs(due - applied.at - 30.0) < 0.001


# --- drop -------------------------------------------------------------------------------


@case
async def a_dropped_entity_is_absent_in_all_its_parts(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    writes = (Append(bodies(1)), Put("doc", "1"), SetHead(status="s", due=1.0))
    await a.apply(entity, *writes, Acquire("n", h.span), owner="u")
    applied = await a.apply(entity, Drop(), owner="u")
    assert (applied.version, applied.stamp, applied.created) == (0, "", False)
    assert is_absent(await b.everything(entity))
    assert not await b.refuses(entity, "anybody")
    assert await b.list_all(h.namespace, owner="u") == []
    assert await b.list_all(h.namespace, kind=entity.kind) == []
    assert (await b.listing(h.namespace, within=entity)).documents == ()


@case
async def dropping_what_is_absent_leaves_it_absent(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    applied = await a.apply(entity, Drop(), op=op, owner="anybody")
    assert (applied.version, applied.created) == (0, False)
    assert is_absent(await a.everything(entity))
    assert (await a.head(entity)).dropped == applied.at, "it leaves a tombstone all the same"
    await a.apply(entity, Put("doc", "1"))
    assert is_a(await a.commit(entity, Drop(), op=op), Duplicate).first == applied
    assert (await a.head(entity)).exists
    await a.apply(entity, Drop())
    await a.apply(entity, Drop())
    assert is_absent(await a.everything(entity))


@case
async def only_its_owner_drops_an_entity(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("doc", "1"), owner="u")
    is_a(await a.commit(entity, Drop(), owner="v"), NotYours)
    assert (await a.head(entity)).exists
    await a.apply(entity, Drop(), owner="u")
    assert not (await a.head(entity)).exists


@case
async def after_a_drop_a_new_life_begins_with_nothing(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    head = SetHead(status="s", label="l", due=1.0)
    writes = (Append(bodies(1, 2, 3), key="k"), Put("doc", "1"), Trim(1), head)
    await a.apply(entity, *writes, owner="u", retain=1e6)
    await a.apply(entity, Put("doc", "2"))
    old = await a.head(entity)
    await a.apply(entity, Drop())
    op = h.new_id()
    applied = await b.apply(entity, Append(bodies(4)), op=op, owner="v")
    assert (applied.version, applied.stamp, applied.created) == (1, op, True)
    fetched = await a.everything(entity)
    assert [(e.seq, e.body) for e in fetched.entries] == [(1, bodies(4)[0])]
    assert fetched.documents == {}
    assert not fetched.truncated
    assert fetched.head.life != old.life
    assert replace(fetched.head, commits=0, life=0, dropped=0.0) == Head(
        exists=True, owner="v", created=applied.at, updated=applied.at, version=1, stamp=op, live=1
    )
    assert (await a.apply(entity, Put("doc", "3"))).documents == {"doc": 1}


@case
async def a_life_has_a_number_that_no_other_has(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lives = []
    for end in ("drop", "drop twice", "expiry", "expiry and drop", "drop"):
        await a.apply(entity, Append(bodies(1)), retain=h.span)
        lives.append((await a.head(entity)).life)
        await a.apply(entity, Put("doc", "1"))
        assert (await a.head(entity)).life == lives[-1]
        if "expiry" in end:
            await h.pass_time(h.span)
        for _ in range(2 if "twice" in end else 1 if "drop" in end else 0):
            await a.apply(entity, Drop())
    assert len(set(lives)) == len(lives)


@case
async def lives_follow_each_other_without_traces(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for life in range(1, 6):
        numbers = range(life, 2 * life + 1)
        assert (await a.apply(entity, Append(bodies(*numbers)))).version == life + 1
        assert (await a.apply(entity, Put("doc", f"{life}"))).documents == {"doc": 1}
        assert (await a.fetch(entity, Log())).lines == lines(*numbers)
        assert (await a.fetch(entity, Log(last=2))).lines == lines(2 * life - 1, 2 * life)
        await a.apply(entity, Drop())
