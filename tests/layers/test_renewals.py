"""The thread that renews leases: woken when it would look too late, and otherwise left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateward import LeaseLost
from stateward.engines.registry import create_sync_engine, parse
from stateward.layers.leases import held
from stateward.layers.leases.renewal import Renewals
from stateward.observe.counters import Counters
from stateward.ops import Entity, Lease
from stateward.sync.layers.leases import held as blocking_held
from stateward.testing.clock import SteppableWorld


class Counted:
    """A ticker that runs when it is told to."""

    def __init__(self, step: Callable[[], float | None], _name: str) -> None:
        self.step = step
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1

    def stop(self) -> None:
        pass


class Watched(SteppableWorld):
    at = 100.0

    def monotonic(self) -> float:
        return self.at

    def ticker(self, step: Callable[[], float | None], name: str) -> Any:
        self.made = Counted(step, name)
        return self.made


class Held:
    entity = Entity("default", "task", "t")
    token, nonce, ttl, keeps_due = 1, "n", 30.0, True

    def is_alive(self) -> bool:
        return True

    def renewed(self, asked: float) -> None: ...
    def lost(self) -> None: ...


def test_short_tasks_one_after_the_other_wake_the_thread_once() -> None:
    world = Watched()
    renewals = Renewals(create_sync_engine(parse("memory://"), world), world, Counters())
    for _ in range(5):
        short = Held()
        renewals.add(short, world.at)
        renewals.remove(short)
        assert world.made.step() is not None, "it still looks when the first one was due"
        world.at += 0.001
    assert world.made.wakes == 1
    world.at += 10.0
    assert world.made.step() is None, "nobody holds anything"
    renewals.add(Held(), world.at)
    assert world.made.wakes == 2
    assert world.made.step() == 10.0
    renewals.close()


@pytest.mark.parametrize("colour", [held, blocking_held])
def test_a_late_renewal_revives_no_lease_that_was_reported_as_lost(colour: Any) -> None:
    world = Watched()
    renewals = Renewals(create_sync_engine(parse("memory://"), world), world, Counters())
    lease = Lease(1, "n", "", world.at, world.at + 30.0)
    holding = colour.HeldLease(Held.entity, lease, 30.0, world.at, renewals, world)
    holding.check()
    world.at += 30.0
    with pytest.raises(LeaseLost):
        holding.check()
    holding.renewed(world.at)
    with pytest.raises(LeaseLost):
        holding.check()
    renewals.close()
