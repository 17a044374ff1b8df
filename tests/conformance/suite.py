"""Every case there is, of engines and of the state layer, ready to be run in either colour."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import collected
import pytest

from conformance import blocking, state
from stateward.engine import Engine, SyncEngine
from stateward.testing import conformance as contract
from stateward.testing.async_over import AsyncOver
from stateward.testing.conformance.cases import CONTRACT
from stateward.world import World

AsyncCase = Callable[[Callable[[World], Engine], World], Awaitable[None]]
BlockingCase = Callable[[Callable[[World], SyncEngine], World], None]


def on_engines(case: state.Case) -> AsyncCase:
    """A case with a harness around it."""

    async def run(make_engine: Callable[[World], Engine], world: World) -> None:
        async with state.StoreHarness(make_engine, world) as harness:
            await case(harness)

    return run


def through_threads(case: contract.Case) -> BlockingCase:
    """A case of the contract, for blocking engines."""

    def run(make_engine: Callable[[World], SyncEngine], world: World) -> None:
        with asyncio.Runner() as runner:
            runner.run(on_engines(case)(lambda world: AsyncOver(make_engine(world)), world))

    return run


def in_blocking_calls(case: blocking.Case) -> BlockingCase:
    """A case of the blocking state layer."""

    def run(make_engine: Callable[[World], SyncEngine], world: World) -> None:
        with blocking.StoreHarness(make_engine, world) as harness:
            case(harness)

    return run


ASYNC = [(name, on_engines(case)) for name, case in (*contract.CASES, *state.CASES)]
BLOCKING = [
    *((name, through_threads(case)) for name, case in contract.CASES),
    *((name, in_blocking_calls(case)) for name, case in blocking.CASES),
]
NEED_CLOCK = CONTRACT.need_clock | state.NEED_CLOCK
OF_ENGINES = frozenset(name for name, _ in contract.CASES)
# Opens hundreds of stores to come between any two calls of a method. Which calls these are, and
# what they check, is the state layer's own, so one engine proves it: the one in memory. What
# other engines add, that a check holds, the contract proves; `make soak` repeats it on them all.
SWEEPS = frozenset(
    {
        "methods.nothing_that_was_erased_comes_back_by_a_call_under_way",
        "methods.nothing_that_was_erased_comes_back_by_a_worker",
        "methods.what_is_told_how_long_it_is_kept_is_kept_so_long",
        "deletions.no_call_writes_to_a_conversation_whose_end_it_has_missed",
    }
)
assert dict(ASYNC).keys() >= SWEEPS

_TIME = ("leases.", "retention.what_has_expired", "retention.after_expiry")
# A few that really wait, for stores whose own clock is tried too.
ABOUT_TIME = [
    (name, case) for name, case in ASYNC if name.startswith(_TIME) and name not in NEED_CLOCK
]


def selectable(params: Iterable[Any]) -> list[Any]:
    """Return the parameters of a test that this run may select."""
    return [p for p in params if collected.soak or all(mark.name != "soak" for mark in p.marks)]


# One of several ways in which a store is reached: its number among them, and how many they are.
Cell = tuple[int, int]


def belongs(name: str, cell: Cell) -> bool:
    """Return whether a case runs in this cell of an engine before the soak.

    Cases of the contract are about the engine, so they run in each. Cases of the state layer are
    about what is above it, so each runs once per engine, in the cell that its name decides.
    """
    number, count = cell
    return name in OF_ENGINES or zlib.crc32(name.encode()) % count == number


def params(
    cases: Iterable[tuple[str, Any]], *prefixes: str, others: Any = None, cell: Cell = (0, 1)
) -> list[Any]:
    """For `parametrize`: the cases whose names begin so; the others get a mark, or are left out.

    For stores on a server: sweeps and the cases of other cells are left to the soak.
    """
    chosen = []
    for name, case in cases:
        if name in SWEEPS or not belongs(name, cell):
            chosen.append(pytest.param(case, id=name, marks=pytest.mark.soak))
        elif name.startswith(prefixes or ""):
            chosen.append(pytest.param(case, id=name))
        elif others is not None:
            chosen.append(pytest.param(case, id=name, marks=others))
    return selectable(chosen)
