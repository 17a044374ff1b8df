"""Engines that lie are caught, every one of them, every time; the honest one is not accused.

The lies are told below the real stores, threads and users, by tasks that run at the same time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count

import pytest
from broken_engines import (
    MISACCOUNTS,
    Broken,
    DeliversTwice,
    DropsAcknowledged,
    IgnoresFences,
    LosesUpdates,
    ServesStale,
)
from testing.checkers import check_counter, check_fences, names, tell

from stateward import LeaseLost, StateConflictError, Store, Window
from stateward.audit.checkers.anomalies import Anomaly
from stateward.audit.checkers.histories import Status
from stateward.audit.checkers.list_append import ListAppend, ListRead, Transaction, check
from stateward.engine import Engine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.ops import Acquire, Applied, Commit, Entity, Lease
from stateward.testing import conformance
from stateward.testing.clock import SteppableWorld
from stateward.world import World

SEEDS = range(20)
Driver = Callable[[Engine, SteppableWorld, int], Awaitable[list[Anomaly]]]


def memory() -> tuple[Engine, SteppableWorld]:
    world = SteppableWorld()
    return MemoryEngine(Model(), world), world


class Conversations:
    """Processes that append to the same threads, read them, and answer what they have read."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.history: list[Transaction] = []
        self._chance = random.Random(seed)
        self._clock = count()
        self._values = count()

    async def run(self) -> list[Transaction]:
        await asyncio.gather(*(self._process(number) for number in range(6)))
        for thread in range(4):  # the last word is not left to chance
            await self._read(99, thread)
        return self.history

    async def _process(self, number: int) -> None:
        for _ in range(40):
            await self._let_others_run()
            act = self._chance.choice((self._append, self._read, self._answer))
            await act(number, self._chance.randrange(4))

    async def _append(self, process: int, thread: int) -> None:
        begun, value = next(self._clock), next(self._values)
        await self.store.thread(f"t{thread}").append({"value": value})
        self._note(process, begun, "ok", ListAppend(f"t{thread}", value))

    async def _read(self, process: int, thread: int) -> None:
        begun = next(self._clock)
        window = await self.store.thread(f"t{thread}").load()
        self._note(process, begun, "ok", seen(thread, window))

    async def _answer(self, process: int, thread: int) -> None:
        begun, value = next(self._clock), next(self._values)
        handle = self.store.thread(f"t{thread}")
        window = await handle.load()
        await self._let_others_run()
        try:
            await handle.append({"value": value}, expect=window)
            status: Status = "ok"
        except StateConflictError:
            status = "fail"
        self._note(process, begun, status, seen(thread, window), ListAppend(f"t{thread}", value))

    def _note(self, process: int, begun: int, status: Status, *ops: ListAppend | ListRead) -> None:
        self.history.append(Transaction(process, begun, next(self._clock), status, ops))

    async def _let_others_run(self) -> None:
        for _ in range(self._chance.randrange(3)):
            await asyncio.sleep(0)


def seen(thread: int, window: Window) -> ListRead:
    return ListRead(f"t{thread}", tuple(message["value"] for message in window.messages))


async def converse(engine: Engine, world: SteppableWorld, seed: int) -> list[Anomaly]:
    async with Store(engine, world=world) as store:
        history = await Conversations(store, seed).run()
    assert any(step.status == "fail" for step in history), "nobody was in anybody's way"
    return check(history)


async def count_up(engine: Engine, world: SteppableWorld, seed: int) -> list[Anomaly]:
    chance = random.Random(seed)

    async def add_one(value: dict[str, int]) -> dict[str, int]:
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)  # between reading and writing others run
        return {"n": value.get("n", 0) + 1}

    async def process(store: Store) -> None:
        for _ in range(10):
            await store.user("u").update(add_one)

    async with Store(engine, world=world) as store:
        await asyncio.gather(*(process(store) for _ in range(6)))
        final = (await store.user("u").get()).value["n"]
    return check_counter(final, acknowledged=60)


