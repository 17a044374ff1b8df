"""The coalescer, rule by rule, over an engine whose batches wait until the test lets them go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from itertools import count
from time import monotonic
from typing import TypeVar

import pytest
from msgspec.structs import replace

from stateward import EntityBusy, Policy, StoreUnavailable
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.errors import SchemaError
from stateward.layers.coalescer import Coalescer
from stateward.layers.queue import MOST_CHARACTERS
from stateward.ops import Append, Applied, Commit, Entity, Fetch, Fetched, Log, Op, Outcome
from stateward.testing.faults import open_faulty
from stateward.world import World

T = TypeVar("T")
ops = count()


class Gate(Passthrough):
    """A memory engine whose every batch waits at a gate, in the order of arrival.

    As the contract asks, what has arrived is executed though its caller may have gone.
    """

    def __init__(
        self, *, inline_reads: bool = False, flights: int = 1, batch: int = 256, shut: bool = True
    ) -> None:
        super().__init__(MemoryEngine(Model(), World()))
        self.capabilities = replace(
            self.capabilities, inline_reads=inline_reads, parallel_batches=flights, batch=batch
        )
        self.arrived: list[list[Op]] = []
        self.deadlines: list[float | None] = []
        self.callers: list[asyncio.Task[object] | None] = []
        self.poison: set[str] = set()  # ids of entities whose commits fail the whole batch
        self.damage: dict[str, Exception] = {}  # what every batch with this entity fails with
        self.failure: Exception | None = None  # what every batch fails with
        self.shut = shut
        self._waiting: deque[asyncio.Event] = deque()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.arrived.append(list(ops))
        self.deadlines.append(deadline)
        self.callers.append(asyncio.current_task())
        return await asyncio.shield(asyncio.ensure_future(self._at_the_gate(list(ops))))

    async def _at_the_gate(self, ops: Sequence[Op]) -> list[Outcome]:
        if self.shut:
            event = asyncio.Event()
            self._waiting.append(event)
            await event.wait()
        if self.failure is not None:
            raise self.failure
        for op in ops:
            if isinstance(op, Fetch) and op.entity.id in self.damage:
                raise self.damage[op.entity.id]
        if any(isinstance(op, Commit) and op.entity.id in self.poison for op in ops):
            raise StoreUnavailable("this operation cannot be stored", applied="no")
        return await super().execute(ops)

    async def let_one_pass(self) -> None:
        self._waiting.popleft().set()
        await settle()

    async def open_up(self) -> None:
        """Everything passes from now on."""
        self.shut = False
        while self._waiting:
            self._waiting.popleft().set()
        await settle()

    def sent(self) -> list[list[str]]:
        """What arrived, batch by batch, as the messages or ids in it."""
        return [[said(op) for op in batch] for batch in self.arrived]

    async def stored(self, id: str) -> list[str]:
        fetch = Fetch(Entity("n", "thread", id), log=Log(details=True))
        (fetched,) = await super().execute([fetch])
        assert isinstance(fetched, Fetched)
        return [entry.body for entry in fetched.entries]


def append(id: str, body: str = "0") -> Commit:
    return Commit(Entity("n", "thread", id), f"op-{next(ops)}", (Append((body,)),))


def fetch(id: str) -> Fetch:
    return Fetch(Entity("n", "thread", id), log=Log())


def said(op: Op) -> str:
    if isinstance(op, Commit):
        (write,) = op.writes
        assert isinstance(write, Append)
        return f"{op.entity.id}{write.bodies[0]}"
    assert isinstance(op, Fetch)
    return f"{op.entity.id}?"


async def settle() -> None:
    """Let every task go on until it waits for the gate."""
    for _ in range(20):
        await asyncio.sleep(0)


async def begin(*calls: Awaitable[T]) -> list[asyncio.Task[T]]:
    tasks = [asyncio.ensure_future(call) for call in calls]
    await settle()
    return tasks


def version(outcomes: list[Outcome]) -> int:
    (outcome,) = outcomes
    assert isinstance(outcome, Applied)
    return outcome.version


# --- what travels with what -------------------------------------------------------------


async def test_with_nothing_under_way_a_caller_goes_straight_to_the_engine() -> None:
    gate = Gate(shut=False)
    coalescer = Coalescer(gate)
    for id in ("a", "b"):
        assert version(await coalescer.execute([append(id)])) == 1
    assert gate.sent() == [["a0"], ["b0"]]
    assert set(gate.callers) == {asyncio.current_task()}


async def test_what_arrives_meanwhile_travels_together() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    first = await begin(coalescer.execute([append("a")]))
    others = await begin(*(coalescer.execute([append(id)]) for id in "bcdef"))
    assert gate.sent() == [["a0"]]
    await gate.let_one_pass()
    assert gate.sent() == [["a0"], ["b0", "c0", "d0", "e0", "f0"]]
    await gate.let_one_pass()
    assert [version(await task) for task in first + others] == [1] * 6
    assert len(gate.arrived) == 2


async def test_a_batch_is_no_larger_than_the_engine_wants_it() -> None:
    gate = Gate(batch=10)
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append(f"t{n}")]) for n in range(26)))
    await gate.open_up()
    await asyncio.gather(*tasks)
    assert [len(batch) for batch in gate.arrived] == [1, 10, 10, 5]


async def test_a_batch_is_bounded_by_its_text_too() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    large = "x" * (MOST_CHARACTERS // 2 - 10)
    calls = [[append("first")], *([append(f"t{n}", large)] for n in range(5))]
    calls[4] = [append("t3", large * 5)]  # more than a batch may hold goes alone
    tasks = await begin(*map(coalescer.execute, calls))
    await gate.open_up()
    assert [version(await task) for task in tasks] == [1] * 6
    assert [len(batch) for batch in gate.arrived] == [1, 2, 1, 1, 1]


async def test_no_entity_is_twice_in_a_batch_and_its_order_holds() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    asked = ["x0", "a1", "b1", "a2", "a3", "b2", "c1"]
    tasks = await begin(*(coalescer.execute([append(it[0], it[1])]) for it in asked))
    await gate.open_up()
    await asyncio.gather(*tasks)
    assert gate.sent() == [["x0"], ["a1", "b1", "c1"], ["a2", "b2"], ["a3"]]
    assert await gate.stored("a") == ["1", "2", "3"]
    assert [version(await task) for task in tasks] == [1, 1, 1, 2, 3, 2, 1]


async def test_what_was_put_off_is_not_overtaken() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(
        coalescer.execute([append("x")]),
        coalescer.execute([append("a", "1")]),
        coalescer.execute([append("a", "2"), append("c", "1")]),  # waits for a's first
        coalescer.execute([append("c", "2")]),  # so c's second waits too
    )
    await gate.open_up()
    await asyncio.gather(*tasks)
    assert gate.sent() == [["x0"], ["a1"], ["a2", "c1"], ["c2"]]


async def test_no_entity_is_in_two_flights_at_once() -> None:
    gate = Gate(flights=2)
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append("a", str(n))]) for n in range(3)))
    assert gate.sent() == [["a0"]]
    others = await begin(coalescer.execute([append("b", "0")]))
    assert gate.sent() == [["a0"], ["b0"]], "another entity's flight is free to go"
    await gate.open_up()
    await asyncio.gather(*tasks, *others)
    assert await gate.stored("a") == ["0", "1", "2"]


async def test_reads_do_not_wait_for_writes_nor_writes_for_reads() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    await begin(coalescer.execute([append("a")]), coalescer.execute([append("b")]))
    reads = await begin(coalescer.execute([fetch("c")]), coalescer.execute([fetch("d")]))
    assert gate.sent() == [["a0"], ["c?"]], "one of each direction is under way, the rest wait"
    await gate.open_up()
    await asyncio.gather(*reads)
    assert sorted(map(tuple, gate.sent())) == [("a0",), ("b0",), ("c?",), ("d?",)]


async def test_reads_that_the_engine_answers_inline_wait_for_nobody() -> None:
    gate = Gate(inline_reads=True)
    coalescer = Coalescer(gate)
    await begin(*(coalescer.execute([fetch(id)]) for id in "abc"))
    assert gate.sent() == [["a?"], ["b?"], ["c?"]]
    await gate.open_up()


async def test_reads_and_writes_of_one_call_are_answered_in_its_order() -> None:
    coalescer = Coalescer(Gate(shut=False))
    await coalescer.execute([append("a", "7")])
    outcomes = await coalescer.execute([fetch("a"), append("b"), fetch("b"), append("c")])
    read, first, other, second = outcomes
    assert isinstance(read, Fetched)
    assert read.lines == "7"
    assert isinstance(other, Fetched)
    assert (type(first), type(second)) == (Applied, Applied)


async def test_reads_that_fail_behind_writes_do_not_say_that_nothing_was_stored() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    (asking,) = await begin(coalescer.execute([append("a"), fetch("b")]))
    await gate.let_one_pass()
    gate.failure = StoreUnavailable("it went away", applied="no")
    await gate.let_one_pass()
    with pytest.raises(StoreUnavailable, match="it went away") as caught:
        await asking
    assert caught.value.applied == "unknown"
    assert gate.failure.applied == "no"  # others got it, too


# --- who no longer waits ----------------------------------------------------------------


async def test_a_caller_cancelled_before_it_was_sent_has_not_written() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append(id)]) for id in "abc"))
    tasks[1].cancel()
    await gate.open_up()
    assert version(await tasks[0]) == version(await tasks[2]) == 1
    assert tasks[1].cancelled()
    assert gate.sent() == [["a0"], ["c0"]]
    assert await gate.stored("b") == []


async def test_a_caller_cancelled_after_it_was_sent_has_written_and_disturbs_nobody() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append(id, id)]) for id in "0123"))
    await gate.let_one_pass()
    assert gate.sent()[1] == ["11", "22", "33"]
    tasks[2].cancel()
    await settle()
    assert tasks[2].cancelled()
    await gate.open_up()
    assert [version(await tasks[n]) for n in (0, 1, 3)] == [1, 1, 1]
    assert [await gate.stored(id) for id in "0123"] == [["0"], ["1"], ["2"], ["3"]]


async def test_a_cancelled_caller_that_went_alone_leaves_its_reply_to_nobody() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    (alone,) = await begin(coalescer.execute([append("a", "1")]))
    alone.cancel()
    await settle()
    assert alone.cancelled()
    (after,) = await begin(coalescer.execute([append("a", "2")]))
    await gate.open_up()
    assert version(await after) == 2
    assert await gate.stored("a") == ["1", "2"]


async def test_a_deadline_that_passes_before_sending_says_not_applied() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(
        coalescer.execute([append("a")]), coalescer.execute([append("b")], monotonic() + 0.01)
    )
    with pytest.raises(StoreUnavailable) as caught:
        await tasks[1]
    assert caught.value.applied == "no"
    await gate.open_up()
    assert version(await tasks[0]) == 1
    assert gate.sent() == [["a0"]]


async def test_a_deadline_that_passes_after_sending_says_unknown() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(
        coalescer.execute([append("a")]),
        coalescer.execute([append("b")], monotonic() + 0.2),
        coalescer.execute([append("c")]),
    )
    await gate.let_one_pass()
    with pytest.raises(StoreUnavailable) as caught:
        await tasks[1]
    assert caught.value.applied == "unknown"
    await gate.open_up()
    assert version(await tasks[2]) == 1
    assert await gate.stored("b") == ["0"]


async def test_the_engine_is_told_how_long_anybody_waits() -> None:
    gate = Gate(inline_reads=True, shut=False)
    coalescer = Coalescer(gate)
    soon, late = monotonic() + 10, monotonic() + 20
    await coalescer.execute([fetch("a")], soon)
    await coalescer.execute([append("a")], soon)
    gate.shut = True
    tasks: list[asyncio.Task[list[Outcome]]] = []
    for asked in ({"a": None}, {"b": late, "c": soon}, {"d": soon, "e": None}):
        tasks += await begin(*(coalescer.execute([append(id)], asked[id]) for id in asked))
        if "b" in asked:
            await gate.let_one_pass()
    await gate.open_up()
    await asyncio.gather(*tasks)
    assert gate.deadlines == [soon, soon, None, late, None]


async def test_a_deadline_of_one_that_went_alone_says_unknown() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    with pytest.raises(StoreUnavailable) as caught:
        await coalescer.execute([append("a")], monotonic() + 0.01)
    assert caught.value.applied == "unknown"
    await gate.open_up()
    assert await gate.stored("a") == ["0"]
    assert version(await coalescer.execute([append("a")])) == 2


# --- who suffers from a failure ---------------------------------------------------------


async def fifty(gate: Gate) -> list[list[Outcome] | BaseException]:
    """Fifty callers in one batch, behind one that went alone."""
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append(f"t{n}")]) for n in range(-1, 50)))
    await gate.open_up()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(gate.arrived[1]) == 50
    return results[1:]


@pytest.mark.parametrize("bad", [0, 1, 24, 25, 37, 49])
async def test_one_operation_that_fails_fails_only_its_caller(bad: int) -> None:
    gate = Gate()
    gate.poison = {f"t{bad}"}
    results = await fifty(gate)
    failed = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
    assert failed == [bad]
    assert len(gate.arrived) < 20
    for n in range(50):
        assert len(await gate.stored(f"t{n}")) == (n != bad)


@pytest.mark.parametrize("bad", [[3, 40], [0, 1], [24, 25]])
async def test_two_operations_that_fail_fail_only_their_callers(bad: list[int]) -> None:
    gate = Gate()
    gate.poison = {f"t{n}" for n in bad}
    results = await fifty(gate)
    failed = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
    assert failed == bad


@pytest.mark.parametrize("error", [SchemaError("it is damaged"), StoreUnavailable("it is away")])
async def test_one_damaged_entity_fails_only_those_who_read_it(error: Exception) -> None:
    gate = Gate()
    gate.damage = {"t7": error}
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([fetch(f"t{n}")]) for n in range(-1, 20)))
    await gate.open_up()
    results = await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert [n for n, result in enumerate(results) if isinstance(result, Exception)] == [7]


async def test_a_dead_store_is_not_asked_once_a_caller() -> None:
    gate = Gate()
    gate.failure = StoreUnavailable("nobody is there", applied="no")
    results = await fifty(gate)
    assert all(isinstance(r, StoreUnavailable) and r.applied == "no" for r in results)
    assert len(gate.arrived) < 25


async def test_a_batch_that_may_have_been_applied_is_not_sent_again() -> None:
    gate = Gate()
    gate.failure = StoreUnavailable("the line went dead", applied="unknown")
    results = await fifty(gate)
    assert all(isinstance(r, StoreUnavailable) and r.applied == "unknown" for r in results)
    assert len(gate.arrived) == 2


async def test_callers_of_one_failed_batch_get_errors_of_their_own() -> None:
    """The layer above notes in the error what became of its own caller's earlier tries."""
    gate = Gate()
    gate.failure = StoreUnavailable("the line went dead", applied="unknown")
    results = await fifty(gate)
    assert len({id(result) for result in results}) == 50
    assert {str(result) for result in results} == {"the line went dead"}


