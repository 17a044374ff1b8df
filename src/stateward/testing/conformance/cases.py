"""What a case is, and the list of them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from stateward.testing.conformance.harness import Harness

if not __debug__:
    raise RuntimeError("the cases are assert statements: run them without python -O")

Case = Callable[[Harness], Awaitable[None]]

CASES: list[tuple[str, Case]] = []
NEED_CLOCK: set[str] = set()  # the names of those that let hours pass or set the clock back


def case(function: Case) -> Case:
    """Add a case. Its name is a sentence that the engine makes true."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    assert name not in dict(CASES), f"two cases are called {name}"
    CASES.append((name, function))
    return function


def clock_case(function: Case) -> Case:
    """Add a case that can only be run where the harness can move the engine's clock."""
    NEED_CLOCK.add(f"{function.__module__.rpartition('.')[2]}.{function.__name__}")
    return case(function)
