"""Fetching any parts of an entity, several operations at the same time, and waiting for more."""

from __future__ import annotations

from stateward.ops import (
    Append,
    Applied,
    Commit,
    Delete,
    Drop,
    Entry,
    Fetch,
    Fetched,
    Head,
    List,
    Listed,
    Log,
    Put,
    Replace,
    Sweep,
    Swept,
    Trim,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, differing, is_a, is_absent, lines

# --- ranges of a log --------------------------------------------------------------------


@case
async def a_range_has_its_bounds_and_its_number_of_entries(h: Harness) -> None:
    """Every combination of bounds against a plain list, also behind trimmed and removed entries."""
    a, entity = await h.replica(), h.entity()
    stamps: dict[int, str] = {}
    for numbers in ((1, 2), (3, 4, 5), (6, 7)):
        applied = await a.apply(entity, Append(bodies(*numbers)))
        stamps |= dict.fromkeys(numbers, applied.stamp)
    held = list(range(1, 8))
    for change in (None, Replace({5: None, 7: None}), Trim(2), Replace({3: None})):
        if isinstance(change, Replace):
            held = [number for number in held if number not in change.entries]
        elif change is not None:
            held = [number for number in held if number > change.upto]
        if change is not None:
            await a.apply(entity, change)
        logs = [
            Log(after, upto, first, last, details=details)
            for after in (0, 1, 2, 4, 7)
            for upto in (None, 0, 3, 6, 7, 20)
            for first, last in ((None, None), (1, None), (3, None), (None, 1), (None, 3), (None, 9))
            for details in (False, True)
        ]
        outcomes = await a.execute(*[Fetch(entity, log=log) for log in logs])
        for log, outcome in zip(logs, outcomes, strict=True):
            end = 7 if log.upto is None else log.upto
            wanted = [number for number in held if log.after < number <= end]
            if log.first is not None:
                wanted = wanted[: log.first]
            if log.last is not None:
                wanted = wanted[-log.last :]
            fetched = is_a(outcome, Fetched)
            assert fetched.count == len(wanted), log
            assert fetched.first == (wanted[0] if wanted else 0), log
            assert fetched.lines == ("" if log.details else lines(*wanted)), log
            assert [e.seq for e in fetched.entries] == (wanted if log.details else []), log
            assert all(e.stamp == stamps[e.seq] for e in fetched.entries), log


@case
async def a_fetch_without_a_log_brings_no_entries(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)))
    fetched = await a.fetch(entity)
    assert fetched == Fetched(head=await a.head(entity))
    assert fetched.head.live == 1


@case
async def an_entity_without_entries_has_an_empty_log(h: Harness) -> None:
    a = await h.replica()
    bare, trimmed, removed = h.entity("bare"), h.entity("trimmed"), h.entity("removed")
    await a.apply(bare, Put("doc", "1"))
    await a.apply(trimmed, Append(bodies(1)), Trim(1))
    await a.apply(removed, Append(bodies(1)), Replace({1: None}))
    for entity in (bare, trimmed, removed):
        for log in (Log(), Log(last=5), Log(first=5), Log(details=True), Log(last=5, details=True)):
            fetched = await a.fetch(entity, log)
            assert fetched.head.exists
            assert fetched == Fetched(head=fetched.head, truncated=entity is trimmed)


