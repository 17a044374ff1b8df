"""Every kind of commit counts once, touches its entity and leaves the contract's stamps.

Refused and repeated ones count and touch nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from stateward.engine import MINUTE, OPS_KEPT, OPS_SECONDS
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Held,
    KeyReused,
    Lease,
    Log,
    LogAt,
    NotYours,
    Op,
    Outcome,
    Put,
    Release,
    Restore,
    SetHead,
    Trim,
    Unheld,
    Write,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.combined import (
    APPENDS,
    CREATING,
    EXISTING,
    NONCE,
    OTHERS,
    TTL,
    CommitShape,
    answer,
    comparable,
    left_by,
    ready,
    takes_lease,
)
from stateward.testing.conformance.harness import Caller, Harness, bodies, is_a, is_absent, lines

AT_ONCE = 100  # operations in a batch
T = TypeVar("T")


def in_parts(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), AT_ONCE):
        yield things[start : start + AT_ONCE]


async def all_of(a: Caller, ops: Sequence[Op]) -> list[Outcome]:
    """The outcomes of many operations, in batches."""
    return [outcome for part in in_parts(ops) for outcome in await a.execute(*part)]


async def fetch_all(a: Caller, entities: Sequence[Entity]) -> list[Fetched]:
    """Fetch all parts of each entity."""
    fetches = [Fetch(entity, log=Log(details=True), all_documents=True) for entity in entities]
    return [is_a(fetched, Fetched) for fetched in await all_of(a, fetches)]


async def is_unchanged(a: Caller, entities: Sequence[Entity], before: Sequence[Fetched]) -> None:
    """Compare entity by entity: the difference of two long lists takes minutes to explain."""
    for earlier, now in zip(before, await fetch_all(a, entities), strict=True):
        assert now == earlier


async def subjects(
    a: Caller, h: Harness, shapes: Sequence[CommitShape], owner: str = "u"
) -> tuple[list[Commit], list[Fetched]]:
    """A commit of each shape for an entity of its own that exists, and how the entity is before."""
    entities = [h.entity(f"{owner}{number:04}") for number in range(len(shapes))]
    made = zip(entities, shapes, strict=True)
    await all_of(a, [ready(entity, owner, shape.history) for entity, shape in made])
    leases: dict[Entity, Lease | None] = {}
    for shape, entity in zip(shapes, entities, strict=True):
        if shape.leased:
            leases[entity] = (await a.apply(entity, Acquire(NONCE, TTL))).lease
    before = await fetch_all(a, entities)
    commits = [
        shape.commit(entity, h.new_id(), leases.get(entity))
        for shape, entity in zip(shapes, entities, strict=True)
    ]
    return commits, before


def judge(commit: Commit, before: Fetched, after: Fetched, outcome: Outcome, name: str) -> None:
    """Compare what a commit that was applied left behind, and its answer, with the contract."""
    applied = is_a(outcome, Applied)
    assert comparable(after) == left_by(commit, before, applied), name
    assert applied == answer(commit, before, after, applied), name
    assert (applied.lease is not None) == takes_lease(commit), name
    if any(type(write) is Release for write in commit.writes):
        assert after.head.lease is None, name
    elif not takes_lease(commit):
        assert after.head.lease == before.head.lease, name


def judge_all(
    shapes: Sequence[CommitShape],
    commits: Sequence[Commit],
    before: Sequence[Fetched],
    after: Sequence[Fetched],
    outcomes: Sequence[Outcome],
) -> None:
    for number, shape in enumerate(shapes):
        judge(commits[number], before[number], after[number], outcomes[number], shape.name)


# --- what is applied --------------------------------------------------------------------


@case
async def every_commit_counts_once_and_stamps_what_it_wrote(h: Harness) -> None:
    """Alone in its batch, and read by another replica."""
    a, b = await h.replica(), await h.replica()
    commits, before = await subjects(a, h, EXISTING)
    outcomes = [(await a.execute(commit))[0] for commit in commits]
    after = await fetch_all(b, [commit.entity for commit in commits])
    judge_all(EXISTING, commits, before, after, outcomes)


@case
async def every_commit_of_a_batch_counts_once_and_stamps_what_it_wrote(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    commits, before = await subjects(a, h, EXISTING)
    outcomes = await all_of(a, commits)
    after = await fetch_all(b, [commit.entity for commit in commits])
    judge_all(EXISTING, commits, before, after, outcomes)


@case
async def every_commit_that_creates_counts_once_whatever_was_there_before(h: Harness) -> None:
    """Entities that never were, were dropped or have expired; alone and in a batch."""
    a, b = await h.replica(), await h.replica()
    for past in ("never", "dropped", "expired"):
        shapes = [(shape, alone) for shape in CREATING for alone in (True, False)]
        commits = [
            shape.commit(h.entity(f"{past} {number:04}"), h.new_id())
            for number, (shape, _) in enumerate(shapes)
        ]
        entities = [commit.entity for commit in commits]
        old: tuple[Write, ...] = (Append(bodies(1, 2), key="k"), Put("doc", "1"), Put("gone", "1"))
        retain = h.span if past == "expired" else None
        if past != "never":
            olds = [
                Commit(entity, h.new_id(), old, owner="old", retain=retain) for entity in entities
            ]
            await all_of(a, olds)
        if past == "dropped":
            await all_of(a, [Commit(entity, h.new_id(), (Drop(),)) for entity in entities])
        if past == "expired":
            await h.pass_time(h.span)
        before = await fetch_all(a, entities)
        assert all(map(is_absent, before))
        assert {fetched.head.commits for fetched in before} == {
            {"never": 0, "dropped": 2, "expired": 1}[past]
        }
        outcomes: dict[Entity, Outcome] = {}
        together = []
        for (_, alone), commit in zip(shapes, commits, strict=True):
            if alone:
                (outcomes[commit.entity],) = await a.execute(commit)
            else:
                together.append(commit)
        for commit, outcome in zip(together, await all_of(a, together), strict=True):
            outcomes[commit.entity] = outcome
        after = await fetch_all(b, entities)
        for (shape, _), commit, then, now in zip(shapes, commits, before, after, strict=True):
            began = replace(then.head, life=now.head.life)
            judge(commit, replace(then, head=began), now, outcomes[commit.entity], shape.name)


@case
async def drops_are_counted_and_restores_say_the_count_themselves(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for count in (1, 2):
        await a.apply(entity, Drop())
        assert (await a.head(entity)).commits == count
    (write,) = ready(entity).writes
    for _ in range(2):
        await a.apply(entity, write)
        assert (await a.head(entity)).commits == 7
    assert isinstance(write, Restore)
    await a.apply(entity, replace(write, continued=True))
    assert (await a.head(entity)).commits == 7
    await a.apply(entity, Append(bodies(4)))
    await a.apply(entity, Drop())
    assert (await a.head(entity)).commits == 9


# --- what is touched --------------------------------------------------------------------


def new_owner(commit: Commit) -> str | None:
    """Return the owner that the commit gives its entity to, if it does."""
    return next((w.owner for w in commit.writes if type(w) is SetHead and w.owner), None)


async def newest(a: Caller, h: Harness, owner: str | None = None, reverse: bool = False) -> str:
    """The entity that a listing by recency puts first, or last, by the minute."""
    page = await a.listing(
        h.namespace, kind="thing", recent=True, limit=1, owner=owner, reverse=reverse
    )
    return page.entities[0].entity.id


@case
async def every_commit_moves_its_entity_up_among_the_recent(h: Harness) -> None:
    """Of all and of its owner; every other one has not been touched for years."""
    a = await h.replica()
    shapes = [shape for shape in EXISTING if not shape.leased]
    for owner in ("", "u"):  # the later ids are the greater ones
        fitting = [s for s in shapes if s.owner in (None, owner)]
        commits, before = await subjects(a, h, fitting, owner)
        for commit, then in zip(commits, before, strict=True):
            (outcome,) = await a.execute(commit)
            applied = is_a(outcome, Applied)
            assert applied.at // MINUTE > then.head.updated // MINUTE
            theirs = new_owner(commit) or owner
            assert await newest(a, h) == commit.entity.id, commit
            assert await newest(a, h, theirs) == commit.entity.id, commit


@case
async def every_commit_of_a_batch_moves_its_entity_up_among_the_recent(h: Harness) -> None:
    a = await h.replica()
    still = h.entity("still")
    shapes = [shape for shape in EXISTING if not shape.leased]
    commits, _ = await subjects(a, h, shapes)
    await a.execute(ready(still))
    for outcome in await all_of(a, commits):
        is_a(outcome, Applied)
    for owner in (None, "u"):
        page = await a.listing(h.namespace, kind="thing", recent=True, limit=900, owner=owner)
        touched = {shown.entity.id for shown in page.entities[:-1]}
        assert page.entities[-1].entity == still
        assert len(touched) == len(page.entities) - 1
        assert await newest(a, h, owner, reverse=True) == "still"


@clock_case
async def every_commit_moves_its_entity_up_when_minutes_have_passed(h: Harness) -> None:
    """Also those that need a lease, whose entity was touched when that was taken."""
    a = await h.replica()
    singles = [
        CommitShape(name, (write,), checks)
        for name, write in (APPENDS | OTHERS).items()
        for checks in ((), (Fence(0, NONCE),), (LogAt(3),))
    ]
    commits, _ = await subjects(a, h, singles)
    for commit, shape in zip(commits, singles, strict=True):
        await h.pass_time(MINUTE)
        applied = is_a((await a.execute(commit))[0], Applied)
        theirs = "v" if shape.name == "set owner" else "u"
        for owner in (None, theirs):
            assert await newest(a, h, owner) == commit.entity.id, shape
        assert (await a.head(commit.entity)).updated == applied.at


# --- what is refused or repeated --------------------------------------------------------


def refused(commit: Commit) -> Iterator[tuple[type, Commit]]:
    """Vary the commit in all the ways in which it is refused, with the outcome of each."""
    checks = commit.checks
    anew = replace(commit, op=f"{commit.op} refused")
    held = any(type(check) is Unheld for check in checks)
    yield Held if held else Conflict, replace(anew, checks=(*checks, LogAt(77)))
    yield Fenced, replace(anew, checks=(*checks, Fence(1, "forged")))
    yield NotYours, replace(anew, owner="stranger")
    if all(isinstance(write, Append | Put) for write in commit.writes):
        yield Held, replace(anew, checks=(), writes=(*commit.writes, Acquire("another's", TTL)))


@case
async def refused_commits_count_nothing_touch_nothing_and_stamp_nothing(h: Harness) -> None:
    """Each shape refused in every way, alone and in one batch with others."""
    a, b = await h.replica(), await h.replica()
    commits, _ = await subjects(a, h, EXISTING)
    holders = [Commit(commit.entity, h.new_id(), (Acquire(NONCE, TTL),)) for commit in commits]
    for outcome in await all_of(a, holders):
        is_a(outcome, Applied)
    entities = [commit.entity for commit in commits]
    before = await fetch_all(a, entities)
    ways = [list(refused(commit)) for commit in commits]
    await h.pass_time(0.01)
    for number in range(max(map(len, ways))):
        fitting = [way[number] for way in ways if number < len(way)]
        for (expected, commit), outcome in zip(
            fitting, await all_of(a, [commit for _, commit in fitting]), strict=True
        ):
            assert type(outcome) is expected, (commit, outcome)
    for expected, commit in [way[0] for way in ways]:
        (outcome,) = await a.execute(commit)
        assert type(outcome) is expected, (commit, outcome)
    await is_unchanged(b, entities, before)


@case
async def repeated_commits_count_nothing_touch_nothing_and_stamp_nothing(h: Harness) -> None:
    """By the op and by the key, alone and in a batch, on entities old and new."""
    a, b = await h.replica(), await h.replica()
    commits, _ = await subjects(a, h, EXISTING)
    commits += [
        shape.commit(h.entity(f"new {number:04}"), h.new_id())
        for number, shape in enumerate(CREATING)
    ]
    outcomes = [(await a.execute(commit))[0] for commit in commits]
    entities = [commit.entity for commit in commits]
    before = await fetch_all(a, entities)
    await h.pass_time(0.01)
    alone = [(await b.execute(commit))[0] for commit in commits]
    for repeats in (alone, await all_of(a, commits)):
        for commit, first, repeat in zip(commits, outcomes, repeats, strict=True):
            if commit.owner == "u" and new_owner(commit):
                is_a(repeat, NotYours)  # the commit gave it to another
                continue
            again = is_a(repeat, Duplicate)
            assert again.own
            assert again.first == replace(is_a(first, Applied), values={}), commit
    for commit, outcome in zip(commits, outcomes, strict=True):
        for expected, keyed in by_key(commit, h.new_id()):
            for checked in (keyed, replace(keyed, checks=(LogAt(77),))):
                (answered,) = await b.execute(checked)
                assert type(answered) is expected, (checked, answered)
                if type(answered) is Duplicate:
                    applied = is_a(outcome, Applied)
                    assert not answered.own
                    assert answered.first == Applied(applied.version, commit.op, applied.at)
    await is_unchanged(b, entities, before)


def by_key(commit: Commit, op: str) -> Iterator[tuple[type, Commit]]:
    """The key of the commit's append once more, alone, with the same bodies and with others."""
    for write in commit.writes:
        if type(write) is Append and write.key is not None:
            yield Duplicate, Commit(commit.entity, op, (write,))
            yield KeyReused, Commit(commit.entity, op, (replace(write, bodies=bodies(0)),))


