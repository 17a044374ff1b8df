"""What is measured, and what becomes of calls that fail."""

from __future__ import annotations

import asyncio
from itertools import count

import msgspec

from stateward.benchmark.benchmark import BenchPlan, _slot
from stateward.benchmark.calls import MESSAGE_BYTES, message, threads_of
from stateward.benchmark.figures import FigureCell, Slot, figures
from stateward.benchmark.text import ms
from stateward.errors import StateConflictError, StoreUnavailable


def test_percentiles_are_over_all_rounds_and_throughput_is_the_median_round() -> None:
    took = [number / 1000 for number in range(1, 101)]
    slots = [
        Slot(took[:50], {}, elapsed=1.0, cpu=0.01),
        Slot(took[50:], {"StoreUnavailable": 1}, elapsed=0.5, cpu=0.02),
        Slot([], {"StoreUnavailable": 2}, elapsed=1.0, cpu=0.0),
    ]
    found = figures(FigureCell("append", 10, 100), slots)
    assert (found.p50_ms, found.p95_ms, found.p99_ms) == (50.0, 95.0, 99.0)
    assert found.calls == 100
    assert found.errors == {"StoreUnavailable": 3}
    assert found.per_second == 50.0
    assert found.cpu_us == 300.0


def test_a_cell_in_which_nothing_succeeded_has_no_times() -> None:
    found = figures(FigureCell("get", 1, 100), [Slot([], {"StoreUnavailable": 4}, elapsed=1.0)])
    assert (found.calls, found.per_second) == (0, 0)
    assert found.p50_ms is found.p99_ms is found.cpu_us is None


def test_calls_that_fail_are_counted_by_name_and_are_no_latency() -> None:
    numbers = count()

    async def call(_caller: int) -> None:
        number = next(numbers)
        if number % 3 == 1:
            raise StoreUnavailable("gone", applied="no")
        if number % 3 == 2:
            raise StateConflictError("changed")

    slot = asyncio.run(_slot(call, 1, 3600.0, 9))
    assert len(slot.took) == 3
    assert slot.errors == {"StoreUnavailable": 3, "StateConflictError": 3}


def test_every_caller_gets_its_turn_though_no_call_ever_waits() -> None:
    asked = [0, 0, 0]

    async def call(caller: int) -> None:
        asked[caller] += 1

    asyncio.run(_slot(call, 3, 3600.0, 30))
    assert asked == [10, 10, 10]


def test_the_plan_has_each_cell_once_with_appends_last() -> None:
    cells = BenchPlan(conversations=(1, 10), history=(10, 100)).cells()
    assert len(cells) == len(set(cells)) == 6 * 2 + 3
    kinds = [cell.operation for cell in cells]
    first = kinds.index("append")
    assert {kind for kind in kinds[first:] if kind != "append"} == set(), "appends come last"
    assert BenchPlan(history=(7, 30)).base == 7
    assert {cell.history for cell in BenchPlan().cells() if cell.conversations > 1} == {100}


def test_there_are_conversations_enough_for_all_callers_and_many_short_ones() -> None:
    assert threads_of(10, 1) == 100
    assert threads_of(10_000, 1) == 3
    assert threads_of(100, 250) == 250
    assert BenchPlan(conversations=(1, 40), history=(100, 1_000)).lengths() == {100: 40, 1_000: 3}


def test_a_message_has_the_size_that_is_said() -> None:
    assert len(msgspec.json.encode(message("user", 12_345))) == MESSAGE_BYTES


def test_times_have_three_digits() -> None:
    assert [ms(each) for each in (None, 0.0312, 4.567, 1234.5)] == [None, "0.031", "4.57", "1,234"]