async def hand_over(engine: Engine, world: SteppableWorld, seed: int) -> list[Anomaly]:
    """Holders that are paused past their lease, and go on as if nothing had happened."""
    entity = Entity("default", "thread", "t")

    async def lead(holder: str) -> Lease:
        world.advance(100)
        acquire = Commit(entity, f"op-{holder}", (Acquire(holder, 30.0, holder),))
        (outcome,) = await engine.execute([acquire])
        assert isinstance(outcome, Applied)
        assert outcome.lease is not None
        return outcome.lease

    async with Store(engine, world=world) as store:
        thread = store.thread("t")

        async def write(lease: Lease, word: str) -> None:
            await thread.append({"token": lease.token, "word": word}, fence=lease)

        before = await lead("holder-0")
        await write(before, "holder-0")
        for number in range(1, 30):
            lease = await lead(f"holder-{number}")
            await write(lease, f"holder-{number}")
            try:
                await write(before, f"holder-{number - 1}, superseded,")
            except LeaseLost:
                pass
            before = lease
        written = (await thread.load()).messages
    return check_fences((message["token"], message["word"]) for message in written)


CAUGHT: list[tuple[type[Broken], Driver, str]] = [
    (LosesUpdates, converse, "G-single"),
    (LosesUpdates, count_up, "lost update"),
    (DropsAcknowledged, converse, "lost append"),
    (DropsAcknowledged, count_up, "lost update"),
    (ServesStale, converse, "stale read"),
    (DeliversTwice, converse, "duplicate"),
    (IgnoresFences, hand_over, "stale token accepted"),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("broken", "driver", "name"), CAUGHT)
async def test_a_broken_engine_is_caught(
    broken: type[Broken], driver: Driver, name: str, seed: int
) -> None:
    engine, world = memory()
    lying = broken(engine, seed=seed)
    found = await driver(lying, world, seed)
    assert lying.broke, "nothing was broken: the test proves nothing"
    assert name in names(found), tell(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("driver", [converse, count_up, hand_over])
async def test_the_honest_engine_is_not_accused(driver: Driver, seed: int) -> None:
    engine, world = memory()
    found = await driver(engine, world, seed)
    assert not found, tell(found)


@pytest.mark.parametrize("broken", list(dict.fromkeys(case[0] for case in CAUGHT)))
async def test_a_broken_engine_that_never_breaks_is_an_honest_one(broken: type[Broken]) -> None:
    """So it is the lie that is caught, and not the wrapper."""
    for driver in (converse, count_up, hand_over):
        engine, world = memory()
        lying = broken(engine, seed=1, one_in=10**9)
        found = await driver(lying, world, 1)
        assert not lying.broke
        assert not found, tell(found)


async def passes(
    case: conformance.Case, broken: type[Broken] | None = None, model: Model | None = None
) -> bool:
    """Whether a case of the shipped suite passes, on an engine that breaks at every chance."""
    model = model or Model()

    def replica(world: World) -> Engine:
        engine = MemoryEngine(model, world)
        return engine if broken is None else broken(engine, seed=0, one_in=1)

    try:
        async with conformance.Harness(replica, SteppableWorld(1_700_000_000.0)) as harness:
            await asyncio.wait_for(case(harness), 1.0 if broken else 60.0)  # a lie may hang it
    except Exception:
        return False
    return True


@pytest.mark.parametrize("broken", list(dict.fromkeys(case[0] for case in CAUGHT)))
async def test_the_conformance_suite_refuses_a_broken_engine(broken: type[Broken]) -> None:
    for _, case in conformance.CASES:
        if not await passes(case, broken) and await passes(case):
            return
    pytest.fail("no case of the suite noticed")


COUNTS = [case for name, case in conformance.CASES if name.startswith("counts.")]


@pytest.mark.parametrize("wrong", MISACCOUNTS)
async def test_the_conformance_suite_refuses_a_store_with_a_wrong_account(wrong: str) -> None:
    """By the cases of every kind of commit alone: the others meet only some kinds."""
    for case in COUNTS:
        if not await passes(case, model=MISACCOUNTS[wrong]()):
            assert await passes(case)
            return
    pytest.fail("no case noticed")
