"""Random histories on the memory engine, which is the model, and on SQLite: the same outcomes.

Both engines get the same operations with the same op ids at the same time of one clock, and
must answer alike, field by field. Left out of the comparison is what the contract leaves free:
the text of `Listed.next`, how many rows a sweep counts, and how long beyond its promise an engine
remembers (the histories are too short for that to differ).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from stateward.engine import GRACE, KEY_SECONDS
from stateward.engines.memory.model import Model
from stateward.engines.sqlite.file import File
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fence,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    LogAt,
    NotDroppedSince,
    NotYours,
    Op,
    Outcome,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Sweep,
    Swept,
    Trim,
    Unheld,
    Write,
)
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.engines.sqlite.engine import SqliteEngine
from stateward.testing.clock import SteppableWorld

START = 1_700_000_000.0
WEEK = 7 * 86_400.0

ENTITIES = (
    Entity("n", "thread", "a"),
    Entity("n", "thread", "a\x00b"),
    Entity("n", "thread", "é"),
    Entity("n", "user", "é"),
    Entity("m", "thread", "a"),
)
OWNERS = (None, "", "u", "v")
NAMES = ("vars", "x", "a\x00")
KEYS = (None, "k", "k\x00")
NONCES = ("one", "two")
STATUSES = ("", "on", "off")
LABELS = ("", "refund")

PLACES = st.sampled_from(ENTITIES)
SPANS = st.sampled_from((0.5, 0.5, 29.5, 30.0, 600.0, GRACE / 2, GRACE, 2 * GRACE))
OFF_BY = st.sampled_from((0, 0, 0, 0, 0, 1, -1, 2))  # from the truth, so that most checks hold
TEXTS = st.integers(0, 2).map(str)
TURNS = st.sampled_from((("0",), ("0",), ("0", "1"), ("0", "1", "2"), ("2",)))
SELDOM = st.sampled_from((False,) * 9 + (True,))

FILTERS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from((None, "user")),
    "owner": st.sampled_from(("", "u", "v")),
    "prefix": st.sampled_from(("a", "a\x00", "é", "b")),
    "status": st.sampled_from(STATUSES),
    "label": st.sampled_from(LABELS),
    "due": st.just(True),
    "expired": st.just(True),
    "documents": st.sampled_from((("vars",), NAMES)),
}
SELECTIONS = st.sets(st.sampled_from(sorted(FILTERS)), max_size=2).flatmap(
    lambda chosen: st.fixed_dictionaries({name: FILTERS[name] for name in sorted(chosen)})
)

EVERY_ANSWER = (
    "Applied",
    "Duplicate own",
    "Duplicate key",
    "KeyReused",
    "Conflict",
    "Held",
    "Fenced",
    "NotYours",
    "Fetched",
    "Fetched reset",
    "Fetched truncated",
    "Listed",
    "Listed next",
)
met: Counter[str] = Counter()


class Histories(RuleBasedStateMachine):
    """One history; every step is taken by both engines."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="stateward-model-")
        self.world = SteppableWorld(START)
        path = Path(self.folder.name) / "store.db"
        file = File(str(path), relaxed=True, migrate=True, world=self.world)
        self.memory = MemoryEngine(Model(), self.world)
        self.sqlite = SqliteEngine(file)
        self.sqlite.open()
        self.commits = 0
        self.passed = 0.0
        self.ops: dict[Entity, list[str]] = {entity: [] for entity in ENTITIES}
        self.leases: dict[Entity, list[tuple[int, str]]] = {entity: [] for entity in ENTITIES}
        self.lives: dict[Entity, set[tuple[int, int]]] = {entity: set() for entity in ENTITIES}

    def teardown(self) -> None:
        try:
            self.same_everywhere()
        finally:
            self.sqlite.close()
            self.folder.cleanup()

    # --- asking both ----------------------------------------------------------------

    def ask(self, *ops: Op) -> list[Outcome]:
        """What both answer."""
        wanted = self.memory.execute(ops)
        given = self.sqlite.execute(ops)
        for op, right, answer in zip(ops, wanted, given, strict=True):
            same(answer, right, op)
            met[kind_of(right)] += 1
        return wanted

    def head(self, entity: Entity) -> Fetched:
        """The truth, unseen by the other engine."""
        fetch = Fetch(entity, log=Log(), all_documents=True)
        return is_fetched(self.memory.execute((fetch,))[0])

    def same_everywhere(self) -> None:
        self.ask(*[everything_of(entity) for entity in ENTITIES])
        self.same_lives()

    def same_lives(self) -> None:
        """A life's number is the engine's own; that two lives are two is not."""
        for entity, lives in self.lives.items():
            heads = [engine.execute((Fetch(entity),))[0] for engine in (self.memory, self.sqlite)]
            ours, theirs = (is_fetched(outcome).head for outcome in heads)
            if ours.exists:
                lives.add((ours.life, theirs.life))
            assert len({mine for mine, _ in lives}) == len({yours for _, yours in lives})
            assert len(lives) == len({mine for mine, _ in lives})

    # --- steps ----------------------------------------------------------------------

    @rule(data=st.data(), entity=PLACES, times=st.integers(1, 6))
    def commit(self, data: st.DataObject, entity: Entity, times: int) -> None:
        for _ in range(times):
            commit = self.draw_commit(data, entity)
            self.note(commit, self.ask(commit)[0])
        self.ask(everything_of(entity))

    @rule(
        entity=PLACES,
        turns=st.lists(st.tuples(TURNS, st.sampled_from((None, None, "k", "k\x00"))), max_size=5),
    )
    def append(self, entity: Entity, turns: list[tuple[tuple[str, ...], str | None]]) -> None:
        """What most commits are: one append, nothing checked."""
        for bodies, key in turns:
            self.commits += 1
            note = None if self.commits % 3 else f'{{"n":{self.commits}}}'
            append = Append(bodies, key, note=note)
            commit = Commit(entity, f"op {self.commits}", (append,), retain=GRACE)
            self.note(commit, self.ask(commit)[0])

    @rule(owner=st.sampled_from((None, "u")), status=st.sampled_from((None, *STATUSES)))
    def append_everywhere(self, owner: str | None, status: str | None) -> None:
        """Listings are about many."""
        self.commits += 1
        writes = (Append(("0",)), SetHead(status=status))
        commits = [Commit(e, f"op {self.commits}", writes, owner=owner) for e in ENTITIES]
        for commit, outcome in zip(commits, self.ask(*commits), strict=True):
            self.note(commit, outcome)

    @rule(data=st.data(), entity=PLACES, times=st.integers(1, 6))
    def lease(self, data: st.DataObject, entity: Entity, times: int) -> None:
        for _ in range(times):
            self.commits += 1
            write = data.draw(self.lease_writes(data, entity))
            commit = Commit(entity, f"op {self.commits}", (write,))
            self.note(commit, self.ask(commit)[0])

    @rule(source=PLACES, place=PLACES, size=st.integers(1, 5))
    def restore(self, source: Entity, place: Entity, size: int) -> None:
        """What one place holds is put into another, in parts."""
        whole = Fetch(source, log=Log(whole=True), all_documents=True)
        seen = is_fetched(self.ask(whole)[0])
        if not seen.head.exists:
            return
        parts = [seen.entries[at : at + size] for at in range(0, len(seen.entries), size)] or [()]
        for number, part in enumerate(parts):
            self.commits += 1
            documents = seen.documents if part is parts[-1] else {}
            write = Restore(seen.head, part, documents, continued=number > 0)
            self.ask(Commit(place, f"op {self.commits}", (write,)))
        self.ops[place].clear()
        self.ask(everything_of(place), replace(whole, entity=place))

    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        """Operations of a batch are concurrent: none reads what another one writes."""
        written = data.draw(st.lists(PLACES, min_size=1, max_size=3, unique=True))
        ops: list[Op] = [self.draw_commit(data, entity) for entity in written]
        ops += [self.draw_fetch(data, entity) for entity in ENTITIES if entity not in written]
        ops = data.draw(st.permutations(ops))
        for op, outcome in zip(ops, self.ask(*ops), strict=True):
            if isinstance(op, Commit):
                self.note(op, outcome)

    @rule(data=st.data(), entity=PLACES)
    def fetch(self, data: st.DataObject, entity: Entity) -> None:
        self.ask(self.draw_fetch(data, entity))

    @rule(selection=SELECTIONS, reverse=st.booleans(), limit=st.integers(1, 2))
    def list_entities(self, selection: dict[str, Any], reverse: bool, limit: int) -> None:
        self.same_pages(List("n", reverse=reverse, limit=limit, **selection))

    @rule(selection=SELECTIONS, reverse=st.booleans(), limit=st.integers(1, 3))
    def list_recent(self, selection: dict[str, Any], reverse: bool, limit: int) -> None:
        selection = {name: value for name, value in selection.items() if name != "due"}
        wanted = {**selection, "kind": "thread", "recent": True}
        self.same_pages(List("n", reverse=reverse, limit=limit, **wanted))

    @rule(
        tally=st.sampled_from(("kind", "owner")),
        owner=st.sampled_from(OWNERS),
        kind=st.sampled_from((None, "thread", "user")),
    )
    def count(self, tally: Any, owner: str | None, kind: str | None) -> None:
        self.same_pages(List("n", tally=tally, owner=owner, kind=kind, limit=1))

    @rule(entity=PLACES, owner=st.sampled_from(OWNERS), prefix=st.sampled_from(("", "a", "v")))
    def list_documents(self, entity: Entity, owner: str | None, prefix: str) -> None:
        for reverse in (False, True):
            for values in (False, True):
                listing = List(entity.namespace, owner=owner, prefix=prefix, within=entity)
                self.same_pages(replace(listing, reverse=reverse, values=values, limit=2))

    @rule(limit=st.sampled_from((1, 2, 5, 1000)))
    def sweep(self, limit: int) -> None:
        """Both to the end: how many steps that takes is their own affair."""
        for engine in (self.memory, self.sqlite):
            for _ in range(1000):
                swept = engine.execute((Sweep(limit),))[0]
                assert isinstance(swept, Swept)
                if not swept.more:
                    break
            else:
                raise AssertionError("sweeping does not come to an end")
            assert engine.execute((Sweep(limit),))[0] == Swept()
        for lives in self.lives.values():
            lives.clear()  # what is forgotten may be numbered anew
        self.same_everywhere()

    @rule(seconds=SPANS)
    def time_passes(self, seconds: float) -> None:
        self.passed += seconds
        self.world.advance(seconds)

    @precondition(lambda self: 0 < self.passed < KEY_SECONDS - GRACE)
    @rule(seconds=st.sampled_from((0.5, 100.0, 700.0)))
    def clock_is_set_back(self, seconds: float) -> None:
        """Not where a key may just have been forgotten, which an engine may do for good."""
        self.world.advance(-seconds)

    # --- drawing --------------------------------------------------------------------

    def draw_commit(self, data: st.DataObject, entity: Entity) -> Commit:
        self.commits += 1
        now = self.head(entity)
        used = self.ops[entity]
        again = used and data.draw(SELDOM)
        op = data.draw(st.sampled_from(used)) if again else f"op {self.commits}"
        owner = data.draw(st.sampled_from((None, None, None, now.head.owner, "u", "")))
        return Commit(
            entity,
            op,
            self.draw_writes(data, entity, now),
            tuple(self.draw_checks(data, entity, now)),
            owner,
            data.draw(st.sampled_from((None, None, 30.0, 600.0, GRACE))),
            data.draw(st.sampled_from(((), (), ("vars",), NAMES))),
        )

    def draw_checks(self, data: st.DataObject, entity: Entity, now: Fetched) -> list[Check]:
        head = now.head
        checks: list[Check] = []
        for kind in data.draw(st.just([]) | st.lists(st.integers(0, 7), max_size=2)):
            off = data.draw(OFF_BY)
            stamp = data.draw(st.sampled_from((None, head.stamp, "op 1")))
            if kind == 0:
                checks.append(LogAt(max(0, head.version + off), stamp))
            elif kind == 1:
                name = data.draw(st.sampled_from(NAMES))
                value = now.documents.get(name)
                version, stamp = (value.version, value.stamp) if value else (0, stamp)
                bare = data.draw(st.booleans())
                checks.append(DocumentAt(name, max(0, version + off), None if bare else stamp))
            elif kind == 2:
                checks.append(Absent())
            elif kind == 3:
                checks.append(StatusIn(data.draw(st.sampled_from(((head.status,), ("on", ""))))))
            elif kind == 4:
                checks.append(Fence(*self.draw_lease(data, entity)))
            elif kind == 5:
                checks.append(CommitsAt(max(0, head.commits + off)))
            elif kind == 6:
                checks.append(NotDroppedSince(head.dropped + off))
            else:
                checks.append(Unheld())
        return checks

    def draw_lease(self, data: st.DataObject, entity: Entity) -> tuple[int, str]:
        """Mostly the last lease granted here, sometimes an older, another's or a forged one."""
        known = [(7, "one"), *self.leases[entity][-2:], *self.leases[entity][-1:] * 3]
        token, nonce = data.draw(st.sampled_from(known))
        return token, data.draw(st.sampled_from((nonce, nonce, nonce, "one", "two")))

    def draw_writes(self, data: st.DataObject, entity: Entity, now: Fetched) -> tuple[Write, ...]:
        if data.draw(SELDOM):
            return (Drop(),)
        numbers = st.integers(0, now.head.version + 2)
        shapes: list[st.SearchStrategy[Write]] = [
            st.builds(Append, TURNS, st.sampled_from((*KEYS, None))),
            st.builds(Put, st.just("vars"), TEXTS),
            st.builds(Put, st.just("x"), TEXTS),
            st.builds(Delete, st.just("a\x00")) | st.builds(Put, st.just("a\x00"), TEXTS),
            st.builds(Delete, st.just("vars")),
            st.builds(Trim, numbers),
            st.builds(Replace, st.dictionaries(numbers, st.none() | TEXTS, max_size=3)),
            self.lease_writes(data, entity),
            st.builds(
                SetHead,
                status=st.sampled_from((None, *STATUSES)),
                label=st.sampled_from((None, *LABELS)),
                owner=st.sampled_from((None, None, None, "u", "")),
                due=st.sampled_from((None, None, 0, START, START + GRACE)),
                due_in=st.sampled_from((None, None, None, 0.5, 600.0)),
                retain=st.sampled_from((None, None, 0, 30.0, GRACE)),
            ),
        ]
        chosen = data.draw(
            st.lists(st.integers(0, len(shapes) - 1), min_size=1, max_size=4, unique=True)
        )
        if 1 in chosen and 4 in chosen:
            chosen.remove(4)  # no document twice
        return tuple(data.draw(shapes[at]) for at in chosen)

    def lease_writes(self, data: st.DataObject, entity: Entity) -> st.SearchStrategy[Write]:
        token, nonce = self.draw_lease(data, entity)
        ttl = st.sampled_from((0.5, 30.0, 600.0, GRACE))
        acquire = st.builds(Acquire, st.sampled_from(NONCES), ttl, st.sampled_from(("", "me")))
        return (
            acquire
            | acquire
            | st.builds(Renew, st.just(token), st.just(nonce), ttl)
            | st.builds(Release, st.sampled_from((token, token, None)), st.just(nonce))
        )

    def draw_fetch(self, data: st.DataObject, entity: Entity) -> Fetch:
        now = self.head(entity)
        after = data.draw(st.integers(0, now.head.version + 1))
        end = data.draw(st.sampled_from(("first", "last", None)))
        log = Log(
            after if data.draw(st.booleans()) else 0,
            data.draw(st.none() | st.integers(0, now.head.version + 1)),
            stamp=data.draw(st.sampled_from((None, None, now.head.stamp, "op 1"))),
            details=data.draw(st.booleans()),
            **({} if end is None else {end: data.draw(st.integers(0, 4))}),
        )
        known = {name: (value.version, value.stamp) for name, value in now.documents.items()}
        return Fetch(
            entity,
            data.draw(st.sampled_from((None, None, now.head.owner, "u"))),
            data.draw(st.sampled_from((None, log, log))),
            data.draw(st.sampled_from(((), ("vars",), NAMES))),
            data.draw(st.booleans()),
            data.draw(st.sampled_from((None, known, {"vars": (1, "op 1")}))),
        )

    def same_pages(self, listing: List) -> None:
        """Page by page; each engine goes on from its own mark."""
        ours = theirs = listing
        while True:
            right = self.memory.execute((ours,))[0]
            answer = self.sqlite.execute((theirs,))[0]
            same(answer, right, ours)
            met[kind_of(right)] += 1
            assert isinstance(right, Listed)
            assert isinstance(answer, Listed)
            if right.next is None:
                return
            ours = replace(listing, after=right.next)
            theirs = replace(listing, after=answer.next)

    def note(self, commit: Commit, outcome: Outcome) -> None:
        if not isinstance(outcome, Applied):
            return
        self.ops[commit.entity].append(commit.op)
        if outcome.lease is not None:
            self.leases[commit.entity].append((outcome.lease.token, outcome.lease.nonce))


