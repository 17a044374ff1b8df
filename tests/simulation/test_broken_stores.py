"""A simulation that cannot fail proves nothing: every broken store is found out."""

from __future__ import annotations

import pytest

from simulation import BROKEN, first_violation
from stateward.layers.outage.neighbours import Neighbours

# Broken store → the scenarios that find it out by what callers were told and what is stored.
FOUND_BY = {
    "ignores-holders": ("locks", "tasks", "erase"),
    "ignores-versions": ("documents", "threads", "workflows"),
    "ignores-status": ("tasks", "schedules", "workflows"),
    "loses-writes": ("documents", "threads", "locks", "tasks", "workflows", "journals", "erase"),
    "forgets-ops": ("documents", "threads", "locks", "journals"),
    "forgets-keys": ("threads", "workflows", "journals"),
    "forgets-the-dead": ("erase",),
    "drops-nothing": ("erase",),
    "reads-the-past": ("documents", "threads", "tasks", "workflows", "journals"),
    "skips-entries": ("threads", "workflows", "journals"),
    "splits-turns": ("threads",),
    "appends-twice": ("threads", "locks", "workflows", "journals"),
    "grants-twice": ("locks",),
    "tokens-go-back": ("locks",),
    "never-due": ("tasks", "schedules", "workflows"),
    "refuses-and-stores": ("documents", "threads", "journals"),
}

# What only shows in what the store itself applied.
SEEN_BY_THE_AUDIT = {
    "ignores-holders": ("workflows",),
    "forgets-ops": ("tasks", "schedules", "workflows", "erase"),
}

SEEDS = range(200)  # at most; most are found out within ten


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(broken, scenario) for broken, scenarios in table.items() for scenario in scenarios]


@pytest.mark.parametrize(("broken", "scenario"), pairs(FOUND_BY))
def test_a_broken_store_is_found_out_by_what_callers_see(broken: str, scenario: str) -> None:
    found = first_violation(scenario, SEEDS, BROKEN[broken], audited=False)
    assert found is not None, f"{len(SEEDS)} seeds of {scenario} did not notice: {broken}"


@pytest.mark.parametrize(("broken", "scenario"), pairs(SEEN_BY_THE_AUDIT))
def test_a_broken_store_is_found_out_by_what_it_applied(broken: str, scenario: str) -> None:
    found = first_violation(scenario, SEEDS, BROKEN[broken])
    assert found is not None, f"{len(SEEDS)} seeds of {scenario} did not notice: {broken}"


def test_processes_that_do_not_look_at_each_others_turns_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_away(near: Neighbours, ours: object) -> None:
        near.seen = bytes(near.stamp)

    monkeypatch.setattr(Neighbours, "look", look_away)
    found = first_violation("spill", SEEDS)
    assert found is not None
    assert "stands behind what began after it had ended" in str(found)


def test_every_broken_store_is_tried() -> None:
    assert set(FOUND_BY) == set(BROKEN)


def test_a_violation_says_how_to_see_it_again() -> None:
    found = first_violation("documents", SEEDS, BROKEN["loses-writes"])
    assert found is not None
    assert "scenario documents, seed 0" in str(found)
    assert "replay: PYTHONPATH=tests python -m simulation documents 0 --trace" in str(found)
