"""Running a scenario with a seed, and saying how to see a failure again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from msgspec import Struct

from holdfast.engines.memory.model import Model
from holdfast.testing.simulation.loop import GetsNowhere
from holdfast.testing.simulation.scenarios import SCENARIOS
from holdfast.testing.simulation.simulation import Simulation, Violation

Broken = Callable[[Random], Model]


class Run(Struct, frozen=True):
    """What one run was like."""

    fired: Counter[str]
    turns: int


def run(
    scenario: str,
    seed: int,
    *,
    model: Broken | None = None,
    trace: Callable[[str], object] | None = None,
) -> Run:
    """Run one scenario with one seed; raises `Violation` if a promise was broken.

    `model` makes another store, e.g. a deliberately broken one. `trace` gets a line for each
    thing that happens.
    """
    simulation = Simulation(seed, model=model, trace=trace)
    cause: Exception | None = None
    with _quiet_logs():
        try:
            simulation.loop.run(SCENARIOS[scenario](simulation))
        except GetsNowhere as error:
            simulation.violated(str(error))
        except Exception as error:
            simulation.violated(f"the scenario failed with {type(error).__name__}: {error}")
            cause = error
        finally:
            turns = simulation.loop.turns
            simulation.dispose()
    if simulation.violations:
        raise violation(scenario, seed, simulation) from cause
    return Run(simulation.faults.fired, turns)


def run_many(scenario: str, seeds: Iterable[int]) -> Counter[str]:
    """Run one scenario with many seeds; how often each kind of fault has fired."""
    fired: Counter[str] = Counter()
    for seed in seeds:
        fired += run(scenario, seed).fired
    return fired


def first_violation(scenario: str, seeds: Iterable[int], model: Broken) -> Violation | None:
    """The first violation that these seeds find in a broken store."""
    for seed in seeds:
        try:
            run(scenario, seed, model=model)
        except Violation as found:
            return found
    return None


def violation(scenario: str, seed: int, simulation: Simulation) -> Violation:
    """The failure, in words, with the way to see it again."""
    fired = ", ".join(f"{kind} {count}" for kind, count in sorted(simulation.faults.fired.items()))
    return Violation(
        f"{simulation.violations[0]}\n"
        f"  scenario {scenario}, seed {seed}; faults: {fired or 'none'}\n"
        f"  replay: python -m holdfast.testing.simulation {scenario} {seed} --trace"
    )


class _quiet_logs:
    """What is logged about injected failures is no news."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("holdfast")
        self._before = self._logger.disabled
        logging.disable(logging.WARNING)

    def __exit__(self, *error: object) -> None:
        logging.disable(logging.NOTSET)
