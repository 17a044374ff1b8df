"""The blocking coalescer, rule by rule, over an engine whose batches wait for the test."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from stateward import SchemaError, StoreUnavailable
from stateward.engines.memory.model import Model
from stateward.layers.lane_sync import Lane
from stateward.layers.queue import MOST_CHARACTERS
from stateward.ops import Append, Applied, Commit, Entity, Fetch, Fetched, Log, Op, Outcome
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.layers.coalescer import Coalescer
from stateward.world import World

PATIENCE = 5.0  # seconds until a test that waits for a condition gives up
T = TypeVar("T")
ops = count()


class Gate(MemoryEngine):
    """A memory engine whose every batch waits until the test lets it pass."""

    def __init__(self, *, inline_reads: bool = False, batch: int = 256, shut: bool = True) -> None:
        super().__init__(Model(), World())
        self.capabilities = replace(
            MemoryEngine.capabilities, inline_reads=inline_reads, batch=batch
        )
        self.arrived: list[list[Op]] = []
        self.deadlines: list[float | None] = []
        self.threads: list[threading.Thread] = []
        self.poison: set[str] = set()  # ids of entities whose commits fail the whole batch
        self.damage: dict[str, Exception] = {}  # by id of entities that no fetch can read
        self.failure: Exception | None = None  # what every batch fails with
        self._passes = threading.Condition()
        self._shut = shut
        self._permits = 0

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        with self._passes:
            self.arrived.append(list(ops))
            self.deadlines.append(deadline)
            self.threads.append(threading.current_thread())
            self._passes.notify_all()
            assert self._passes.wait_for(lambda: not self._shut or self._permits > 0, PATIENCE)
            self._permits -= self._shut
        if self.failure is not None:
            raise self.failure
        for op in ops:
            if isinstance(op, Fetch) and op.entity.id in self.damage:
                raise self.damage[op.entity.id]
        if any(isinstance(op, Commit) and op.entity.id in self.poison for op in ops):
            raise StoreUnavailable("this operation cannot be stored", applied="no")
        return super().execute(ops, deadline=deadline)

    def let_one_pass(self) -> None:
        with self._passes:
            self._permits += 1
            self._passes.notify_all()

    def open_up(self) -> None:
        with self._passes:
            self._shut = False
            self._passes.notify_all()

    def await_batches(self, number: int) -> None:
        """Until so many batches have arrived."""
        with self._passes:
            assert self._passes.wait_for(lambda: len(self.arrived) >= number, PATIENCE)

    def sent(self) -> list[list[str]]:
        with self._passes:
            return [[said(op) for op in batch] for batch in self.arrived]

    def stored(self, id: str) -> list[str]:
        fetch = Fetch(Entity("n", "thread", id), log=Log(details=True))
        (fetched,) = super().execute([fetch])
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


def version(outcomes: list[Outcome]) -> int:
    (outcome,) = outcomes
    assert isinstance(outcome, Applied)
    return outcome.version


def until(condition: Callable[[], bool]) -> None:
    """A lane has no event for "somebody waits now": look, until it is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.0005)


