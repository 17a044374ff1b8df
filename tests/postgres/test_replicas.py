"""Tasks, leaders and workflows over PostgreSQL while replicas and the server itself are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from coordination.processes.conftest import Start, effects, start
from coordination.processes.replicas import Effects
from coordination.processes.test_locks import pause_holders
from coordination.processes.test_tasks import deliver
from coordination.processes.test_workflows import Drivers, kill_workers
from servers.postgres import PostgresServer

__all__ = ["effects", "start"]  # fixtures


def test_five_hundred_tasks_are_committed_once_while_workers_are_killed_and_paused(
    start: Start, url: str, effects: Effects
) -> None:
    deliver(start, url, None, effects, rounds=10, seed=993)


@pytest.mark.soak
def test_ten_thousand_tasks_are_committed_once_while_workers_are_killed_and_paused(
    start: Start, url: str, effects: Effects
) -> None:
    deliver(start, url, None, effects, rounds=200, seed=994)


def test_ten_paused_holders_write_nothing_stale(start: Start, url: str, effects: Effects) -> None:
    pause_holders(start, url, None, effects, 10)


@pytest.mark.soak
def test_a_hundred_paused_holders_write_nothing_stale(
    start: Start, url: str, effects: Effects
) -> None:
    for part in range(10):
        pause_holders(start, url, None, effects, 10, part)


@pytest.mark.soak
def test_workers_are_killed_and_every_workflow_completes(
    start: Start, url: str, effects: Effects
) -> None:
    kill_workers(Drivers(start, url, effects), workflows=60, kills=8, seed=9)


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    """A server of this test's own."""
    server = PostgresServer().start()
    yield server
    server.remove()


def test_a_server_killed_during_recovery_strands_no_workflow(
    start: Start, mortal: PostgresServer, effects: Effects
) -> None:
    ids = [f"w-{number}" for number in range(30)]
    drivers = Drivers(start, mortal.url_of("recovery"), effects)
    drivers.begin(*ids)
    doomed = drivers.start(work=True, slow=0.01)
    doomed.until(lambda said: sum("recorded" in e for e in said) >= 10, "ten finished steps")
    doomed.kill()
    # Slow enough that one does not do all while the other is still starting.
    workers = [drivers.start(colour, work=True, slow=0.04) for colour in ("async", "sync")]
    for worker in workers:
        worker.until(lambda said: sum("recorded" in e for e in said) >= 3, "three finished steps")
    assert drivers.completed() < len(ids), "nothing was left to recover"
    mortal.kill()
    mortal.restart()
    drivers.until_completed(len(ids))
    for worker in workers:
        worker.tell(stop=True)
    for worker in workers:
        worker.finish()
    drivers.check(*ids)
