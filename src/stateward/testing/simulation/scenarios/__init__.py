"""What simulated processes do together, and what must hold whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from stateward.testing.simulation.scenarios.documents import documents
from stateward.testing.simulation.scenarios.erase import erase
from stateward.testing.simulation.scenarios.journals import journals
from stateward.testing.simulation.scenarios.locks import locks
from stateward.testing.simulation.scenarios.spill import spill
from stateward.testing.simulation.scenarios.tasks import tasks
from stateward.testing.simulation.scenarios.threads import threads
from stateward.testing.simulation.scenarios.workflows import workflows
from stateward.testing.simulation.simulation import Simulation

Scenario = Callable[[Simulation], Coroutine[Any, Any, None]]

SCENARIOS: dict[str, Scenario] = {
    "documents": documents,
    "threads": threads,
    "locks": locks,
    "tasks": tasks,
    "workflows": workflows,
    "journals": journals,
    "erase": erase,
    "spill": spill,
}
