"""The contract of `stateward.engine`, as cases that any engine can be put through.

An engine of your own proves itself in ten lines (with pytest-asyncio, `asyncio_mode=auto`):

    import pytest
    from stateward.testing.clock import SteppableWorld
    from stateward.testing.conformance import CASES, Harness
    from my_engine import MyEngine

    @pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES])
    async def test_conformance(case, tmp_path):
        async with Harness(lambda world: MyEngine(tmp_path, world), SteppableWorld(1e9)) as harness:
            await case(harness)

The function given to `Harness` is called once a replica: every engine it returns must be
another one over the same store. An engine whose clock is a server's, which no test can move, gets
`World()` instead of `SteppableWorld` and runs `WITHOUT_CLOCK`, the cases that do not let hours
pass; they really wait, for seconds. A blocking engine is put through the same cases as
`AsyncOver(MyEngine(…))`, of `stateward.testing.async_over`.
"""

from __future__ import annotations

import stateward.testing.conformance.backups
import stateward.testing.conformance.checks
import stateward.testing.conformance.commits
import stateward.testing.conformance.counts
import stateward.testing.conformance.fences
import stateward.testing.conformance.fetches
import stateward.testing.conformance.heads
import stateward.testing.conformance.leases
import stateward.testing.conformance.lifecycle
import stateward.testing.conformance.listing
import stateward.testing.conformance.notes
import stateward.testing.conformance.recent
import stateward.testing.conformance.repeats
import stateward.testing.conformance.restores
import stateward.testing.conformance.retention
import stateward.testing.conformance.values
import stateward.testing.conformance.writes  # noqa: F401
from stateward.testing.conformance.cases import CONTRACT, Case
from stateward.testing.conformance.harness import Caller, Harness

CASES = CONTRACT.cases
WITHOUT_CLOCK = CONTRACT.without_clock()

__all__ = ["CASES", "WITHOUT_CLOCK", "Caller", "Case", "Harness"]
