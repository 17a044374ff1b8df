"""The list of the cases of the state layer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from conformance.state.harness import StoreHarness
from stateward.testing.conformance.cases import Suite

Case = Callable[[StoreHarness], Awaitable[None]]

SUITE: Suite[Case] = Suite()
case = SUITE.case
clock_case = SUITE.clock_case
