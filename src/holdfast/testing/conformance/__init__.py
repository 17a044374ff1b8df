"""The contract of `holdfast.engine`, as cases that any engine can be put through.

An engine of your own proves itself in ten lines (with pytest-asyncio, `asyncio_mode=auto`):

    import pytest
    from holdfast.testing.clock import SteppableWorld
    from holdfast.testing.conformance import CASES, Harness
    from my_engine import MyEngine

    @pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES])
    async def test_conformance(case, tmp_path):
        async with Harness(lambda world: MyEngine(tmp_path, world), SteppableWorld(1e9)) as harness:
            await case(harness)

The function given to `Harness` is called once a replica: every engine it returns must be
another one over the same store. An engine whose clock is a server's, which no test can move, gets
`World()` instead of `SteppableWorld` and runs `WITHOUT_CLOCK`, the cases that do not let hours
pass; they really wait, for seconds. `holdfast.sync.testing.conformance` is the same for
blocking engines.
"""

from __future__ import annotations

import holdfast.testing.conformance.applications
import holdfast.testing.conformance.belongings
import holdfast.testing.conformance.checks
import holdfast.testing.conformance.commits
import holdfast.testing.conformance.compaction
import holdfast.testing.conformance.feeds
import holdfast.testing.conformance.inputs
import holdfast.testing.conformance.journals
import holdfast.testing.conformance.leases
import holdfast.testing.conformance.lifecycle
import holdfast.testing.conformance.listing
import holdfast.testing.conformance.locks
import holdfast.testing.conformance.namespaces
import holdfast.testing.conformance.reading
import holdfast.testing.conformance.repeats
import holdfast.testing.conformance.restoring
import holdfast.testing.conformance.retention
import holdfast.testing.conformance.signals
import holdfast.testing.conformance.steps
import holdfast.testing.conformance.tasks
import holdfast.testing.conformance.threads
import holdfast.testing.conformance.users
import holdfast.testing.conformance.values
import holdfast.testing.conformance.windows
import holdfast.testing.conformance.work
import holdfast.testing.conformance.workflows
import holdfast.testing.conformance.writes  # noqa: F401
from holdfast.testing.conformance.cases import CASES, NEED_CLOCK, Case
from holdfast.testing.conformance.harness import Harness, Replica

WITHOUT_CLOCK = [(name, run) for name, run in CASES if name not in NEED_CLOCK]

__all__ = ["CASES", "WITHOUT_CLOCK", "Case", "Harness", "Replica"]
