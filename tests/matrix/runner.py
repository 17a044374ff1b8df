"""Runs of drawn programs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from matrix.features import FEATURES
from matrix.program import Program, Violation

PAIRS = tuple(combinations(FEATURES, 2))


def pair_of(seed: int) -> tuple[str, str]:
    """Return the two features that the program of this seed crosses."""
    return PAIRS[seed % len(PAIRS)]


async def carry_out(seed: int) -> Program:
    """Run the program of a seed; a violation names the features and all that was done."""
    async with Program(seed) as program:
        names = pair_of(seed)
        try:
            await program.run([FEATURES[name](program) for name in names])
        except Exception as error:
            done = "\n  ".join(program.trace)
            raise Violation(
                f"{' × '.join(names)}, seed {seed}: {type(error).__name__}: {error}\n  {done}"
            ) from error
        return program


def run(seeds: Iterable[int]) -> Counter[str]:
    """Run programs one after the other, and count the actions that did something."""
    done: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        for seed in seeds:
            program = runner.run(carry_out(seed))
            done.update(line.split(":")[0] for line in program.trace)
    return done


def violations(seeds: Iterable[int]) -> list[Violation]:
    """Run programs, and collect the violations instead of stopping at the first."""
    found: list[Violation] = []
    with asyncio.Runner() as runner:
        for seed in seeds:
            try:
                runner.run(carry_out(seed))
            except Violation as violation:
                found.append(violation)
    return found


def without(names: Sequence[str], seeds: Iterable[int]) -> list[int]:
    """Return the seeds whose programs cross none of these features."""
    return [seed for seed in seeds if not set(pair_of(seed)) & set(names)]