@case
async def details_name_number_time_stamp_and_key(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first, second = h.new_id(), h.new_id()
    one = await a.apply(entity, Append(bodies(1, 2, 3), key="k"), op=first)
    await h.pass_time(0.01)
    two = await a.apply(entity, Append(bodies(4)), op=second)
    texts = bodies(1, 2, 3, 4)
    whole = (
        Entry(1, one.at, texts[0], first),
        Entry(2, one.at, texts[1], first),
        Entry(3, one.at, texts[2], first, "k"),
        Entry(4, two.at, texts[3], second),
    )
    assert (await a.fetch(entity, Log(details=True))).entries == whole
    for after in range(5):
        for upto in range(after, 5):
            fetched = await a.fetch(entity, Log(after, upto, details=True))
            assert fetched.entries == whole[after:upto]


@case
async def a_long_log_is_read_page_by_page(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for start in range(0, 2000, 500):
        await a.apply(entity, Append(bodies(*range(start, start + 500))))
    read: list[str] = []
    while True:
        page = await a.fetch(entity, Log(len(read), first=300))
        if not page.count:
            break
        assert page.first == len(read) + 1
        read += page.lines.split("\n")
    assert not differing(read, bodies(*range(2000)))


# --- the same history or another --------------------------------------------------------


@case
async def a_place_with_its_stamp_is_known_everywhere_in_a_log(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first, second = h.new_id(), h.new_id()
    await a.apply(entity, Append(bodies(1, 2, 3)), op=first)
    await a.apply(entity, Append(bodies(4, 5)), op=second)
    for after in range(1, 6):
        stamp, other = (first, second) if after <= 3 else (second, first)
        fetched = await a.fetch(entity, Log(after, stamp=stamp))
        assert not fetched.reset
        assert fetched.lines == lines(*range(after + 1, 6))
        for wrong in (other, h.new_id()):
            assert (await a.fetch(entity, Log(after, stamp=wrong))).reset
            assert (await a.fetch(entity, Log(after, last=2, stamp=wrong))).reset
    assert (await a.fetch(entity, Log(0, last=2, stamp=first))).reset


@case
async def a_reset_brings_nothing_but_the_head(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2)), Put("doc", "1"))
    head = await a.head(entity)
    for log in (Log(1, stamp="other"), Log(3), Log(3, stamp=head.stamp), Log(3, last=1)):
        fetched = await a.fetch(entity, log, all_documents=True)
        assert fetched == Fetched(head=head, reset=True)


@case
async def a_history_that_began_anew_is_a_reset_even_at_the_same_length(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    old = await a.apply(entity, Append(bodies(1, 2)))
    await a.apply(entity, Drop())
    gone = await b.fetch(entity, Log(2, stamp=old.stamp))
    assert gone.reset
    assert is_absent(gone)
    await a.apply(entity, Append(bodies(1)))
    assert (await b.fetch(entity, Log(2, stamp=old.stamp))).reset
    assert (await b.fetch(entity, Log(2))).reset
    await a.apply(entity, Append(bodies(2)))
    assert (await b.fetch(entity, Log(2, stamp=old.stamp))).reset
    assert (await b.fetch(entity, Log(1, stamp=old.stamp))).reset
    assert not (await b.fetch(entity, Log(2))).reset, "a bare number compares the number alone"


@case
async def what_was_trimmed_before_it_was_read_is_said(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first, second = h.new_id(), h.new_id()
    await a.apply(entity, Append(bodies(1, 2, 3)), op=first)
    await a.apply(entity, Append(bodies(4)), op=second)
    assert not (await a.fetch(entity, Log())).truncated
    await a.apply(entity, Trim(2))
    for log in (Log(), Log(last=1), Log(1), Log(1, stamp=first), Log(1, stamp="another"), Log(0)):
        fetched = await a.fetch(entity, log)
        assert fetched.truncated
        assert not fetched.reset
    for log in (Log(2), Log(2, stamp=first), Log(3, stamp=first), Log(4, stamp=second)):
        fetched = await a.fetch(entity, log)
        assert not fetched.truncated
        assert not fetched.reset
    for log in (Log(2, stamp=second), Log(3, stamp=second), Log(4, stamp=first)):
        assert (await a.fetch(entity, log)).reset


@case
async def a_place_at_the_end_of_what_was_trimmed_keeps_its_stamp(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    await a.apply(entity, Append(bodies(1, 2)), op=op)
    await a.apply(entity, Trim(2))
    assert not (await a.fetch(entity, Log(2, stamp=op))).reset
    assert (await a.fetch(entity, Log(2, stamp="other"))).reset
    await a.apply(entity, Append(bodies(3)))
    fetched = await a.fetch(entity, Log(2, stamp=op))
    assert (fetched.lines, fetched.reset, fetched.truncated) == (lines(3), False, False)
    assert (await a.fetch(entity, Log(2, stamp="other"))).reset


@case
async def removed_entries_are_passed_over_without_a_word(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    await a.apply(entity, Append(bodies(1, 2, 3, 4)), op=op)
    await a.apply(entity, Replace({3: None, 4: None}))
    fetched = await a.fetch(entity, Log(2, stamp=op))
    assert (fetched.count, fetched.reset, fetched.truncated) == (0, False, False)
    assert fetched.head.version == 4
    for after in (3, 4):
        assert not (await a.fetch(entity, Log(after, stamp=op))).reset
        assert (await a.fetch(entity, Log(after, stamp="other"))).reset
    details = (await a.fetch(entity, Log(details=True))).entries
    assert [(e.seq, e.stamp) for e in details] == [(1, op), (2, op)]


@case
async def an_entry_keeps_its_stamp_when_those_behind_it_are_removed(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    ops = [h.new_id() for _ in range(3)]
    for number, op in enumerate(ops):
        await a.apply(entity, Append(bodies(*range(3 * number + 1, 3 * number + 4))), op=op)
    await a.apply(entity, Replace({3: None, 5: None, 6: None, 8: None}))
    wanted = [(seq, ops[(seq - 1) // 3]) for seq in (1, 2, 4, 7, 9)]
    for log in (Log(details=True), Log(last=5, details=True), Log(first=5, details=True)):
        assert [(e.seq, e.stamp) for e in (await a.fetch(entity, log)).entries] == wanted
    for seq, stamp in wanted:
        one = await a.fetch(entity, Log(seq - 1, seq, details=True))
        assert [(e.seq, e.stamp) for e in one.entries] == [(seq, stamp)]
        assert not (await a.fetch(entity, Log(seq, stamp=stamp))).reset


# --- documents --------------------------------------------------------------------------


@case
async def documents_come_by_name_or_all(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("b", "2"), Put("a", "1"), Put("c", "3"), Append(bodies(1)))
    every = (await a.fetch(entity, all_documents=True)).documents
    assert {name: value.json for name, value in every.items()} == {"a": "1", "b": "2", "c": "3"}
    some = await a.fetch(entity, Log(last=5), documents=("c", "missing", "a"))
    assert some.documents == {name: every[name] for name in ("a", "c")}
    assert some.lines == lines(1)
    assert (await a.fetch(entity)).documents == {}


@case
async def a_document_the_caller_has_is_not_sent_again(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Put("a", "1"), Put("b", "2"), Put("c", "3"))
    now = (await a.everything(entity)).documents
    versions = {name: (value.version, value.stamp) for name, value in now.items()}
    for options in ({"all_documents": True}, {"documents": ("a", "b", "c", "d")}):
        fetched = await b.fetch(entity, known=versions, **options)
        assert fetched.documents == {}
        assert sorted(fetched.unchanged) == ["a", "b", "c"]
    fetched = await b.fetch(entity, documents=("c", "a", "d", "b"), known=versions)
    assert fetched.unchanged == ("c", "a", "b"), "in the order asked for"
    fetched = await b.fetch(entity, Log(last=1), all_documents=True, known=versions)
    assert (fetched.documents, sorted(fetched.unchanged)) == ({}, ["a", "b", "c"])
    await a.apply(entity, Put("a", "4"), Delete("b"))
    fetched = await b.fetch(entity, all_documents=True, known=versions)
    assert {name: value.json for name, value in fetched.documents.items()} == {"a": "4"}
    assert fetched.unchanged == ("c",)
    await a.apply(entity, Put("b", "5"))
    fetched = await b.fetch(entity, documents=("b",), known=versions)
    assert fetched.documents["b"].version == 1, "the same number, but not the same document"
    assert fetched.documents["b"].json == "5"


# --- batches ----------------------------------------------------------------------------


@case
async def outcomes_come_in_the_order_of_the_operations(h: Harness) -> None:
    a = await h.replica()
    old = [h.entity(f"old {number}") for number in range(5)]
    for number, entity in enumerate(old):
        await a.apply(entity, Append(bodies(number)))
    new = [h.entity(f"new {number}") for number in range(5)]
    ops: list[Commit | Fetch | List | Sweep] = []
    for number in range(5):
        ops += [
            Fetch(old[number], log=Log()),
            Commit(new[number], h.new_id(), (Append(bodies(*range(number + 1))),)),
            List(h.namespace, within=old[number]),
        ]
    outcomes = await a.execute(*ops, Sweep(10))
    for number in range(5):
        fetched, applied, listed = outcomes[3 * number : 3 * number + 3]
        assert is_a(fetched, Fetched).lines == lines(number)
        assert is_a(applied, Applied).version == number + 1
        assert listed == Listed()
    is_a(outcomes[-1], Swept)


@case
async def a_large_batch_is_like_many_small_ones(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    every = [h.entity(str(number)) for number in range(300)]
    applied = await a.execute(
        *[Commit(entity, h.new_id(), (Append((f'"{entity.id}"',)),)) for entity in every]
    )
    assert all(is_a(outcome, Applied).version == 1 for outcome in applied)
    fetched = await b.execute(*[Fetch(entity, log=Log(last=1)) for entity in every])
    assert [is_a(outcome, Fetched).lines for outcome in fetched] == [
        f'"{entity.id}"' for entity in every
    ]


@case
async def an_empty_batch_has_no_outcomes(h: Harness) -> None:
    a = await h.replica()
    assert await a.execute() == []


@case
async def one_entity_is_fetched_several_times_in_a_batch(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1, 2, 3)), Put("doc", "1"))
    whole, last, document, absent = await a.execute(
        Fetch(entity, log=Log()),
        Fetch(entity, log=Log(last=1)),
        Fetch(entity, documents=("doc",)),
        Fetch(h.entity("none"), log=Log()),
    )
    assert is_a(whole, Fetched).lines == lines(1, 2, 3)
    assert is_a(last, Fetched).lines == lines(3)
    assert is_a(document, Fetched).documents["doc"].json == "1"
    assert absent == Fetched(head=Head())


# --- waiting ----------------------------------------------------------------------------

AT_ONCE = 10.0  # seconds: far below the timeout that is given, far above what a look takes


@case
async def waiting_ends_at_once_when_a_log_is_past_its_cursor(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    one, two = h.entity("1"), h.entity("2")
    await a.apply(one, Append(bodies(1, 2)))
    start = h.world.monotonic()
    await b.engine.wait({one: 0}, 60.0)
    await b.engine.wait({one: 1}, 60.0)
    await b.engine.wait({two: 0, one: 1}, 60.0)
    assert h.world.monotonic() - start < AT_ONCE


@case
async def waiting_ends_when_its_time_is_up(h: Harness) -> None:
    a = await h.replica()
    one, two = h.entity("1"), h.entity("2")
    await a.apply(one, Append(bodies(1)))
    start = h.world.monotonic()
    await a.engine.wait({one: 1}, 0.02)
    await a.engine.wait({one: 1, two: 0}, 0.02)
    await a.engine.wait({one: 1}, 0.0)
    assert h.world.monotonic() - start < AT_ONCE
