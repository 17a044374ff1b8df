"""Journals over the contract: a log of events, folded, with snapshots as documents.

A snapshot names the version and stamp it was folded up to, under the name and version of its
reducer, so that a new reducer starts from the beginning instead of from an old one's state.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec import Struct

from contract.walk import Replica, Walk, is_a, text, values
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    Log,
    LogAt,
    Put,
    Trim,
    Value,
)

PLAN = Entity("shop", "journal", "plan-7")
SNAPSHOT = "snapshot/total@1"


class Fold(Struct, frozen=True):
    """The state after `upto` events; `snapshot` is the document it was last saved as, or 0."""

    total: int = 0
    upto: int = 0
    stamp: str | None = None
    snapshot: int = 0


def add(amount: int, *, op: str, at: Fold | None = None) -> Commit:
    """Publish an event; `at` if it was decided on what was known by then."""
    checks = () if at is None else (LogAt(at.upto, at.stamp),)
    return Commit(PLAN, op, (Append((text({"add": amount}),)),), checks)


def save(fold: Fold, *, op: str, trim: bool = False) -> Commit:
    """Keep a fold, and forget the events in it only together with that."""
    put = Put(SNAPSHOT, text({"total": fold.total, "upto": fold.upto, "stamp": fold.stamp}))
    writes = (put, Trim(fold.upto)) if trim else (put,)
    return Commit(PLAN, op, writes, (DocumentAt(SNAPSHOT, fold.snapshot),))


def read(fold: Fold) -> Fetch:
    """What happened after a fold, and the snapshot for the case that it is too far behind."""
    return Fetch(PLAN, log=Log(after=fold.upto, stamp=fold.stamp), documents=(SNAPSHOT,))


def saved(value: Value | None) -> Fold:
    if value is None:
        return Fold()
    return Fold(**json.loads(value.json), snapshot=value.version)


async def folded(replica: Replica, known: Fold) -> Fold:
    """The state now, from what is known; one round trip while the journal still has the rest."""
    fetched = is_a(await replica.one(read(known)), Fetched)
    snapshot = saved(fetched.documents.get(SNAPSHOT))
    if fetched.reset or fetched.truncated:
        known = snapshot
        fetched = is_a(await replica.one(read(known)), Fetched)
        assert not fetched.reset
        assert not fetched.truncated
    total = known.total + sum(event["add"] for event in values(fetched))
    head = fetched.head
    return Fold(total, head.version, head.stamp or None, snapshot.snapshot)


async def events(replica: Replica, *amounts: int) -> None:
    for amount in amounts:
        is_a(await replica.one(add(amount, op=f"add {amount}")), Applied)


async def test_an_event_is_one_commit_and_a_fold_reads_only_what_is_new(walk: Walk) -> None:
    await events(walk.a, 1, 2, 3)
    fold = await folded(walk.b, Fold())
    assert (fold.total, fold.upto) == (6, 3)
    await events(walk.a, 4)
    trips = walk.b.trips
    news = is_a(await walk.b.one(read(fold)), Fetched)
    assert values(news) == [{"add": 4}]
    assert (await folded(walk.b, fold)).total == 10
    assert walk.b.trips == trips + 2


async def test_two_agents_that_decide_on_the_same_state_do_not_both_publish(walk: Walk) -> None:
    await events(walk.a, 1)
    mine = await folded(walk.a, Fold())
    theirs = await folded(walk.b, Fold())
    is_a(await walk.a.one(add(10, op="a", at=mine)), Applied)
    is_a(await walk.b.one(add(20, op="b", at=theirs)), Conflict)
    theirs = await folded(walk.b, theirs)
    is_a(await walk.b.one(add(20, op="b2", at=theirs)), Applied)
    assert (await folded(walk.a, mine)).total == 31


async def test_an_event_whose_reply_was_lost_counts_once(walk: Walk) -> None:
    lost = add(5, op="lost")
    is_a(await walk.a.one(lost), Applied)
    assert is_a(await walk.a.one(lost), Duplicate).own
    assert (await folded(walk.b, Fold())).total == 5


async def test_a_snapshot_and_what_it_makes_superfluous_go_in_one_commit(walk: Walk) -> None:
    await events(walk.a, 1, 2, 3)
    fold = await folded(walk.a, Fold())
    is_a(await walk.a.one(save(fold, op="save", trim=True)), Applied)
    head = (await walk.a.fetch(PLAN)).head
    assert (head.version, head.base, head.live) == (3, 3, 0)
    assert not walk.holds('"add":2')
    await events(walk.a, 4)
    fold = await folded(walk.b, Fold())
    assert (fold.total, fold.upto, fold.snapshot) == (10, 4, 1)


async def test_an_older_snapshot_does_not_replace_a_newer_one(walk: Walk) -> None:
    await events(walk.a, 1, 2)
    old = await folded(walk.a, Fold())
    await events(walk.a, 3)
    new = await folded(walk.b, Fold())
    is_a(await walk.b.one(save(new, op="new", trim=True)), Applied)
    conflict = is_a(await walk.a.one(save(old, op="old", trim=True)), Conflict)
    assert saved(conflict.values[SNAPSHOT]).upto == 3
    assert (await folded(walk.a, Fold())).total == 6


async def test_a_reader_that_fell_behind_is_told_and_goes_on_from_the_snapshot(walk: Walk) -> None:
    await events(walk.a, 1)
    behind = await folded(walk.b, Fold())
    await events(walk.a, 2, 3)
    is_a(await walk.a.one(save(await folded(walk.a, Fold()), op="save", trim=True)), Applied)
    await events(walk.a, 4)
    told = is_a(await walk.b.one(read(behind)), Fetched)
    assert (told.truncated, told.head.base) == (True, 3)
    assert values(told) == [{"add": 4}]  # what is there, never glued onto the old fold unsaid
    assert saved(told.documents[SNAPSHOT]).total == 6  # comes with the news
    assert (await folded(walk.b, behind)).total == 10


async def test_a_reader_at_the_very_edge_of_what_was_trimmed_misses_nothing(walk: Walk) -> None:
    await events(walk.a, 1, 2)
    fold = await folded(walk.b, Fold())
    is_a(await walk.a.one(save(await folded(walk.a, Fold()), op="save", trim=True)), Applied)
    await events(walk.a, 3)
    news = is_a(await walk.b.one(read(fold)), Fetched)
    assert (news.truncated, news.reset) == (False, False)
    assert values(news) == [{"add": 3}]


async def test_a_journal_that_was_begun_anew_is_not_glued_onto_the_old_one(walk: Walk) -> None:
    await events(walk.a, 1, 2)
    fold = await folded(walk.b, Fold())
    is_a(await walk.a.one(Commit(PLAN, "drop", (Drop(),))), Applied)
    for number in range(3):  # longer than the old one: the numbers alone would agree
        is_a(await walk.a.one(add(100, op=f"anew {number}")), Applied)
    assert is_a(await walk.b.one(read(fold)), Fetched).reset
    assert (await folded(walk.b, fold)).total == 300
    is_a(await walk.b.one(add(1, op="stale", at=fold)), Conflict)


async def test_a_new_reducer_begins_at_the_beginning(walk: Walk) -> None:
    await events(walk.a, 1, 2)
    is_a(await walk.a.one(save(await folded(walk.a, Fold()), op="save")), Applied)  # not trimmed
    fetch = Fetch(PLAN, log=Log(), documents=("snapshot/total@2",))
    fetched = is_a(await walk.b.one(fetch), Fetched)
    assert fetched.documents == {}
    assert len(values(fetched)) == 2


async def test_an_agent_that_waits_is_woken_by_anothers_event(walk: Walk) -> None:
    await events(walk.a, 1)
    fold = await folded(walk.b, Fold())
    waiting = asyncio.create_task(walk.b.engine.wait({PLAN: fold.upto}, 60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    await events(walk.a, 2)
    async with asyncio.timeout(10):
        await waiting
    assert (await folded(walk.b, fold)).total == 3


async def test_a_copy_of_a_journal_has_its_events_but_not_their_places(walk: Walk) -> None:
    """What a restore can do today: numbers and stamps only as long as nothing was ever removed.

    An append for each append, with its stamp as the op, gives the same numbers and stamps. Times
    are new, trimmed numbers need entries to trim, and a document is at version 1 again.
    """
    await events(walk.a, 1, 2, 3)
    fold = await folded(walk.a, Fold())
    original = is_a(await walk.a.one(Fetch(PLAN, log=Log(details=True))), Fetched)
    is_a(await walk.a.one(Commit(PLAN, "drop", (Drop(),))), Applied)
    walk.advance(3600)
    copy = Entity("restored", PLAN.kind, PLAN.id)
    for entry in original.entries:
        is_a(await walk.b.one(Commit(copy, entry.stamp, (Append((entry.body,)),))), Applied)
    restored = is_a(await walk.b.one(Fetch(copy, log=Log(details=True))), Fetched)

    def places(fetched: Fetched) -> list[tuple[Any, ...]]:
        return [(entry.seq, entry.stamp, entry.body) for entry in fetched.entries]

    assert places(restored) == places(original)
    assert (restored.head.version, restored.head.stamp) == (fold.upto, fold.stamp)
    assert restored.entries[0].at == original.entries[0].at + 3600