class Callers:
    """Threads that ask one coalescer, each only when the one before it is waiting."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def ask(
        self, coalescer: Coalescer, *calls: Sequence[Op], timeout: float | None = None
    ) -> list[Future[list[Outcome]]]:
        futures = []
        for call in calls:
            lane = coalescer._writes if isinstance(call[0], Commit) else coalescer._reads
            led, waiting = lane._leader is not None, len(lane._queue)
            deadline = None if timeout is None else time.monotonic() + timeout
            futures.append(self._pool.submit(coalescer.execute, call, deadline))
            until(partial(_is_in, lane, waiting + 1 if led else 0))
        return futures

    def run(self, work: Callable[[], T]) -> Future[T]:
        return self._pool.submit(work)


def _is_in(lane: Lane, waiting: int) -> bool:
    return lane._leader is not None and len(lane._queue) >= waiting


@pytest.fixture
def callers() -> Iterator[Callers]:
    with ThreadPoolExecutor(64) as pool:
        yield Callers(pool)


def answers(futures: Sequence[Future[list[Outcome]]]) -> list[list[Outcome]]:
    return [future.result(PATIENCE) for future in futures]


def test_with_nothing_under_way_a_caller_goes_straight_to_the_engine() -> None:
    gate = Gate(shut=False)
    coalescer = Coalescer(gate)
    for id in ("a", "b"):
        assert version(coalescer.execute([append(id)])) == 1
    assert gate.sent() == [["a0"], ["b0"]]
    assert set(gate.threads) == {threading.current_thread()}


def test_what_arrives_meanwhile_travels_together(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    futures = callers.ask(coalescer, *([append(id)] for id in "abcdef"))
    assert gate.sent() == [["a0"]]
    gate.let_one_pass()
    gate.await_batches(2)
    assert gate.sent() == [["a0"], ["b0", "c0", "d0", "e0", "f0"]]
    gate.let_one_pass()
    assert [version(answer) for answer in answers(futures)] == [1] * 6


def test_a_batch_is_no_larger_than_the_engine_wants_it(callers: Callers) -> None:
    gate = Gate(batch=10)
    futures = callers.ask(Coalescer(gate), *([append(f"t{n}")] for n in range(26)))
    gate.open_up()
    answers(futures)
    assert [len(batch) for batch in gate.arrived] == [1, 10, 10, 5]


def test_no_entity_is_twice_in_a_batch_and_its_order_holds(callers: Callers) -> None:
    gate = Gate()
    asked = ["x0", "a1", "b1", "a2", "a3", "b2", "c1"]
    futures = callers.ask(Coalescer(gate), *([append(it[0], it[1])] for it in asked))
    gate.open_up()
    assert [version(answer) for answer in answers(futures)] == [1, 1, 1, 2, 3, 2, 1]
    assert gate.sent() == [["x0"], ["a1", "b1", "c1"], ["a2", "b2"], ["a3"]]
    assert gate.stored("a") == ["1", "2", "3"]


def test_reads_do_not_wait_for_writes_nor_writes_for_reads(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    futures = callers.ask(coalescer, [append("a")], [append("b")], [fetch("c")], [fetch("d")])
    gate.await_batches(2)
    assert gate.sent() == [["a0"], ["c?"]]
    gate.open_up()
    answers(futures)
    assert sorted(map(tuple, gate.sent())) == [("a0",), ("b0",), ("c?",), ("d?",)]


def test_reads_that_the_engine_answers_inline_wait_for_nobody(callers: Callers) -> None:
    gate = Gate(inline_reads=True)
    coalescer = Coalescer(gate)
    waiting = [callers.run(partial(coalescer.execute, [fetch(id)])) for id in "abc"]
    gate.await_batches(3)
    gate.open_up()
    for future in waiting:
        future.result(PATIENCE)


def test_a_deadline_that_passes_before_sending_says_not_applied(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    (first,) = callers.ask(coalescer, [append("a")])
    (late,) = callers.ask(coalescer, [append("b")], timeout=0.01)
    error = late.exception(PATIENCE)
    assert isinstance(error, StoreUnavailable)
    assert error.applied == "no"
    gate.open_up()
    assert version(first.result(PATIENCE)) == 1
    coalescer.drain()
    assert gate.sent() == [["a0"]]


def test_a_deadline_that_passes_after_sending_says_unknown(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    futures = callers.ask(coalescer, [append("a")], [append("b")])
    (late,) = callers.ask(coalescer, [append("c")], timeout=2.0)
    gate.let_one_pass()
    gate.await_batches(2)
    assert gate.sent()[1] == ["b0", "c0"]
    error = late.exception(PATIENCE)
    assert isinstance(error, StoreUnavailable)
    assert error.applied == "unknown"
    gate.open_up()
    assert [version(answer) for answer in answers(futures)] == [1, 1]
    assert gate.stored("c") == ["0"]


def test_the_engine_is_told_how_long_the_thread_that_leads_can_wait(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    began = time.monotonic()
    futures = [
        *callers.ask(coalescer, [append("a")], timeout=10),
        *callers.ask(coalescer, [append("b")], timeout=20),
        *callers.ask(coalescer, [append("c")], timeout=30),  # leads the two: it has most time
    ]
    gate.open_up()
    answers(futures)
    assert [(end or began) - began for end in gate.deadlines] == pytest.approx([10, 30], abs=5)


def fifty(gate: Gate, callers: Callers) -> list[list[Outcome] | BaseException]:
    """Fifty callers in one batch, behind one that went alone."""
    futures = callers.ask(Coalescer(gate), *([append(f"t{n}")] for n in range(-1, 50)))
    gate.open_up()
    results = [future.exception(PATIENCE) or future.result() for future in futures]
    assert len(gate.arrived[1]) == 50
    return results[1:]


@pytest.mark.parametrize("bad", [0, 25, 49])
def test_one_operation_that_fails_fails_only_its_caller(bad: int, callers: Callers) -> None:
    gate = Gate()
    gate.poison = {f"t{bad}"}
    results = fifty(gate, callers)
    failed = [n for n, result in enumerate(results) if isinstance(result, BaseException)]
    assert failed == [bad]
    assert len(gate.arrived) < 20
    assert [len(gate.stored(f"t{n}")) for n in range(50)] == [int(n != bad) for n in range(50)]


@pytest.mark.parametrize("error", [SchemaError("it is damaged"), StoreUnavailable("it is away")])
def test_one_damaged_entity_fails_only_those_who_read_it(
    error: Exception, callers: Callers
) -> None:
    gate = Gate()
    gate.damage = {"t7": error}
    futures = callers.ask(Coalescer(gate), *([fetch(f"t{n}")] for n in range(-1, 20)))
    gate.open_up()
    results = [future.exception(PATIENCE) for future in futures[1:]]
    assert [n for n, result in enumerate(results) if result is not None] == [7]


def test_a_batch_is_bounded_by_its_text_too(callers: Callers) -> None:
    gate = Gate()
    large = "x" * (MOST_CHARACTERS // 2 - 10)
    calls = [[append(f"t{n}", large)] for n in range(5)]
    calls[3] = [append("t3", large * 5)]  # more than a batch may hold goes alone
    futures = callers.ask(Coalescer(gate), [append("first")], *calls)
    gate.open_up()
    assert [version(answer) for answer in answers(futures)] == [1] * 6
    assert [len(batch) for batch in gate.arrived] == [1, 2, 1, 1, 1]


def test_a_dead_store_is_not_asked_once_a_caller(callers: Callers) -> None:
    gate = Gate()
    gate.failure = StoreUnavailable("nobody is there", applied="no")
    results = fifty(gate, callers)
    assert all(isinstance(r, StoreUnavailable) and r.applied == "no" for r in results)
    assert len(gate.arrived) < 25


def test_a_batch_that_may_have_been_applied_is_not_sent_again(callers: Callers) -> None:
    gate = Gate()
    gate.failure = StoreUnavailable("the line went dead", applied="unknown")
    results = fifty(gate, callers)
    assert all(isinstance(r, StoreUnavailable) and r.applied == "unknown" for r in results)
    assert len(gate.arrived) == 2


def test_callers_of_one_failed_batch_get_errors_of_their_own(callers: Callers) -> None:
    """Two threads must not write into one error what became of their own earlier tries."""
    gate = Gate()
    gate.failure = StoreUnavailable("the line went dead", applied="unknown")
    results = fifty(gate, callers)
    assert len({id(result) for result in results}) == 50
    assert {str(result) for result in results} == {"the line went dead"}


def test_after_a_failure_of_any_kind_the_lane_goes_on(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    gate.failure = ZeroDivisionError("a bug in an engine")
    futures = callers.ask(coalescer, *([append(f"t{n}")] for n in range(10)))
    gate.open_up()
    assert all(isinstance(future.exception(PATIENCE), ZeroDivisionError) for future in futures)
    gate.failure = None
    assert version(coalescer.execute([append("after")])) == 1


def test_a_leader_whose_time_is_over_asks_a_dead_store_for_nobody_again(callers: Callers) -> None:
    """Halves of a batch that wait for a lock, one after the other, would hold it up for long."""
    gate = Gate()
    coalescer = Coalescer(gate)
    (first,) = callers.ask(coalescer, [append("a")])
    late = callers.ask(coalescer, [append("b")], [append("c")], [append("d")], timeout=2.0)
    gate.let_one_pass()
    gate.await_batches(2)
    assert gate.sent()[1] == ["b0", "c0", "d0"]
    first.result(PATIENCE)
    deadline = gate.deadlines[1]
    assert deadline is not None
    while time.monotonic() < deadline:
        time.sleep(0.01)
    gate.failure = StoreUnavailable("the file is locked", applied="no")
    gate.open_up()
    for future in late:
        assert isinstance(future.exception(PATIENCE), StoreUnavailable)
    coalescer.drain()
    assert len(gate.sent()) == 2


def test_the_lead_is_handed_on_before_the_answers_are(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the store is never idle while the threads that were answered wake up."""
    gate = Gate()
    coalescer = Coalescer(gate)
    lane: Lane = coalescer._writes
    pass_on = lane._pass_on
    futures = callers.ask(coalescer, [append("first")], [append("leader")], [append("follower")])
    gate.let_one_pass()
    gate.await_batches(2)
    answered: list[bool] = []

    def watched(*args: Any) -> None:
        done, _ = wait([futures[2]], timeout=0.1)
        answered.append(bool(done))
        pass_on(*args)

    monkeypatch.setattr(lane, "_pass_on", watched)
    gate.open_up()
    answers(futures)
    assert answered == [False]
    assert gate.sent() == [["first0"], ["leader0", "follower0"]]