@clock_case
async def an_old_op_is_known_after_its_entries_went_whatever_others_have(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    entity, longer = h.entity("entity"), h.entity("longer")
    appends = [Commit(entity, f"{n:03}", (Append(bodies(n)),)) for n in range(10)]
    others = [Commit(longer, f"{n:03}", (Append(bodies(n, n)),)) for n in range(2 * OPS_KEPT)]
    for commit in (*appends, *others):
        is_a((await a.execute(commit))[0], Applied)
    before = await fetch_all(a, [longer])
    await h.pass_time(2 * OPS_SECONDS)
    await a.apply(entity, Trim(10))
    for commit in (*appends, *others[-OPS_KEPT:]):
        assert is_a((await b.execute(commit))[0], Duplicate).own, commit
    await is_unchanged(b, [longer], before)
    assert (await b.head(entity)).version == 10


@case
async def an_op_is_known_after_a_part_of_a_restore_came_behind_its_entry(h: Harness) -> None:
    """Its entry stays, so it does, though it is greater than the stamp that the head has now."""
    a, b = await h.replica(), await h.replica()
    entity = h.entity()
    append = Commit(entity, "~1", (Append(bodies(1)),))
    first = is_a((await a.execute(append))[0], Applied)
    head = replace(await a.head(entity), version=3, stamp="!3")
    entries = tuple(Entry(seq, 1.0, body, "!3") for seq, body in enumerate(bodies(2, 3), 2))
    await a.apply(entity, Restore(head, entries, continued=True))
    assert is_a((await b.execute(append))[0], Duplicate).first == first
    assert (await b.fetch(entity, Log())).lines == lines(1, 2, 3)


@case
async def a_part_of_a_restore_leaves_the_entries_around_it(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    entity = h.entity()
    for number in range(1, 6):
        await a.apply(entity, Append(bodies(number)))
    whole = await a.fetch(entity, Log(whole=True))
    middle = replace(whole.entries[2], body=bodies(9)[0])
    await a.apply(entity, Restore(whole.head, (middle,), continued=True))
    assert (await b.fetch(entity, Log())).lines == lines(1, 2, 9, 4, 5)
    assert (await b.head(entity)).live == 5


@clock_case
async def recent_ops_are_known_after_their_entries_went_however_many(h: Harness) -> None:
    a = await h.replica()
    entity = h.entity()
    appends = [Commit(entity, f"{n:03}", (Append(bodies(n)),)) for n in range(2 * OPS_KEPT)]
    for commit in appends:
        is_a((await a.execute(commit))[0], Applied)
    await h.pass_time(OPS_SECONDS / 2)
    await a.apply(entity, Trim(2 * OPS_KEPT))
    for commit in appends:
        assert is_a((await a.execute(commit))[0], Duplicate).own, commit
