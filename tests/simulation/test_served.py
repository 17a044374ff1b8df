"""Every promise is kept by way of a service, whatever goes wrong before, in and behind it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simulation import SCENARIOS, first_violation, run_many
from simulation.faults import DEATH_AFTER
from simulation.network import NETWORK
from simulation.served import ServedEngine, ServedSimulation
from stateward.engines.http.answer import Answer
from stateward.errors import StoreUnavailable
from stateward.ops import Commit, Op, Outcome
from stateward.wire import Body

SEEDS = 12  # of each scenario
SOAK_SEEDS = 1_500
ALL = tuple(SCENARIOS)


@pytest.mark.verify
@pytest.mark.parametrize("scenario", ALL)
def test_every_promise_is_kept_through_a_service(scenario: str) -> None:
    done = run_many(scenario, range(SEEDS), kind=ServedSimulation)
    assert sum(done.fired[kind] for kind in NETWORK) > SEEDS
    assert done.operations >= 20 * SEEDS


def test_the_service_itself_ends_amid_what_it_does_and_another_follows() -> None:
    followed: list[int] = []

    class Watched(ServedSimulation):
        def dispose(self) -> None:
            followed.append(self.restarts)
            super().dispose()

    run_many("documents", range(100, 112), kind=Watched)
    assert sum(followed) >= 4


@pytest.mark.soak
@pytest.mark.parametrize("scenario", ALL)
def test_every_promise_is_kept_through_a_service_for_many_seeds(scenario: str) -> None:
    seeds = range(1_000_000, 1_000_000 + SOAK_SEEDS)
    done = run_many(scenario, seeds, kind=ServedSimulation)
    few = {kind: done.fired[kind] for kind in (*NETWORK, DEATH_AFTER) if done.fired[kind] < 30}
    assert not few, f"in {SOAK_SEEDS} seeds these faults fired too rarely: {few}"


# --- a simulation that cannot fail proves nothing -----------------------------------------


class AsksAnew(ServedEngine):
    """Tries again under another id."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        try:
            return await super().execute(ops, deadline=deadline)
        except StoreUnavailable:
            new = self._process.world.new_op
            again = [replace(op, op=new()) if isinstance(op, Commit) else op for op in ops]
            return await super().execute(again, deadline=deadline)


class SaysNo(ServedEngine):
    """Says of whatever failed that it was not applied."""

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        try:
            return await super().execute(ops, deadline=deadline)
        except StoreUnavailable as error:
            error.applied = "no"
            raise


class ForgetsThatItTried(ServedEngine):
    """Knows nothing of what it has sent on a connection that had ended."""

    async def _ask(self, what: str, body: Body, deadline: float) -> Answer:
        try:
            return (await super()._ask(what, body, deadline))._replace(tried=False)
        except StoreUnavailable as error:
            if "cannot be reached" in str(error):
                error.applied = "no"
            raise


class KeepsConnections(ServedEngine):
    """Uses a connection again though it never heard the answer that is still to come."""

    async def _ask(self, what: str, body: Body, deadline: float) -> Answer:
        connection = self._top() or await self._connected(deadline)
        try:
            return await connection.ask(what, body, deadline)
        finally:
            if not connection.is_stale():
                self._idle.append(connection)


@pytest.mark.parametrize("broken", [AsksAnew, SaysNo, ForgetsThatItTried, KeepsConnections])
def test_a_broken_engine_is_found_out(broken: type[ServedEngine]) -> None:
    class Broken(ServedSimulation):
        engine_kind = broken

    assert first_violation("threads", range(200), kind=Broken) is not None
