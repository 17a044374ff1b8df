"""A user is erased before any one of the calls that an adapter makes to its store.

Nothing that was stored before the erasure comes back, wherever in a call of a framework it comes:
what had been there before the call, and what the call itself had stored until then. Each adapter
has a table of its calls that write; the store's own methods are swept by
`conformance.state.methods`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

import stateward.sync
from stateward import Policy, StatewardError, Store
from stateward.engine import Engine, SyncEngine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.ops import Applied, Commit, Log, Op, Outcome
from stateward.sync.engines.memory import MemoryEngine as BlockingMemory
from stateward.sync.engines.passthrough import Passthrough as BlockingPassthrough
from stateward.testing.conformance.harness import Caller
from stateward.world import World

USER = "u-42"
SECRET = "4111 1111"  # was stored before the call
NEW = "5500 0000"  # is stored by the call
ANEW = {"said": "anew"}  # is stored after the erasure, if the user begins anew
POLICY = Policy(read_timeout=60.0, write_timeout=60.0, threads="raise")

Ready = Callable[[], Awaitable[Any]]
# Given the store that makes the call, and the one by which all is prepared: the same, or another.
Prepare = Callable[[Any, Any], Awaitable[Ready]]


class Where(NamedTuple):
    """Replicas of one store, in both colours."""

    engine: Callable[[], Engine]
    blocking_engine: Callable[[], SyncEngine]


def in_memory() -> Where:
    model, world = Model(), World()
    return Where(lambda: MemoryEngine(model, world), lambda: BlockingMemory(model, world))


def at_url(url: str) -> Where:
    parsed = parse(url)
    return Where(
        lambda: create_engine(parsed, World()), lambda: create_sync_engine(parsed, World())
    )


class Moment:
    """Before which call the user is erased, and whether what is new was stored by then."""

    def __init__(self) -> None:
        self.at = 0
        self.calls = 0
        self.had_new = False

    def choose(self, at: int) -> None:
        self.at, self.calls, self.had_new = at, 0, False

    def is_now(self) -> bool:
        self.calls += 1
        return self.calls == self.at

    def note(self, ops: Sequence[Op], outcomes: Sequence[Outcome]) -> None:
        if self.calls < self.at:
            self.had_new |= any(
                isinstance(op, Commit) and isinstance(outcome, Applied) and NEW in repr(op)
                for op, outcome in zip(ops, outcomes, strict=True)
            )


class Meanwhile(Passthrough):
    """An engine before one of whose calls something else happens."""

    def __init__(self, engine: Engine, happens: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(engine)
        self.moment = Moment()
        self._happens = happens

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self.moment.is_now():
            await self._happens()
        outcomes = await super().execute(ops, deadline=deadline)
        self.moment.note(ops, outcomes)
        return outcomes


class BlockingMeanwhile(BlockingPassthrough):
    """The same for blocking callers."""

    def __init__(self, engine: SyncEngine, happens: Callable[[], Any]) -> None:
        super().__init__(engine)
        self.moment = Moment()
        self._happens = happens

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self.moment.is_now():
            self._happens()
        outcomes = super().execute(ops, deadline=deadline)
        self.moment.note(ops, outcomes)
        return outcomes


Stores = Callable[[Where, str, bool], Any]  # gives the store that calls, another, and the moment


@asynccontextmanager
async def stores(
    where: Where, namespace: str, anew: bool
) -> AsyncIterator[tuple[Store, Store, Moment]]:
    options: dict[str, Any] = {"namespace": namespace, "policy": POLICY, "spill": False}

    async def erase() -> None:
        await other.user(USER).erase()
        if anew:
            await other.user(USER).put(ANEW)

    engine = Meanwhile(where.engine(), erase)
    async with Store(where.engine(), **options) as other, Store(engine, **options) as store:
        yield store, other, engine.moment


@asynccontextmanager
async def blocking_stores(
    where: Where, namespace: str, anew: bool
) -> AsyncIterator[tuple[stateward.sync.Store, stateward.sync.Store, Moment]]:
    options: dict[str, Any] = {"namespace": namespace, "policy": POLICY, "spill": False}

    def erase() -> None:
        other.user(USER).erase()
        if anew:
            other.user(USER).put(ANEW)

    engine = BlockingMeanwhile(where.blocking_engine(), erase)
    with (
        stateward.sync.Store(where.blocking_engine(), **options) as other,
        stateward.sync.Store(engine, **options) as store,
    ):
        yield store, other, engine.moment


async def found_in(replica: Caller, namespace: str, text: str) -> list[str]:
    """What holds the text, of all that is stored, whoever owns it."""
    entities = await replica.list_all(namespace, expired=True)
    whole = Log(whole=True)  # receipts too
    seen = {each: await replica.fetch(each, whole, all_documents=True) for each in entities}
    return [f"{each.kind} {each.id}" for each in entities if text in repr(seen[each])]


async def erased_at_every_call(
    where: Where,
    call: str,
    prepare: Prepare,
    *,
    remembers: bool,
    anew: bool,
    refused: tuple[type[Exception], ...] = (),
    colour: Stores = stores,
) -> None:
    """`remembers`: the store has read and written it all itself; `anew`: the user begins anew."""
    replica = Caller(where.engine(), World())
    await replica.engine.open()
    at = 0
    while True:
        at += 1
        namespace = f"{call} {at} {remembers} {anew}"
        async with colour(where, namespace, anew) as (store, other, moment):
            ready = await prepare(store, store if remembers else other)
            moment.choose(at)
            try:
                await ready()
            except (StatewardError, *refused):
                pass
        if moment.calls < at:
            assert at > 1
            await replica.engine.close()
            return
        texts = (SECRET, NEW) if moment.had_new else (SECRET,)
        left = [each for text in texts for each in await found_in(replica, namespace, text)]
        assert left == [], f"{call}, erased before call {at}: {left}"
        if anew:
            assert await found_in(replica, namespace, ANEW["said"]), f"{call}, call {at}: lost"


def each_of(table: Iterable[str]) -> Callable[[Any], Any]:
    """For a test of every call of a table, in all ways."""

    def marked(test: Any) -> Any:
        for name, values in (("call", list(table)), ("remembers", _BOTH), ("anew", _BOTH)):
            test = pytest.mark.parametrize(name, values)(test)
        return test

    return marked


_BOTH = [False, True]
