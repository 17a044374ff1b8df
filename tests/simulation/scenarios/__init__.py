"""What simulated processes do together, and what must hold whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from simulation.scenarios.cancels import cancels
from simulation.scenarios.documents import documents
from simulation.scenarios.erase import erase
from simulation.scenarios.journals import journals
from simulation.scenarios.live import live
from simulation.scenarios.locks import locks
from simulation.scenarios.schedules import schedules
from simulation.scenarios.spill import spill
from simulation.scenarios.tasks import tasks
from simulation.scenarios.threads import threads
from simulation.scenarios.turns import turns
from simulation.scenarios.workflows import workflows
from simulation.simulation import Simulation

Scenario = Callable[[Simulation], Coroutine[Any, Any, None]]

SCENARIOS: dict[str, Scenario] = {
    "documents": documents,
    "threads": threads,
    "turns": turns,
    "live": live,
    "locks": locks,
    "tasks": tasks,
    "schedules": schedules,
    "workflows": workflows,
    "cancels": cancels,
    "journals": journals,
    "erase": erase,
    "spill": spill,
}
