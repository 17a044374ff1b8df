"""A simulation of cancellations that cannot fail proves nothing: every broken way is found out."""

from __future__ import annotations

from typing import Any

import pytest

from simulation import first_violation
from stateward.layers.leases.held import HeldLease
from stateward.ops import Outcome, StatusIn, Write
from stateward.state import interventions, run_commits
from stateward.state.leases import Leases

SEEDS = range(200)  # at most; most are found out within fifty

_finish = Leases.finish


async def finish_whatever_its_status(
    leases: Leases, held: HeldLease, *writes: Write, checks: object = ()
) -> Outcome:
    return await _finish(leases, held, *writes)


async def do_nothing(*args: object) -> None:
    pass


WAYS: dict[str, tuple[Any, str, object]] = {
    "an end comes after the cancellation": (Leases, "finish", finish_whatever_its_status),
    "a driver does not look": (run_commits, "STILL_ACTIVE", StatusIn(("active", "cancelled"))),
    "children are left behind": (interventions, "_cancel_child", do_nothing),
    "questions are left behind": (interventions, "withdraw", do_nothing),
}


@pytest.mark.parametrize("what", WAYS)
def test_a_broken_cancellation_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WAYS[what])
    assert first_violation("cancels", SEEDS) is not None, f"{len(SEEDS)} seeds did not notice"
