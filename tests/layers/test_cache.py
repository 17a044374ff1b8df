"""A cached read is the read it stands for, whatever happens in between."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from conformance import blocking, state, suite

from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.errors import InvalidInput
from stateward.layers.cache import Caching
from stateward.layers.cache_memory import Cache
from stateward.observe.counters import Counters
from stateward.ops import (
    Acquire,
    Append,
    Commit,
    Delete,
    Drop,
    Entity,
    Fetch,
    Log,
    Op,
    Outcome,
    Put,
    Replace,
    Restore,
    SetHead,
    Trim,
)
from stateward.store import Store
from stateward.sync.engines.memory import MemoryEngine as BlockingMemory
from stateward.sync.store import Store as BlockingStore
from stateward.testing.clock import SteppableWorld

START = 1_700_000_000.0


# --- every promise of a store holds with a cache ----------------------------------------


def of_threads_and_users(cases: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The cases that read through a store what a cache remembers."""
    return [
        (name, case)
        for name, case in cases
        if name.split(".")[0]
        in ("threads", "users", "windows", "belongings", "feeds", "compaction")
    ]


class CachedHarness(state.StoreHarness):
    def store(self, **options: Any) -> Store:
        return super().store(cache=Cache(), **options)


class CachedBlockingHarness(blocking.StoreHarness):
    def store(self, **options: Any) -> BlockingStore:
        return super().store(cache=Cache(), **options)


@pytest.mark.parametrize("case", suite.params(of_threads_and_users(state.CASES), cell=(0, 2)))
async def test_async(case: state.Case) -> None:
    model = Model()
    harness = CachedHarness(lambda world: MemoryEngine(model, world), SteppableWorld(START))
    async with harness:
        await case(harness)


@pytest.mark.parametrize("case", suite.params(of_threads_and_users(blocking.CASES), cell=(1, 2)))
def test_sync(case: blocking.Case) -> None:
    model = Model()
    harness = CachedBlockingHarness(
        lambda world: BlockingMemory(model, world), SteppableWorld(START)
    )
    with harness:
        case(harness)


def test_many_cases_are_among_them() -> None:
    cases = of_threads_and_users(state.CASES)
    assert len(cases) == len(of_threads_and_users(blocking.CASES)) > 50


# --- compared with the store itself -----------------------------------------------------


class Plain:
    """An engine as the layer below; counts what it is asked."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self.asked: list[Op] = []

    async def execute(self, ops: Any, deadline: float | None) -> list[Outcome]:
        self.asked.extend(ops)
        return await self._engine.execute(ops)


class OneClock(SteppableWorld):
    """What a cache forgets and what a store forgets, by one clock."""

    def monotonic(self) -> float:
        return self.now()


class Two:
    """A cached and a plain replica of one store."""

    def __init__(self, **options: Any) -> None:
        self.model = Model()
        self.world = OneClock(START)
        self.counters = Counters()
        self.below = Plain(MemoryEngine(self.model, self.world))
        self.cached = Caching(self.below, Cache(**options), self.world, self.counters)
        self.plain = MemoryEngine(self.model, self.world)
        self._number = 0
        self.written = 0

    async def write(self, entity: Entity, *writes: Any) -> None:
        self._number += 1
        await self.plain.execute([Commit(entity, f"op{self._number}", writes, owner="u")])

    async def same(self, *fetches: Fetch) -> None:
        """Ask both; the answers must not differ in anything."""
        expected = await self.plain.execute(fetches)
        assert await self.cached.execute(fetches, None) == expected


def some_write(random: Random, last: int) -> Any:
    number = random.randint(1, last + 3)
    return random.choice(
        (
            Append((f'{{"n":{random.random()}}}',)),
            Append(tuple(f'{{"n":{random.random()}}}' for _ in range(random.choice((2, 3, 30))))),
            Append((f'{{"n":{random.random()}}}',), key=f"k{random.random()}"),
            Replace({number: f'"edited {random.random()}"'}),
            Replace({number: None}),
            Trim(random.randint(0, max(1, last // 2))),
            Put(random.choice("abc"), f'{{"v":{random.random()}}}'),
            Delete(random.choice("abc")),
            Acquire(f"n{random.random()}", 0.01),
            SetHead(status=random.choice("xyz")),
            SetHead(retain=random.choice((5.0, 0.0))),
        )
    )


async def cached_write(two: Two, entity: Entity, write: Any) -> None:
    """This process's own write: the cache follows it."""
    two.written += 1
    await two.cached.execute([Commit(entity, f"mine{two.written}", (write,), owner="u")], None)


def some_fetch(random: Random, entity: Entity) -> Fetch:
    log = random.choice((None, Log(last=random.choice((1, 2, 5, 20, 100)))))
    if log is None or random.random() < 0.3:
        names = tuple(random.sample("abcd", random.randint(0, 3)))
        every = random.random() < 0.4
        return Fetch(entity, random.choice(("u", None)), log, names, every)
    return Fetch(entity, random.choice(("u", "u", None, "somebody else")), log)


