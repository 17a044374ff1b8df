"""Deterministic simulation: the real code, virtual time, and everything that can go wrong.

Several simulated processes, each with a real `Store` and all its layers, share one store in
memory. They run on one event loop whose clock is virtual and whose order of events is drawn from
a seed; so are the faults: operations that fail before or after they were executed, or come late,
processes that die, freeze or hang, a store that is out of reach, clocks that jump. Each scenario
(`scenarios/`) lets them work together, heals everything, and then judges what is stored against
what callers were told. The same seed gives the same run, so a failure can be looked at:

    PYTHONPATH=tests python -m simulation workflows 4711 --trace
"""

from simulation.broken import BROKEN
from simulation.runner import Run, first_violation, run, run_many
from simulation.scenarios import SCENARIOS
from simulation.simulation import Process, Simulation, Violation

__all__ = [
    "BROKEN",
    "SCENARIOS",
    "Process",
    "Run",
    "Simulation",
    "Violation",
    "first_violation",
    "run",
    "run_many",
]
