"""Thousands of seeds: whatever goes wrong, in whatever order, every promise is kept."""

from __future__ import annotations

from collections import Counter

import pytest

from simulation import SCENARIOS, Run, run_many
from simulation.faults import (
    AT_MOMENTS,
    AT_OPERATIONS,
    AT_RENEWALS,
    FEED_BROKEN,
    IMPATIENCE,
    KINDS,
    TORN,
)

CHUNK = 80  # seeds a test
CHUNKS = {
    "documents": 2,
    "threads": 3,
    "turns": 2,
    "live": 1,
    "locks": 3,
    "tasks": 3,
    "schedules": 2,
    "workflows": 3,
    "cancels": 3,
    "journals": 2,
    "erase": 3,
    "spill": 2,
}
SOAK_CHUNK = 4_000
SOAK_CHUNKS = {name: 2 * chunks for name, chunks in CHUNKS.items()}

# What can go wrong in a scenario besides what can go wrong in all of them.
ALSO = {
    "documents": (TORN,),
    "threads": (FEED_BROKEN,),
    "turns": AT_RENEWALS,
    "live": AT_RENEWALS,
    "locks": AT_RENEWALS,
    "tasks": AT_RENEWALS,
    "schedules": (),
    "workflows": AT_RENEWALS,
    "cancels": AT_RENEWALS,
    "journals": (FEED_BROKEN,),
    "erase": (*AT_RENEWALS, TORN),
    "spill": (),
}


def assert_that_faults_fired(scenario: str, done: Run, seeds: int) -> None:
    """A run without faults, or with too little going on, proves nothing."""
    expected = (*AT_OPERATIONS, *AT_MOMENTS, IMPATIENCE, *ALSO[scenario])
    few = {kind: done.fired[kind] for kind in expected if done.fired[kind] < seeds / 20}
    assert not few, f"in {seeds} seeds these faults fired too rarely: {few}"
    assert done.operations >= 40 * seeds


def chunks(counts: dict[str, int]) -> list[tuple[str, int]]:
    return [(scenario, chunk) for scenario, count in counts.items() for chunk in range(count)]


# `make test` runs the first chunk of each scenario, `make verify` all.
ORDINARY = [
    pytest.param(scenario, chunk, marks=pytest.mark.verify if chunk else ())
    for scenario, chunk in chunks(CHUNKS)
]


@pytest.mark.parametrize(("scenario", "chunk"), ORDINARY)
def test_every_promise_is_kept_whatever_goes_wrong(scenario: str, chunk: int) -> None:
    done = run_many(scenario, range(chunk * CHUNK, (chunk + 1) * CHUNK))
    assert_that_faults_fired(scenario, done, CHUNK)


@pytest.mark.soak
@pytest.mark.parametrize(("scenario", "chunk"), chunks(SOAK_CHUNKS))
def test_every_promise_is_kept_for_a_hundred_times_as_many_seeds(scenario: str, chunk: int) -> None:
    first = 1_000_000 + chunk * SOAK_CHUNK
    done = run_many(scenario, range(first, first + SOAK_CHUNK))
    assert_that_faults_fired(scenario, done, SOAK_CHUNK)


def test_the_ordinary_run_has_two_thousand_seeds_and_the_long_one_two_hundred_thousand() -> None:
    assert CHUNK * sum(CHUNKS.values()) >= 2_000
    assert SOAK_CHUNK * sum(SOAK_CHUNKS.values()) >= 200_000
    assert set(CHUNKS) == set(SCENARIOS)


def test_every_kind_of_fault_is_asked_for_somewhere() -> None:
    asked: Counter[str] = Counter((*AT_OPERATIONS, *AT_MOMENTS, IMPATIENCE))
    asked.update(kind for kinds in ALSO.values() for kind in kinds)
    assert set(asked) == set(KINDS)
