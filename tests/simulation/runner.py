"""Running a scenario with a seed, and saying how to see a failure again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random

from msgspec import Struct

from simulation.loop import GetsNowhere
from simulation.scenarios import SCENARIOS
from simulation.simulation import Simulation, Violation
from stateward.engines.memory.model import Model

Broken = Callable[[Random], Model]


class Run(Struct, frozen=True):
    """What one run was like."""

    fired: Counter[str]
    turns: int  # callbacks that ran
    operations: int  # operations that the store executed


def run(
    scenario: str,
    seed: int,
    *,
    model: Broken | None = None,
    trace: Callable[[str], object] | None = None,
    audited: bool = True,
    kind: type[Simulation] = Simulation,
) -> Run:
    """Run one scenario with one seed; raises `Violation` if a promise was broken.

    `model` makes another store, e.g. a deliberately broken one. `trace` gets a line for each
    thing that happens. `audited=False` leaves the judgement to what the processes were told: what
    the store applied is not looked at.
    """
    simulation = kind(seed, model=model, trace=trace, audited=audited)
    cause: Exception | None = None
    with quiet_logs():
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
    return Run(simulation.faults.fired, turns, simulation.operations)


def run_many(scenario: str, seeds: Iterable[int], kind: type[Simulation] = Simulation) -> Run:
    """Run one scenario with many seeds; what all these runs were like together."""
    fired: Counter[str] = Counter()
    turns = operations = 0
    for seed in seeds:
        done = run(scenario, seed, kind=kind)
        fired += done.fired
        turns += done.turns
        operations += done.operations
    return Run(fired, turns, operations)


def first_violation(
    scenario: str,
    seeds: Iterable[int],
    model: Broken | None = None,
    *,
    audited: bool = True,
    kind: type[Simulation] = Simulation,
) -> Violation | None:
    """The first violation that these seeds find, e.g. in a broken store."""
    for seed in seeds:
        try:
            run(scenario, seed, model=model, audited=audited, kind=kind)
        except Violation as found:
            return found
    return None


def violation(scenario: str, seed: int, simulation: Simulation) -> Violation:
    """The failure, in words, with the way to see it again."""
    fired = ", ".join(f"{kind} {count}" for kind, count in sorted(simulation.faults.fired.items()))
    return Violation(
        f"{simulation.violations[0]}\n"
        f"  scenario {scenario}, seed {seed}; faults: {fired or 'none'}\n"
        f"  replay: PYTHONPATH=tests python -m simulation {scenario} {seed} --trace"
        f"{simulation.option}"
    )


@contextmanager
def quiet_logs() -> Iterator[None]:
    """What is logged about injected failures is no news."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
