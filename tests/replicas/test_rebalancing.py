"""Rebalancing, stopped or paused at every single write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest

from stateward.engine import SyncEngine
from stateward.engines.memory.model import Model
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Applied, Commit, Drop, Entity, Fetched, Op, Outcome, Put, Restore
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.engines.passthrough import Passthrough
from stateward.transfer.rebalance import BATCH, Rebalancing
from stateward.transfer.source import FIRST, LARGE, SMALL
from stateward.transfer.volume import TTL, Volume
from stateward.volumes.route import route
from stateward.world import World

OLD = ("a", "b", "c")
NEW = ("a", "b", "d")
SPACE = "default"
LAYOUT = Entity(SPACE, "layout", "layout")


class Clock(World):
    """Time passes when somebody waits."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def block(self, seconds: float) -> None:
        self.time += seconds


class Dead(BaseException):
    """The process is gone: nothing it does from here on reaches a store."""


class Volumes:
    """Four volumes, of which the first three hold what their replicas had."""

    def __init__(self) -> None:
        self.world = Clock()
        self._models = {name: Model() for name in "abcd"}
        self.wanted: dict[Entity, list[str]] = {}
        for number in range(2 * BATCH):
            self._begin(Entity(SPACE, "thread", f"s-{number}"), 1)
        self._begin(Entity(SPACE, "journal", "long"), 4 * FIRST + 1)

    def engine(self, name: str) -> SyncEngine:
        return MemoryEngine(self._models[name], self.world)

    def _begin(self, entity: Entity, entries: int) -> None:
        bodies = tuple(f'{{"n":{n}}}' for n in range(entries))
        self.wanted[entity] = list(bodies)
        writes = (Append(bodies, key="k"), Put("vars", "{}"))
        self._commit(route(entity.id, OLD), entity, writes)

    def _commit(self, name: str, entity: Entity, writes: tuple[Append | Put, ...]) -> None:
        commit = Commit(entity, self.world.new_id(), writes)
        (outcome,) = self.engine(name).execute((commit,))
        assert isinstance(outcome, Applied)

    def run(self, wrap: Callable[[SyncEngine], SyncEngine] = lambda engine: engine) -> None:
        engines = {name: wrap(self.engine(name)) for name in "abcd"}
        moved = Rebalancing(engines, NEW, namespace=SPACE, world=self.world).run(0)
        assert moved.undecided == []

    def meanwhile(self, _: object) -> None:
        """Another run does it all, the replicas are back, and everybody says something more."""
        self.world.time += 2 * TTL
        self.run()
        self.assert_all_is_where_it_belongs()
        for entity in self.wanted:
            self.wanted[entity].append('{"later":1}')
            self._commit(route(entity.id, NEW), entity, (Append(('{"later":1}',)),))

    def assert_all_is_where_it_belongs(self) -> None:
        found: dict[Entity, list[str]] = {}
        for name in "abcd":
            volume = Volume(name, self.engine(name), LAYOUT, self.world)
            for item in volume.everything():
                assert item.entity not in found, "two volumes have it"
                assert route(item.entity.id, NEW) == name
                found[item.entity] = [entry.body for entry in whole(volume, item.entity)]
            assert volume.recorded() == list(NEW)
        assert found == self.wanted


def whole(volume: Volume, entity: Entity) -> Iterator[object]:
    part: Fetched = volume.whole(entity)
    yield from part.entries
    while len(part.entries) == FIRST:
        part = volume.whole(entity, part.entries[-1].seq)
        yield from part.entries


class Process:
    """Engines of one process to which something happens at its N-th write, all counted together."""

    def __init__(
        self, at: int, event: Callable[[Process], None], *, applied: bool, of: type[object] = object
    ) -> None:
        self.left = at
        self.of = of  # only commits with such a write are counted
        self.event = event
        self.applied = applied
        self.dead = False

    @property
    def met(self) -> bool:
        """Whether it made as many writes."""
        return self.left <= 0

    def die(self) -> None:
        self.dead = True
        raise Dead

    def wrap(self, engine: SyncEngine) -> SyncEngine:
        return Watched(engine, self)


