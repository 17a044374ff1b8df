"""Cases of the contract, and the list of them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from stateward.testing.conformance.harness import Harness

if not __debug__:
    raise RuntimeError("the cases are assert statements: run them without python -O")

Case = Callable[[Harness], Awaitable[None]]
C = TypeVar("C", bound=Callable[..., Any])


class Suite(Generic[C]):
    """Cases by name, in their order, and which of them need a clock that can be moved."""

    def __init__(self) -> None:
        self.cases: list[tuple[str, C]] = []
        self.need_clock: set[str] = set()

    def case(self, function: C) -> C:
        """Add a case. Its name is a sentence that the engine makes true."""
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        assert name not in dict(self.cases), f"two cases are called {name}"
        self.cases.append((name, function))
        return function

    def clock_case(self, function: C) -> C:
        """Add a case that lets hours pass or sets the clock back."""
        self.case(function)
        self.need_clock.add(self.cases[-1][0])
        return function

    def without_clock(self) -> list[tuple[str, C]]:
        """The cases for an engine whose clock is a server's, which no test can move."""
        return [(name, run) for name, run in self.cases if name not in self.need_clock]


CONTRACT: Suite[Case] = Suite()
case = CONTRACT.case
clock_case = CONTRACT.clock_case