def test_draining_waits_for_what_is_under_way_and_for_what_waits(callers: Callers) -> None:
    gate = Gate()
    coalescer = Coalescer(gate)
    futures = callers.ask(coalescer, *([append("a", str(n))] for n in range(3)))
    drained = callers.run(coalescer.drain)
    for number in (1, 2, 3):
        gate.await_batches(number)
        assert not drained.done()
        gate.let_one_pass()
    drained.result(PATIENCE)
    assert [version(answer) for answer in answers(futures)] == [1, 2, 3]
    Coalescer(gate).drain()  # with nothing under way, at once


def test_a_hundred_threads_get_their_own_answers(callers: Callers) -> None:
    gate = Gate(shut=False)
    coalescer = Coalescer(gate)

    def converse(number: int) -> None:
        chance = random.Random(number)
        for turn in range(1, 21):
            mine = append(f"t{number}", f"{number}.{turn}")
            assert version(coalescer.execute([mine], time.monotonic() + PATIENCE)) == turn
            if chance.random() < 0.5:
                coalescer.execute([append("all", f"{number}.{turn}")], time.monotonic() + PATIENCE)
            (fetched,) = coalescer.execute([fetch(f"t{number}")])
            assert isinstance(fetched, Fetched)
            assert fetched.lines.split("\n")[-1] == f"{number}.{turn}"

    for talk in [callers.run(partial(converse, n)) for n in range(100)]:
        talk.result(30)
    together = gate.stored("all")
    assert len(together) == len(set(together)) > 500