@pytest.mark.parametrize("seed", range(20))
async def test_a_cached_read_is_the_read_it_stands_for(seed: int) -> None:
    random = Random(seed)
    two = Two(size=random.choice((5000, 1 << 20)), seconds=random.choice((3.0, 1e6)))
    entities = [Entity("n", kind, f"{n}") for kind in ("thread", "user") for n in range(2)]
    saved: Any = None
    for _ in range(300):
        entity = random.choice(entities)
        kind = random.random()
        if kind < 0.45:
            await two.same(*(some_fetch(random, entity) for _ in range(random.choice((1, 1, 3)))))
        elif kind < 0.9:
            known = (await two.plain.execute([Fetch(entity)]))[0]
            write = some_write(random, known.head.version)
            if random.random() < 0.5:
                await cached_write(two, entity, write)
            else:
                await two.write(entity, write)
            if not isinstance(write, Append):
                saved = None  # a rewound edit can be told from none only by reading all
        elif kind < 0.92:
            await two.write(entity, Drop())
        elif kind < 0.94:
            whole = (await two.plain.execute([Fetch(entity, log=Log(whole=True))]))[0]
            if whole.head.exists:
                restore = Restore(whole.head, whole.entries, whole.documents)
                await two.write(entity, restore)
        elif kind < 0.96 and saved is not None:
            two.model._cells = saved.copy()._cells  # a failover that had not heard of the latest
            saved = None
        elif kind < 0.98:
            saved = two.model.copy()
        else:
            two.world.advance(random.choice((0.5, 6.0)))
        for each in entities:
            await two.same(Fetch(each, "u", Log(last=5)))
    assert two.counters.cache_hits > 50


async def test_an_unchanged_tail_is_not_read_again_and_news_alone_are_read() -> None:
    two = Two()
    thread = Entity("n", "thread", "t")
    for n in range(30):
        await two.write(thread, Append((f"{n}",)))
    await two.same(Fetch(thread, "u", Log(last=20)))
    await two.same(Fetch(thread, "u", Log(last=20)))
    counters = two.counters
    assert (counters.cache_hits, counters.cache_misses, counters.cache_vain) == (1, 1, 0)
    assert two.below.asked[-1] == Fetch(thread, "u")
    for n in range(3):  # others append: the first time that costs a second question
        await two.write(thread, Append((f"{n}", "another")))
        await two.same(Fetch(thread, "u", Log(last=20)))
        assert (counters.cache_hits, counters.cache_misses, counters.cache_vain) == (2 + n, 1, 1)
    asked = two.below.asked[-1]
    assert isinstance(asked, Fetch)
    assert asked.log == Log(34, last=20, stamp="op32", details=True)
    assert counters.cache_hit_rate == 4 / 5


async def test_what_this_process_appends_itself_is_not_asked_for() -> None:
    two = Two()
    thread = Entity("n", "thread", "t")
    await two.write(thread, Append(("1", "2")))
    await two.same(Fetch(thread, "u", Log(last=20)))
    for n in range(15):
        mine = Commit(thread, f"mine{n}", (Append((f"{n}", "x")), Put("vars", "{}")), owner="u")
        await two.cached.execute([mine], None)
        await two.same(Fetch(thread, "u", Log(last=20)))
        assert two.below.asked[-1] == Fetch(thread, "u")
    assert (two.counters.cache_hits, two.counters.cache_misses) == (15, 1)


async def test_an_edit_by_another_replica_is_seen_at_once() -> None:
    two = Two()
    thread = Entity("n", "thread", "t")
    await two.write(thread, Append(("1", "2", "3")))
    await two.same(Fetch(thread, "u", Log(last=3)))
    await two.write(thread, Replace({2: '"redacted"'}))
    await two.same(Fetch(thread, "u", Log(last=3)))
    assert two.counters.cache_vain == 1


async def test_documents_that_are_known_are_not_sent_again() -> None:
    two = Two()
    user = Entity("n", "user", "u")
    await two.write(user, Put("a", '{"n":1}'), Put("b", '{"n":2}'))
    for _ in range(3):
        await two.same(Fetch(user, "u", all_documents=True))
        await two.same(Fetch(user, "u", documents=("a",)))
    await two.write(user, Put("a", '{"n":3}'), Delete("b"), Put("c", "{}"))
    await two.same(Fetch(user, "u", all_documents=True))
    assert two.counters.cache_hits == 6
    assert two.counters.cache_misses == 1


async def test_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    two = Two(size=20_000)
    threads = [Entity("n", "thread", f"{n}") for n in range(40)]
    for thread in threads:
        await two.write(thread, Append(tuple('"' + "x" * 98 + '"' for _ in range(20))))
        await two.same(Fetch(thread, "u", Log(last=20)))
        await two.same(Fetch(threads[0], "u", Log(last=20)))
        assert two.counters.cache_bytes <= 20_000
    assert two.counters.cache_entities == 8
    misses = two.counters.cache_misses
    await two.same(Fetch(threads[0], "u", Log(last=20)))
    assert two.counters.cache_misses == misses
    await two.same(Fetch(threads[5], "u", Log(last=20)))
    assert two.counters.cache_misses == misses + 1


async def test_what_is_dropped_through_the_cache_does_not_stay_in_memory() -> None:
    two = Two()
    thread = Entity("n", "thread", "t")
    await two.write(thread, Append(("1",)))
    await two.same(Fetch(thread, "u", Log(last=5)))
    assert two.counters.cache_entities == 1
    await two.cached.execute([Commit(thread, "drop", (Drop(),), owner="u")], None)
    assert (two.counters.cache_entities, two.counters.cache_bytes) == (0, 0)


async def test_a_thread_that_changes_in_other_ways_all_the_time_is_soon_read_in_full() -> None:
    two = Two()
    thread = Entity("n", "thread", "t")
    await two.write(thread, Append(("1", "2", "3")))
    for n in range(100):
        await two.write(thread, Put("vars", f"{n}"))
        await two.same(Fetch(thread, "u", Log(last=3)))
    assert two.counters.cache_vain < 20


@pytest.mark.parametrize("options", [{"size": 0}, {"size": "1"}, {"seconds": 0}, {"seconds": "1"}])
def test_a_cache_is_asked_for_in_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Cache(**options)