class Watched(Passthrough):
    def __init__(self, engine: SyncEngine, process: Process) -> None:
        super().__init__(engine)
        self._process = process

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        process = self._process
        if process.dead:
            raise Dead
        first = ops[0]
        if not isinstance(first, Commit) or not isinstance(first.writes[0], process.of):
            return super().execute(ops, deadline=deadline)
        process.left -= 1
        if process.left == 0 and not process.applied:
            process.event(process)
        outcomes = super().execute(ops, deadline=deadline)
        if process.left == 0 and process.applied:
            process.event(process)
        return outcomes


AT_ANY_WRITE = range(1, 1000)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_run_that_dies_at_any_write_is_finished_by_the_next(applied: bool) -> None:
    for at in AT_ANY_WRITE:
        volumes = Volumes()
        process = Process(at, Process.die, applied=applied)
        with suppress(Dead):
            volumes.run(process.wrap)
        if process.met:
            volumes.run()
        volumes.assert_all_is_where_it_belongs()
        if not process.met:
            assert at > 20, "too few writes for this test to mean anything"
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_run_that_is_paused_at_any_write_does_no_harm_when_it_goes_on(applied: bool) -> None:
    for at in AT_ANY_WRITE:
        volumes = Volumes()
        process = Process(at, volumes.meanwhile, applied=applied)
        with suppress(StoreUnavailable):
            volumes.run(process.wrap)
        volumes.run()  # whatever the first one said of itself, nothing is in the way
        volumes.assert_all_is_where_it_belongs()
        if not process.met:
            assert at > 20, "too few writes for this test to mean anything"
            return
    raise AssertionError("it never came to an end")


def test_a_run_that_goes_on_when_its_successor_has_died_does_no_harm() -> None:
    """The successor had just removed the copies, and could not make them anew."""
    for at in AT_ANY_WRITE:
        volumes = Volumes()
        successor = Process(1, Process.die, applied=True, of=Drop)

        def meanwhile(_: object, volumes: Volumes = volumes, other: Process = successor) -> None:
            volumes.world.time += 2 * TTL
            with suppress(Dead):
                volumes.run(other.wrap)

        process = Process(at, meanwhile, applied=False)
        with suppress(StoreUnavailable):
            volumes.run(process.wrap)
        volumes.run()
        volumes.assert_all_is_where_it_belongs()
        if not process.met:
            assert at > 20, "too few writes for this test to mean anything"
            return
    raise AssertionError("it never came to an end")


class Weighed(Passthrough):
    """An engine that notes the most bytes that came or went in one call."""

    heaviest: int = 0

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = super().execute(ops, deadline=deadline)
        writes = [op.writes[0] for op in ops if isinstance(op, Commit)]
        moved = [it for it in (*writes, *outcomes) if isinstance(it, Restore | Fetched)]
        weight = sum(len(entry.body) for it in moved for entry in it.entries)
        self.heaviest = max(self.heaviest, weight)
        return outcomes


def test_what_is_moved_together_is_bounded_in_bytes() -> None:
    world, model = Clock(), Model()
    body = '"' + "x" * 50_000 + '"'
    bodies = (body,) * (LARGE // len(body) + 1)
    ids = [f"s-{number}" for number in range(200) if route(f"s-{number}", "ab") == "b"][:BATCH]
    for id in ids:
        commit = Commit(Entity(SPACE, "thread", id), world.new_id(), (Append(bodies),))
        MemoryEngine(model, world).execute((commit,))
    source, home = Weighed(MemoryEngine(model, world)), Weighed(MemoryEngine(Model(), world))
    moved = Rebalancing({"a": source, "b": home}, "ab", namespace=SPACE, world=world).run(0)
    assert moved.entities == BATCH
    assert source.heaviest <= 2 * LARGE
    assert home.heaviest <= 2 * LARGE + SMALL