def test_a_batch_that_stalls_in_a_server_holds_up_only_what_it_touches(callers: Callers) -> None:
    class Stuck(Gate):
        """Whose first batch waits, and no other."""

        def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
            if said(ops[0]) == "a0":
                return super().execute(ops, deadline=deadline)
            with self._passes:
                self.arrived.append(list(ops))
            return MemoryEngine.execute(self, ops, deadline=deadline)

    gate = Stuck()
    gate.capabilities = replace(gate.capabilities, networked=True)
    coalescer = Coalescer(gate)
    calls = [append("a")], [append("a", "1")], [append("b")], [append("c")]
    stuck, again, *others = callers.ask(coalescer, *calls)
    assert [version(outcomes) for outcomes in answers(others)] == [1, 1]
    assert not again.done()
    assert version(coalescer.execute([append("d")], None)) == 1
    gate.open_up()
    assert [version(stuck.result(PATIENCE)), version(again.result(PATIENCE))] == [1, 2]
    coalescer.drain()


def test_reads_that_fail_behind_writes_do_not_say_that_nothing_was_stored(callers: Callers) -> None:
    gate = Gate(shut=False)
    coalescer = Coalescer(gate)
    gate.damage["b"] = StoreUnavailable("it went away", applied="no")
    with pytest.raises(StoreUnavailable, match="it went away") as caught:
        coalescer.execute([append("a"), fetch("b")])
    assert caught.value.applied == "unknown"
    assert gate.stored("a") == ["0"]
