"""The harness that a case gets: replicas over one store, a clock, and short helpers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from msgspec.structs import replace

from stateward.engine import Engine
from stateward.ops import (
    Applied,
    Check,
    Commit,
    CommitOutcome,
    Entity,
    Fetch,
    Fetched,
    Head,
    Lease,
    List,
    Listed,
    Log,
    NotYours,
    Op,
    Outcome,
    Sweep,
    Swept,
    Write,
)
from stateward.testing.clock import SteppableWorld
from stateward.world import World

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

LAG = 0.003  # a clock that is being corrected may run a little slower than a wait


class Harness:
    """One case's view of one store. Every engine it makes is another replica over it.

    `make_engine` returns a fresh engine, not yet opened, over the same store at each call. All
    state of a case lives in its own namespace, so that a store which is not empty, or is
    shared with other cases, does no harm. With a `SteppableWorld` time passes immediately; with
    any other the harness really waits, and cases that need hours or days cannot be run.
    """

    def __init__(self, make_engine: Callable[[World], Engine], world: World) -> None:
        self.world = world
        self.namespace = world.new_id()
        self._make_engine = make_engine
        self._engines: list[Engine] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close everything that was handed out."""
        for engine in self._engines:
            await engine.close()

    # --- replicas -------------------------------------------------------------------

    def make_engine(self) -> Engine:
        """Another replica, not yet opened; whoever opens it closes it."""
        return self._make_engine(self.world)

    async def engine(self) -> Engine:
        """Another replica, opened."""
        engine = self.make_engine()
        self._engines.append(engine)
        await engine.open()
        return engine

    async def replica(self) -> Caller:
        """Another replica, opened, with short words for its operations."""
        return Caller(await self.engine(), self.world)

    # --- names and time --------------------------------------------------------------

    def entity(self, id: str = "it", kind: str = "thing") -> Entity:
        """An address in this case's namespace."""
        return Entity(self.namespace, kind, id)

    def new_id(self) -> str:
        return self.world.new_id()

    @property
    def span(self) -> float:
        """Seconds that a case's own steps do not use up: for leases and retentions."""
        return 100.0 if isinstance(self.world, SteppableWorld) else 1.0

    async def pass_time(self, seconds: float) -> None:
        """Let time pass by the engine's clock."""
        if isinstance(self.world, SteppableWorld):
            self.world.advance(seconds)
        else:
            await self.world.pause(seconds + LAG)

    def step_back(self, seconds: float) -> None:
        """Set the engine's clock back, as a clock that is corrected is."""
        assert isinstance(self.world, SteppableWorld), "only a case that needs the clock asks this"
        self.world.advance(-seconds)


class Caller:
    """An opened engine, with short words for what is asked of it."""

    def __init__(self, engine: Engine, world: World) -> None:
        self.engine = engine
        self.world = world

    async def execute(self, *ops: Op) -> list[Outcome]:
        """One batch."""
        outcomes = await self.engine.execute(ops)
        assert len(outcomes) == len(ops), "one outcome an operation"
        return outcomes

    async def commit(
        self,
        entity: Entity,
        *writes: Write,
        op: str | None = None,
        checks: tuple[Check, ...] = (),
        owner: str | None = None,
        retain: float | None = None,
        reading: tuple[str, ...] = (),
    ) -> CommitOutcome:
        """One commit, with a fresh op unless given one."""
        op = op or self.world.new_id()
        outcomes = await self.execute(Commit(entity, op, writes, checks, owner, retain, reading))
        return outcomes[0]  # type: ignore[return-value]

    async def apply(self, entity: Entity, *writes: Write, **options: Any) -> Applied:
        """One commit that nothing refuses."""
        return is_a(await self.commit(entity, *writes, **options), Applied)

    async def fetch(
        self,
        entity: Entity,
        log: Log | None = None,
        *,
        owner: str | None = None,
        documents: tuple[str, ...] = (),
        all_documents: bool = False,
        known: Mapping[str, tuple[int, str]] | None = None,
    ) -> Fetched:
        """One fetch that is not refused."""
        fetch = Fetch(entity, owner, log, documents, all_documents, known)
        return is_a((await self.execute(fetch))[0], Fetched)

    async def head(self, entity: Entity) -> Head:
        return (await self.fetch(entity)).head

    async def everything(self, entity: Entity) -> Fetched:
        """Return everything visible of an entity, to be compared before and after."""
        return await self.fetch(entity, Log(details=True), all_documents=True)

    async def refuses(self, entity: Entity, owner: str) -> bool:
        """Whether a fetch as `owner` is refused."""
        outcomes = await self.execute(Fetch(entity, owner, Log(), all_documents=True))
        return isinstance(outcomes[0], NotYours)

    async def listing(self, namespace: str, **options: Any) -> Listed:
        """One page."""
        return is_a((await self.execute(List(namespace, **options)))[0], Listed)

    async def list_all(self, namespace: str, *, limit: int = 3, **options: Any) -> list[Entity]:
        """Every entity of a listing, through all its pages, each full but the last."""
        entities: list[Entity] = []
        after: str | None = None
        while True:
            page = await self.listing(namespace, limit=limit, after=after, **options)
            entities += [item.entity for item in page.entities]
            assert len(entities) == len(set(entities)), "no entity is on two pages"
            if page.next is None:
                assert len(page.entities) <= limit
                return entities
            assert len(page.entities) == limit, "a page that is not the last is full"
            after = page.next

    async def sweep(self, limit: int = 1000) -> Swept:
        """One step."""
        return is_a((await self.execute(Sweep(limit)))[0], Swept)

    async def sweep_all(self, limit: int = 1000) -> list[Swept]:
        """As many steps as there is more to remove."""
        steps = [await self.sweep(limit)]
        while steps[-1].more:
            assert len(steps) < 10_000, "sweeping does not come to an end"
            steps.append(await self.sweep(limit))
        return steps


# --- words ------------------------------------------------------------------------------


def bodies(*numbers: int) -> tuple[str, ...]:
    """Bodies that can be told apart: `bodies(1, 2)` are '{"n":1}' and '{"n":2}'."""
    return tuple(f'{{"n":{number}}}' for number in numbers)


def lines(*numbers: int) -> str:
    """Return these bodies joined as in `Fetched.lines`."""
    return "\n".join(bodies(*numbers))


def is_a(thing: object, kind: type[T]) -> T:
    """`thing`, which must be of that kind."""
    assert isinstance(thing, kind), f"expected {kind.__name__}, got {thing!r}"
    return thing


def differing(read: Iterable[object], expected: Iterable[object]) -> list[int]:
    """Return the places at which two sequences differ, so that a test that fails says only these.

    Explaining how two long lists or texts differ takes minutes.
    """
    pairs = enumerate(zip_longest(read, expected))
    return [place for place, (one, other) in pairs if one != other]


def is_absent(fetched: Fetched) -> bool:
    """Nothing is there, but for what a head counts over all lives."""
    head = replace(fetched.head, commits=0, life=0, dropped=0.0)
    return replace(fetched, head=head, reset=False) == Fetched(head=Head())


def hidden(lease: Lease | None) -> Lease:
    """The lease as it is shown to others: whoever knew the nonce could pass for its holder."""
    assert lease is not None
    return replace(lease, nonce="")


class Caught(Generic[E]):
    """The error that `raises` caught."""

    error: E


@contextmanager
def raises(kind: type[E]) -> Iterator[Caught[E]]:
    """The block must raise exactly what the contract names."""
    caught: Caught[E] = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
    assert str(caught.error), "an error says what to do"