class Hurried(World):
    """Time passes only where somebody waits, and then at once."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    async def pause(self, seconds: float) -> None:
        self.passed += seconds
        await asyncio.sleep(0)


async def test_what_became_of_a_write_is_said_to_its_own_caller() -> None:
    """One write is stored and its reply lost; then the store is gone, for it and for all others."""
    store = open_faulty(world=Hurried(), policy=Policy(write_timeout=5.0, threads="raise"))
    store.faults.slow(0.002)  # so that they meet in batches
    lost = store.faults.fail_after(1)
    store.faults.fail_before(2, times=None)
    threads = [store.thread(f"t{n}") for n in range(20)]
    errors = await asyncio.gather(*(t.append({"n": 1}) for t in threads), return_exceptions=True)
    store.faults.clear()
    assert lost.fired
    stored = [(await thread.load()).exists for thread in threads]
    said = [e.applied for e in errors if isinstance(e, StoreUnavailable)]
    assert stored == [True] + [False] * 19
    assert said == ["unknown"] + ["no"] * 19
    await store.close()


async def test_after_a_failure_of_any_kind_the_lane_goes_on() -> None:
    gate = Gate()
    gate.failure = ZeroDivisionError("a bug in an engine")
    results = await fifty(gate)
    assert all(isinstance(result, ZeroDivisionError) for result in results)
    gate.failure = None
    coalescer = Coalescer(gate)
    assert version(await coalescer.execute([append("after")])) == 1


# --- the end ----------------------------------------------------------------------------


async def test_draining_waits_for_what_is_under_way_and_for_what_waits() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append("a", str(n))]) for n in range(3)))
    (drained,) = await begin(coalescer.drain())
    for _ in range(3):
        assert not drained.done()
        await gate.let_one_pass()
    assert drained.done()
    assert [version(await task) for task in tasks] == [1, 2, 3]


async def test_draining_waits_for_a_batch_whose_callers_have_all_gone() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    tasks = await begin(*(coalescer.execute([append(id)]) for id in "abc"))
    await gate.let_one_pass()
    for task in tasks[1:]:
        task.cancel()
    (drained,) = await begin(coalescer.drain())
    assert not drained.done()
    await gate.let_one_pass()
    assert drained.done()
    assert await gate.stored("c") == ["0"]


async def test_several_may_wait_for_the_end() -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    await begin(coalescer.execute([append("a")]))
    drains = await begin(coalescer.drain(), coalescer.drain())
    await gate.open_up()
    async with asyncio.timeout(30):
        await asyncio.gather(*drains)


async def test_draining_with_nothing_under_way_returns_at_once() -> None:
    await Coalescer(Gate()).drain()


async def test_a_batch_that_stalls_in_a_server_holds_up_only_what_it_touches() -> None:
    gate = Gate()
    gate.capabilities = replace(gate.capabilities, networked=True)
    coalescer = Coalescer(gate)
    stuck, again, other = await begin(
        coalescer.execute([append("a")]),
        coalescer.execute([append("a", "1")]),
        coalescer.execute([append("b")]),
    )
    async with asyncio.timeout(30):
        while len(gate._waiting) < 2:  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)
        gate._waiting.pop().set()
        assert version(await other) == 1
        assert gate.sent() == [["a0"], ["b0"]]
        await gate.open_up()
        assert [version(await stuck), version(await again)] == [1, 2]
        await coalescer.drain()


async def test_what_somebody_outside_holds_travels_alone_until_it_is_free() -> None:
    gate = Gate()
    gate.capabilities = replace(gate.capabilities, networked=True)
    coalescer = Coalescer(gate)
    gate.failure = EntityBusy("somebody has locked it")
    (held,) = await begin(coalescer.execute([append("a")]))
    await gate.let_one_pass()
    with pytest.raises(EntityBusy):
        await held
    gate.failure = None
    calls = await begin(*(coalescer.execute([append(id)]) for id in ("first", "b", "a", "c")))
    await gate.let_one_pass()
    await gate.open_up()
    await asyncio.gather(*calls)
    assert gate.sent()[1:] == [["first0"], ["b0", "c0"], ["a0"]]
