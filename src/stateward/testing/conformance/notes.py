"""Notes of appends, beside their bodies: a note comes, stays and goes with its last entry."""

from __future__ import annotations

from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Drop,
    Duplicate,
    Entity,
    Fence,
    KeyReused,
    Log,
    LogAt,
    Put,
    Replace,
    Restore,
    Trim,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a

ODD = '{"a":"\\u0000 \\u0001 é😀: 12:3 - \\n"}'  # nothing in it is syntax


async def notes(a: Caller, entity: Entity) -> dict[int, str | None]:
    fetched = await a.fetch(entity, Log(whole=True))
    return {entry.seq: entry.note for entry in fetched.entries if entry.body}


@case
async def a_note_stands_on_the_last_entry_of_its_append(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2), note=ODD))
    await a.apply(entity, Append(bodies(3)))
    await a.apply(entity, Append(bodies(4), note='{"n":4}'))
    await a.apply(entity, Append(bodies(5, 6), key="k", note='{"n":6}'))
    await a.apply(entity, Append(bodies(7, 8, 9), note="[9]"))
    await a.apply(entity, Append(bodies(10, 11), key=f"l: 1:2 {ODD}", note=ODD))
    assert await notes(b, entity) == {
        **dict.fromkeys(range(1, 12)),
        2: ODD,
        4: '{"n":4}',
        6: '{"n":6}',
        9: "[9]",
        11: ODD,
    }


@case
async def a_note_may_come_with_checks_and_other_writes(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await a.apply(entity, Append(bodies(1, 2), note="1"), Put("doc", "{}"))
    await a.apply(entity, Append(bodies(3), note="2"), checks=(LogAt(2, first.stamp),))
    lease = (await a.apply(entity, Acquire("n", 30.0))).lease
    assert lease is not None
    fence = Fence(lease.token, lease.nonce)
    await a.apply(entity, Append(bodies(4, 5), key="k", note="3"), checks=(fence,))
    assert await notes(a, entity) == {1: None, 2: "1", 3: "2", 4: None, 5: "3"}


@case
async def notes_of_a_batch_stay_with_their_own_appends(h: Harness) -> None:
    a = await h.replica()
    several = [h.entity(f"e{n}") for n in range(6)]
    for turn in range(3):  # what was written before may take another way
        commits = [
            Commit(
                entity,
                a.world.new_id(),
                (Append(bodies(1, 2), note=None if n % 2 else f"[{n},{turn}]"),),
            )
            for n, entity in enumerate(several)
        ]
        assert {type(outcome) for outcome in await a.execute(*commits)} == {Applied}
    for n, entity in enumerate(several):
        there = {2 * turn + 2: None if n % 2 else f"[{n},{turn}]" for turn in range(3)}
        assert await notes(a, entity) == {**dict.fromkeys((1, 3, 5)), **there}


@case
async def only_a_fetch_of_the_whole_tells_notes(h: Harness) -> None:
    a, noted, plain = await h.replica(), h.entity("noted"), h.entity("plain")
    for entity, note in ((noted, ODD), (plain, None)):
        await a.apply(entity, Append(bodies(1, 2), key="k", note=note))
        await a.apply(entity, Append(bodies(3, 4), note=note))
        await a.apply(entity, Append(bodies(5), note=note))
    for log in (
        Log(details=True),
        Log(last=2, details=True),
        Log(1, 4, first=2, details=True),
        Log(last=3),
        Log(),
    ):
        one, other = await a.fetch(noted, log), await a.fetch(plain, log)
        assert [e.note for e in one.entries] == [None] * len(other.entries)
        assert [(e.seq, e.body, e.key) for e in one.entries] == [
            (e.seq, e.body, e.key) for e in other.entries
        ]
        assert one.lines == other.lines


@case
async def stamps_are_told_of_appends_with_a_note(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    one = await a.apply(entity, Append(bodies(1, 2), note=ODD))
    two = await a.apply(entity, Append(bodies(3, 4), key="k", note=ODD))
    three = await a.apply(entity, Append(bodies(5)))
    fetched = await a.fetch(entity, Log(details=True))
    assert [e.stamp for e in fetched.entries] == [one.stamp] * 2 + [two.stamp] * 2 + [three.stamp]
    for after, stamp in ((1, one.stamp), (2, one.stamp), (3, two.stamp), (4, two.stamp)):
        assert not (await a.fetch(entity, Log(after, stamp=stamp))).reset
        assert (await a.fetch(entity, Log(after, stamp="another"))).reset
    await a.apply(entity, Trim(3))
    assert (await a.fetch(entity, Log(whole=True))).head.base_stamp == two.stamp


@case
async def a_note_is_no_part_of_what_a_key_stands_for(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = await a.apply(entity, Append(bodies(1, 2), key="k", note="1"))
    for note in ("2", None, "1"):
        again = await a.commit(entity, Append(bodies(1, 2), key="k", note=note))
        assert is_a(again, Duplicate).first == Applied(2, first.stamp, first.at)
    is_a(await a.commit(entity, Append(bodies(3), key="k", note="1")), KeyReused)
    assert await notes(a, entity) == {1: None, 2: "1"}, "the first one's stays"


@case
async def a_note_stays_when_its_entry_is_rewritten_and_goes_with_it(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2), note="1"))
    await a.apply(entity, Append(bodies(3, 4), key="k", note="2"))
    await a.apply(entity, Append(bodies(5, 6), key="l", note="3"))
    await a.apply(entity, Append(bodies(7), note="4"))
    await a.apply(entity, Replace({2: '"edited"', 1: None, 3: None, 6: '"too"'}))
    assert await notes(a, entity) == {2: "1", 4: "2", 5: None, 6: "3", 7: "4"}
    await a.apply(entity, Replace({6: None, 7: None}))
    await a.apply(entity, Trim(4))
    fetched = await a.fetch(entity, Log(whole=True))
    assert [(e.seq, e.key, e.note) for e in fetched.entries] == [
        (4, "k", None),
        (5, None, None),
        (6, "l", None),
        (7, None, None),
    ]
    is_a(await a.commit(entity, Append(bodies(5, 6), key="l")), Duplicate)


@case
async def a_new_life_has_no_notes_of_the_one_before(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2), note="1"))
    await a.apply(entity, Drop())
    await a.apply(entity, Append(bodies(1, 2)))
    assert await notes(a, entity) == {1: None, 2: None}


@case
async def a_restore_brings_notes_back(h: Harness) -> None:
    a, entity, copy = await h.replica(), h.entity("one"), h.entity("copy")
    await a.apply(entity, Append(bodies(1, 2), note=ODD))
    await a.apply(entity, Append(bodies(3, 4), key="k", note="2"))
    await a.apply(entity, Append(bodies(5)))
    await a.apply(entity, Append(bodies(6, 7), note="3"))
    await a.apply(entity, Replace({6: None}), Trim(1))
    fetched = await a.fetch(entity, Log(whole=True))
    await a.apply(copy, Restore(fetched.head, fetched.entries))
    assert (await a.fetch(copy, Log(whole=True))).entries == fetched.entries
    for first in range(0, len(fetched.entries), 2):  # and part by part
        part = fetched.entries[first : first + 2]
        await a.apply(copy, Restore(fetched.head, part, continued=first > 0))
    assert (await a.fetch(copy, Log(whole=True))).entries == fetched.entries
