"""The operations log: who did what by hand, and that nobody can change it unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from stateward.codec import decode, encode
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, StoreFull, StoreUnavailable
from stateward.kinds import LOCK, OPERATIONS, THREAD, USER
from stateward.layers.policy import Policy
from stateward.observe.correlation import correlate
from stateward.ops import (
    Applied,
    Commit,
    Drop,
    Entity,
    Entry,
    Fetch,
    Fetched,
    Log,
    Op,
    Outcome,
    Replace,
    Restore,
)
from stateward.store import Store
from stateward.testing.conformance.harness import raises

ANN = "ann@ops-1"


async def written(store: Store, count: int) -> str:
    """So many entries; the head of the log."""
    for n in range(count):
        await store.operations.record(ANN, "thread show", THREAD, f"t-{n}")
    return (await store.operations.verify()).head


async def outcomes(store: Store) -> list[tuple[str, int | None]]:
    return [(each.outcome, each.of) async for each in store.operations.entries()]


# --- what it says -----------------------------------------------------------------------


@case
async def entries_have_the_correlation_id_of_the_request_they_belong_to(h: StoreHarness) -> None:
    async with h.store() as store:
        with correlate("r-1"):
            await store.operations.record(ANN, "thread show", THREAD, "t")
            await store.operations.record(ANN, "thread show", THREAD, "t", correlation="c-1")
            async with store.operations.recording(ANN, "lock break", LOCK, "inventory"):
                pass
        await store.operations.record(ANN, "thread show", THREAD, "t")
        found = [each.correlation async for each in store.operations.entries()]
        assert found == ["r-1", "c-1", "r-1", "r-1", None]


@case
async def a_deed_is_in_the_log_before_it_is_done_and_with_its_end(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        log = store.operations
        async with log.recording(
            ANN, "lock break", LOCK, "inventory", detail={"token": 7}, correlation="c-1"
        ) as found:
            (begun,) = [each async for each in other.operations.entries()]
            assert (begun.outcome, begun.of, begun.detail) == ("intended", None, {"token": 7})
            assert (await other.operations.verify()).unended == (1,)
            found["broken"] = True
        begun, ended = [each async for each in other.operations.entries()]
        assert (ended.outcome, ended.of, ended.detail) == ("done", 1, {"broken": True})
        for each in (begun, ended):
            assert (each.who, each.what, each.target) == (ANN, "lock break", "lock/inventory")
            assert each.correlation == "c-1"
        assert (begun.previous, ended.previous) == ("", begun.hash)
        check = await log.verify()
        assert (check.ok, check.entries, check.unended) == (True, 2, ())
        assert check.head == f"2:{ended.hash}"


@case
async def a_deed_that_fails_is_in_the_log_as_failed_without_its_words(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(ValueError):
            async with store.operations.recording(ANN, "task retry", "task", "t"):
                raise ValueError("call me on 555 0199")
        assert await outcomes(store) == [("intended", None), ("failed", 1)]
        (ended,) = [each async for each in store.operations.entries(last=1)]
        assert ended.detail == {"error": "ValueError"}


@case
async def a_deed_that_the_store_did_not_answer_stays_unended(h: StoreHarness) -> None:
    async with h.store() as store:
        with raises(StoreUnavailable):
            async with store.operations.recording(ANN, "task retry", "task", "t"):
                raise StoreUnavailable("no answer", applied="unknown")
        assert await outcomes(store) == [("intended", None)]
        check = await store.operations.verify()
        assert (check.ok, check.unended) == (True, (1,))


class Full(Passthrough):
    """An engine that takes no entry of the log while it is full."""

    full = True

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        for op in ops:
            if self.full and isinstance(op, Commit) and op.entity.kind == OPERATIONS:
                raise StoreFull("no room")
        return await super().execute(ops, deadline=deadline)


@case
async def without_an_entry_nothing_is_done_but_what_makes_room(h: StoreHarness) -> None:
    engine = Full(h.make_engine())
    policy = Policy(write_timeout=0.5)
    store = Store(engine, namespace=h.namespace, world=h.world, policy=policy)
    done = []
    async with store:
        with raises(StoreFull):
            async with store.operations.recording(ANN, "lock break", LOCK, "a"):
                done.append("lock break")
        assert not done
        async with store.operations.recording(ANN, "user erase", USER, "u", makes_room=True):
            done.append("user erase")
            engine.full = False
        assert done == ["user erase"]
        assert await outcomes(store) == [("done", None)]


@case
async def the_log_does_not_name_a_user_and_outlives_them(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.user("u-42").put({"name": "Ann"})
        async with store.operations.recording(ANN, "user erase", USER, "u-42"):
            await store.user("u-42").erase()
        entries = [each async for each in store.operations.entries()]
        assert len(entries) == 2
        assert "u-42" not in str(entries)
        await store.operations.record(ANN, "user show", USER, "u-42")
        await store.operations.record(ANN, "user show", USER, "u-43")
        targets = [each.target async for each in store.operations.entries()]
        assert targets[0] == targets[2] != targets[3]
        assert await store.counts() == {}


@case
async def a_log_is_of_one_namespace_and_nobodys_state(h: StoreHarness) -> None:
    async with h.store() as store:
        await written(store, 1)
        other = store.within(f"{h.namespace}-2")
        assert [each async for each in other.operations.entries()] == []
        check = await other.operations.verify()
        assert (check.ok, check.entries, check.head) == (True, 0, "")
        assert await store.counts() == {}


@case
async def what_is_no_entry_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        log = store.operations
        for who, what, kind, id in (("", "x", "k", "i"), ("w", "", "k", "i"), ("w", "x", "k", "")):
            with raises(InvalidInput):
                await log.record(who, what, kind, id)
        with raises(InvalidInput):
            await log.record(ANN, "x", "k", "i", detail={"all of it": "x" * 5000})
        with raises(InvalidInput):
            await log.verify("no head")
        assert (await log.verify()).entries == 0


# --- the chain --------------------------------------------------------------------------


@case
async def writers_at_once_make_one_chain(h: StoreHarness) -> None:
    """Four replicas with two each: within a process they queue, between them versions decide."""
    stores = [h.store() for _ in range(4)]

    async def write(store: Store, who: str) -> None:
        for n in range(3):
            async with store.operations.recording(who, "lock break", LOCK, f"{n}"):
                pass

    writers = [Beside(write, store, f"{n}-{at}") for n, store in enumerate(stores) for at in "ab"]
    for writer in writers:
        await writer.result()
    check = await stores[0].operations.verify()
    assert (check.problems, check.entries, check.unended) == ((), 8 * 3 * 2, ())
    entries = [each async for each in stores[0].operations.entries()]
    for who in {each.who for each in entries}:
        deeds = [each.target for each in entries if each.who == who]
        assert deeds == ["lock/0", "lock/0", "lock/1", "lock/1", "lock/2", "lock/2"]
    for entry in entries:
        if entry.of is not None:
            begun = entries[entry.of - 1]
            assert (begun.who, begun.target, begun.outcome) == (entry.who, entry.target, "intended")


Tampering = Callable[[list[Entry], int], list[Entry]]


def changed(entries: list[Entry], at: int) -> list[Entry]:
    said = decode(entries[at].body) | {"who": "bob@ops-1"}
    return with_one(entries, at, replace(entries[at], body=encode(said, "the entry")))


def redated(entries: list[Entry], at: int) -> list[Entry]:
    return with_one(entries, at, replace(entries[at], at=entries[at].at - 3600.0))


def spoilt(entries: list[Entry], at: int) -> list[Entry]:
    return with_one(entries, at, replace(entries[at], body='{"n":1}'))


def removed(entries: list[Entry], at: int) -> list[Entry]:
    return [*entries[:at], *entries[at + 1 :]]


def closed_up(entries: list[Entry], at: int) -> list[Entry]:
    return numbered(removed(entries, at))


def swapped(entries: list[Entry], at: int) -> list[Entry]:
    order = [*entries]
    order[at - 1], order[at] = order[at], order[at - 1]
    return numbered(order)


def inserted(entries: list[Entry], at: int) -> list[Entry]:
    """One that follows from the one before it; the one after it does not."""
    return numbered([*entries[:at], entries[at], *entries[at:]])


def with_one(entries: list[Entry], at: int, entry: Entry) -> list[Entry]:
    return [*entries[:at], entry, *entries[at + 1 :]]


def numbered(entries: list[Entry]) -> list[Entry]:
    return [replace(entry, seq=n) for n, entry in enumerate(entries, 1)]


async def tamper(h: StoreHarness, store: Store, kept: Fetched, entries: list[Entry]) -> None:
    """Write a log that looks like one, past everything that guards it."""
    entity = Entity(h.namespace, OPERATIONS, OPERATIONS)
    last = entries[-1]
    head = replace(kept.head, version=last.seq, stamp=last.stamp)
    commit = Commit(entity, h.world.new_op(), (Restore(head, tuple(entries)),))
    (outcome,) = await store.sections["workflows"].execute((commit,))
    assert isinstance(outcome, Applied)


async def whole(h: StoreHarness, store: Store) -> Fetched:
    entity = Entity(h.namespace, OPERATIONS, OPERATIONS)
    (fetched,) = await store.sections["workflows"].execute((Fetch(entity, log=Log(whole=True)),))
    assert isinstance(fetched, Fetched)
    return fetched


@case
async def tampering_is_found_wherever_it_is_done(h: StoreHarness) -> None:
    count = 5
    async with h.store() as store:
        head = await written(store, count)
        kept = await whole(h, store)
        entries = [*kept.entries]
        ways: tuple[Tampering, ...] = (
            *(changed, redated, spoilt, removed, closed_up, swapped, inserted),
        )
        for way in ways:
            for at in range(1 if way is swapped else 0, count):
                await tamper(h, store, kept, way(entries, at))
                against_head = await store.operations.verify(head)
                assert not against_head.ok, (way.__name__, at)
                async with h.store() as stranger:  # the first has seen the log as it was
                    alone = await stranger.operations.verify()
                assert not (await store.operations.verify()).ok, (way.__name__, at)
                # Nothing follows the last one yet that would name its hash.
                at_the_end = at == count - 1 and way in (changed, redated, removed, closed_up)
                assert alone.ok is at_the_end, (way.__name__, at, alone.problems)
        await tamper(h, store, kept, entries)
        assert (await store.operations.verify(head)).ok


@case
async def a_log_that_was_cut_off_or_written_anew_shows_against_a_kept_head(h: StoreHarness) -> None:
    async with h.store() as store:
        early = await written(store, 3)
        late = await written(store, 3)
        assert (await store.operations.verify(early)).ok  # it has grown since
        kept = await whole(h, store)
        await tamper(h, store, kept, [*kept.entries[:4]])
        async with h.store() as stranger:
            assert (await stranger.operations.verify()).ok
            check = await stranger.operations.verify(early)
            assert (check.ok, check.confirmed) == (True, 3)
            (problem,) = (await stranger.operations.verify(late)).problems
            assert problem.startswith("the entry 6 that was saved as the head is missing")
        entity = Entity(h.namespace, OPERATIONS, OPERATIONS)
        await store.sections["workflows"].execute((Commit(entity, h.world.new_op(), (Drop(),)),))
        async with h.store() as stranger:
            for n in range(6):
                await stranger.operations.record("bob@ops-1", "thread show", THREAD, f"t-{n}")
            assert (await stranger.operations.verify()).ok
            for heads, found in ((early, 1), (late, 1), ([early, late], 2)):
                problems = (await stranger.operations.verify(heads)).problems
                assert len(problems) == found
                for problem in problems:
                    assert "is not the one that was saved as the head" in problem
        (problem,) = (await store.operations.verify()).problems
        assert problem.startswith("entry 6 is not the one"), "this process has read it before"


@clock_case
async def of_several_heads_those_that_were_trimmed_do_not_matter(h: StoreHarness) -> None:
    async with h.store() as store:
        early = await written(store, 2)
        await written(store, 1)
        await h.pass_time(60.0)
        late = await written(store, 1)
        await written(store, 1)
        entries = [each async for each in store.operations.entries()]
        assert await store.operations.trim(entries[3].at) == 3
        async with h.store() as stranger:
            check = await stranger.operations.verify([early, late])
            assert (check.ok, check.base, check.confirmed) == (True, 3, 4)
            assert not (await stranger.operations.verify(early)).ok


@case
async def an_entry_that_is_removed_by_an_operation_is_missed_also_at_the_end(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        await written(store, 3)
        entity = Entity(h.namespace, OPERATIONS, OPERATIONS)
        remove: Any = Replace({3: None})
        await store.sections["workflows"].execute((Commit(entity, h.world.new_op(), (remove,)),))
        async with h.store() as stranger:
            assert (await stranger.operations.verify()).problems == ("entry 3 is missing",)


# --- how long it is kept ----------------------------------------------------------------


@clock_case
async def what_is_left_after_trimming_is_verified_from_what_was_trimmed(h: StoreHarness) -> None:
    async with h.store() as store:
        log = store.operations
        old = await written(store, 3)
        await h.pass_time(86_400.0)
        new = await written(store, 2)
        entries = [each async for each in log.entries()]
        assert await log.trim(entries[3].at) == 3
        assert await log.trim(entries[3].at) == 0
        assert [each async for each in log.entries()] == entries[3:]
        check = await log.verify(new)
        assert (check.ok, check.entries, check.base, check.head) == (True, 2, 3, new)
        assert (await log.verify(old)).ok  # the very one that the rest follows from
        (problem,) = (await log.verify(f"2:{entries[1].hash}")).problems
        assert "has been trimmed" in problem
        await written(store, 1)
        kept = await whole(h, store)
        late = [entry for entry in kept.entries if entry.body]
        assert [entry.seq for entry in late] == [4, 5, 6]


@case
async def a_log_that_was_trimmed_to_nothing_goes_on_from_its_last_hash(h: StoreHarness) -> None:
    async with h.store() as store:
        log = store.operations
        head = await written(store, 3)
        (last,) = [each async for each in log.entries(last=1)]
        later = last.at + timedelta(seconds=1)
        assert await log.trim(later) == 3
        check = await log.verify(head)
        assert (check.ok, check.entries, check.base, check.head) == (True, 0, 3, head)
        await log.record(ANN, "thread show", THREAD, "t")
        (entry,) = [each async for each in log.entries()]
        assert (entry.number, entry.previous) == (4, last.hash)
        assert (await log.verify(head)).ok
        with raises(InvalidInput):
            await log.trim(later.replace(tzinfo=None))


@case
async def a_broken_log_is_not_trimmed(h: StoreHarness) -> None:
    async with h.store() as store:
        await written(store, 3)
        kept = await whole(h, store)
        await tamper(h, store, kept, changed([*kept.entries], 1))
        (last,) = [each async for each in store.operations.entries(last=1)]
        with raises(InvalidInput):
            await store.operations.trim(last.at + timedelta(seconds=1))
        assert (await store.operations.verify()).entries == 3
