"""`PYTHONPATH=tests python -m simulation SCENARIO SEED` runs a seed again."""

from __future__ import annotations

import argparse
import sys

from simulation.broken import BROKEN
from simulation.runner import run
from simulation.scenarios import SCENARIOS
from simulation.served import ServedSimulation
from simulation.simulation import Simulation, Violation


def main() -> int:
    """0: every seed kept every promise; 1: one did not."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation",
        description="Run Stateward's own code under simulated faults, the same for the same seed.",
    )
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="run so many seeds from SEED on")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--broken", choices=sorted(BROKEN), help="use a broken store")
    parser.add_argument("--served", action="store_true", help="reach the store through a service")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first violation")
    said = parser.parse_args()
    model = BROKEN[said.broken] if said.broken else None
    kind = ServedSimulation if said.served else Simulation
    trace = print if said.trace else None
    failed = 0
    for seed in range(said.seed, said.seed + said.seeds):
        try:
            run(said.scenario, seed, model=model, trace=trace, kind=kind)
        except Violation as violation:
            print(violation)
            failed += 1
            if not said.go_on:
                return 1
    print(f"{said.scenario}: {said.seeds} seed(s), {failed} violation(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
