"""What stores promise on any engine: threads, users, tasks, workflows, locks, journals.

The contract of the engines themselves is `stateward.testing.conformance`. Here only the async
half is written down; `conformance.blocking` makes the other from it when the tests start.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from conformance.state.cases import SUITE, Case
from conformance.state.harness import StoreHarness

SUBJECTS = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))

for subject in SUBJECTS:
    import_module(f"{__name__}.{subject}")

CASES = SUITE.cases
NEED_CLOCK = SUITE.need_clock

__all__ = ["CASES", "NEED_CLOCK", "Case", "StoreHarness"]
