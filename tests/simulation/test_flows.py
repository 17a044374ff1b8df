"""Workflow code as people write it, killed and cut off at every call: it ends as if it was not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from simulation.faults import DEATH_AFTER
from simulation.flow_runs import Trouble, check, run_flow
from simulation.flows import (
    HOWS,
    Beside,
    Hang,
    Move,
    Raise,
    Save,
    Sleep,
    Step,
    Wait,
    Watch,
    Within,
    source,
)
from simulation.old_ways import OLD_WAYS
from simulation.simulation import Violation
from stateward.state import workflows

caught = st.sampled_from((True, True, False))
takes = st.sampled_from((0.0, 0.0, 0.3, 3.0))
plain_steps = st.builds(Step, takes=takes, jots=st.sampled_from((False, False, True)))
failing_steps = st.builds(
    Step,
    takes=takes,
    fails=st.integers(1, 2),
    retries=st.integers(0, 2),
    how=st.sampled_from(sorted(HOWS)),
    caught=caught,
)
effects = st.builds(
    Step,
    takes=takes,
    fails=st.integers(0, 1),
    how=st.sampled_from(("declined", "permanent", "abort")),
    acts=st.just(True),
    caught=caught,
)
moves = st.builds(Move, to=st.sampled_from(("a", "b", "nowhere")))
fickle_steps = st.builds(
    Step, takes=takes, how=st.sampled_from(sorted(HOWS)), fickle=st.just(True), caught=caught
)
waits = st.one_of(
    st.builds(Wait, comes=st.sampled_from(("at once", "soon"))),
    st.builds(Wait, comes=st.sampled_from(("at once", "soon")), timeout=st.just(50.0)),
    st.builds(Wait, comes=st.sampled_from(("late", "never")), timeout=st.just(2.0), caught=caught),
)
sleeps = st.builds(Sleep, seconds=st.sampled_from((0.5, 4.0)), until=st.booleans())
simple = st.one_of(
    plain_steps,
    failing_steps,
    fickle_steps,
    waits,
    sleeps,
    effects,
    st.builds(Hang, caught=caught, acts=st.booleans()),
    st.builds(Watch, takes=takes),
    st.builds(Save),
)


def block(statements: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(statements, min_size=1, max_size=most).map(tuple)


def beside(statements: st.SearchStrategy[Any]) -> st.SearchStrategy[Beside]:
    branches = st.lists(block(statements, 2), min_size=2, max_size=3).map(tuple)
    return st.builds(Beside, branches, by=st.sampled_from(("gather", "group")), caught=caught)


within = st.builds(Within, block(st.one_of(plain_steps, waits, sleeps), 2))
nested = st.one_of(simple, simple, within, beside(simple))
statements = st.one_of(simple, moves, beside(nested), within)
failing_ends = st.builds(lambda how: (Raise(how),), st.sampled_from(sorted(HOWS)))
ends = st.one_of(st.just(()), st.just(()), failing_ends)
programs = st.builds(lambda body, end: (*body, *end), block(statements, 4), ends)

PARTS, PROGRAMS, TROUBLES = 4, 12, 12  # troubles a program, drawn of all
SOAK_PROGRAMS = 200


def every_flow(part: int, examples: int, most: int | None) -> None:
    """So many programs; the smallest that breaks a promise is shown as code."""

    @seed(part)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(program=programs, order=st.integers(0, 1_000))
    def keeps_every_promise(program: tuple[Any, ...], order: int) -> None:
        check(source(program), order, most=most)

    keeps_every_promise()


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.verify) for part in range(1, PARTS))]
)
def test_a_workflow_ends_as_if_nothing_had_gone_wrong(part: int) -> None:
    every_flow(part, PROGRAMS, TROUBLES)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS, 2 * PARTS))
def test_every_workflow_ends_as_if_nothing_had_gone_wrong_at_any_call(part: int) -> None:
    every_flow(part, SOAK_PROGRAMS, None)


@pytest.mark.parametrize("what", OLD_WAYS)
def test_an_old_way_is_found_out(what: str) -> None:
    old_way, program = OLD_WAYS[what]
    check(source(program), 0, most=10)
    with old_way(), pytest.raises(Violation):
        for order in range(30):
            check(source(program), order, most=20)


def test_a_death_is_counted_once_however_many_workers_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one death forgiven, one death fails nothing, though four workers find what it left."""
    monkeypatch.setattr(workflows, "DEATHS_FORGIVEN", 1)
    program = source((Step(), Wait("soon"), Step(), Sleep(0.5), Step()))
    wanted, calls = run_flow(program, 0, workers=3, poll=0.1)
    assert wanted.status == "completed"
    for call in range(calls):
        ending, _ = run_flow(program, call, (Trouble(DEATH_AFTER, call),), workers=3, poll=0.1)
        assert ending == wanted, call


def test_a_violation_shows_the_workflow_as_code() -> None:
    old_way, program = OLD_WAYS["a caught failure is not recorded"]
    with old_way(), pytest.raises(Violation) as caught:
        for order in range(40):
            check(source(program), order)
    assert "async def flow(run, desk):" in str(caught.value)
    assert "except Declined as error:" in str(caught.value)