def everything_of(entity: Entity) -> Fetch:
    return Fetch(entity, log=Log(details=True), all_documents=True)


def is_fetched(outcome: Outcome) -> Fetched:
    assert isinstance(outcome, Fetched)
    return outcome


def kind_of(outcome: Outcome) -> str:
    name = type(outcome).__name__
    match outcome:
        case Duplicate(own=own):
            return f"{name} own" if own else f"{name} key"
        case Fetched(reset=True):
            return f"{name} reset"
        case Fetched(truncated=True):
            return f"{name} truncated"
        case Listed(next=str()):
            return f"{name} next"
    return name


def same(answer: Outcome, right: Outcome, op: Op) -> None:
    """Equal, or a failure that names only what differs."""
    given, wanted = shown(answer), shown(right)
    if given == wanted:
        return
    if type(given) is not type(wanted):
        raise AssertionError(f"{op}\n  answers {given}\n  not     {wanted}")
    fields = getattr(given, "__struct_fields__", ())
    differences = [
        f"  {name}: {getattr(given, name)}\n  not {getattr(wanted, name)}"
        for name in fields
        if getattr(given, name) != getattr(wanted, name)
    ]
    raise AssertionError("\n".join([f"{op}", *(differences or [f"  {given}\n  not {wanted}"])]))


def shown(outcome: Outcome) -> object:
    """What the contract promises of an outcome."""
    if isinstance(outcome, Listed):
        found = [replace(item, head=replace(item.head, life=0)) for item in outcome.entities]
        return found, outcome.documents, outcome.next is None, outcome.tally
    if isinstance(outcome, Applied | NotYours | Swept):
        return outcome
    return replace(outcome, head=replace(outcome.head, life=0))


ORDINARY = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LONG = settings(
    ORDINARY, max_examples=3000, stateful_step_count=60, derandomize=False, print_blob=True
)


def meet_every_answer(machine: type[Histories], examples: int) -> None:
    """Histories that do not meet an answer prove nothing about it: then more of them are made.

    Which ones are made depends on what is imported: Hypothesis tries the constants it finds there.
    """
    met.clear()
    for more in (1, 2, 4):
        run_state_machine_as_test(
            machine, settings=settings(ORDINARY, max_examples=more * examples)
        )
        missing = [what for what in EVERY_ANSWER if not met[what]]
        if not missing:
            return
    raise AssertionError(f"no history met {missing}")


def test_sqlite_answers_like_the_model() -> None:
    meet_every_answer(Histories, 60)


@pytest.mark.soak
def test_sqlite_answers_like_the_model_in_many_histories() -> None:
    run_state_machine_as_test(Histories, settings=LONG)
