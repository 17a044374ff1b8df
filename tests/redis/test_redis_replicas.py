"""Replicas as real processes on one server: they race, are killed -9 and paused past their leases.

What they do, and what must come of it, is the same on every engine: see `tests/coordination`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coordination.processes.conftest import Start, effects, start
from coordination.processes.replicas import Effects
from coordination.processes.test_locks import pause_holders
from coordination.processes.test_tasks import deliver
from coordination.processes.test_workflows import Drivers, kill_workers
from postgres.test_races import check_history
from servers.redis import RedisServer, running
from servers.redis_cluster import running_cluster

import stateward.sync
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Fetch, Fetched, List, Listed, Log
from stateward.world import World

__all__ = ["effects", "start"]  # fixtures

PROCESSES = 8
UPDATES = 250  # of each process, as its worker has it
TESTS = Path(__file__).parent.parent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", "valkey", "--appendonly", "no") as server:
        yield server


def race(task: str, url: str) -> list[dict[str, Any]]:
    """What each of the processes says at its end."""
    racing = [
        subprocess.Popen(
            [sys.executable, "-m", "postgres.workers", task, url, str(number)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    said = [process.communicate(timeout=120)[0] for process in racing]
    assert [process.returncode for process in racing] == [0] * PROCESSES
    return [json.loads(text) for text in said]


def check_racing_batches(url: str) -> None:
    answers: Counter[str] = Counter()
    stored: dict[str, dict[int, str]] = defaultdict(dict)
    for worker in race("append", url):
        answers.update(worker["answers"])
        for entity, op, version in worker["stored"]:
            assert version not in stored[entity], "two appends were given one version"
            stored[entity][version] = op
    assert answers["Applied"] > 1000
    assert answers["Duplicate"] > 50, "the race for keys did not happen"
    assert set(answers) == {"Applied", "Duplicate"}

    engine = create_sync_engine(parse(url), World())
    engine.open()
    listed = engine.execute((List("race", kind="thread", limit=1000),))[0]
    assert isinstance(listed, Listed)
    assert len(listed.entities) == len(stored) > 20
    for found in listed.entities:
        fetched = engine.execute((Fetch(found.entity, log=Log(details=True)),))[0]
        assert isinstance(fetched, Fetched)
        check_history(fetched.entries, stored[found.entity.id])
        assert fetched.head.commits == len(fetched.entries) / 2
    engine.close()


def check_counting(url: str) -> None:
    race("update", url)
    with stateward.sync.open(url) as store:
        document = store.user("counter").get()
    assert document.value == {"n": PROCESSES * UPDATES}
    assert document.version == PROCESSES * UPDATES


def test_racing_batches_split_double_and_lose_no_turn(server: RedisServer) -> None:
    check_racing_batches(server.url)


def test_eight_processes_count_up_one_document_and_none_gets_lost(server: RedisServer) -> None:
    check_counting(server.url)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["valkey", "redis"])
def test_processes_race_on_a_cluster(tmp_path: Path, name: str) -> None:
    with running_cluster(tmp_path, name, replicas=1) as cluster:
        check_racing_batches(cluster.url)
        check_counting(cluster.url)


@pytest.mark.soak
def test_processes_race_on_redis(tmp_path: Path) -> None:
    with running(tmp_path / "redis", "redis") as server:
        check_racing_batches(server.url)
        check_counting(server.url)


def test_five_hundred_tasks_are_committed_once_while_workers_are_killed_and_paused(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    deliver(start, server.url, None, effects, rounds=10, seed=991)


@pytest.mark.soak
def test_ten_thousand_tasks_are_committed_once_while_workers_are_killed_and_paused(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    deliver(start, server.url, None, effects, rounds=200, seed=992)


def test_ten_paused_holders_write_nothing_stale(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    pause_holders(start, server.url, None, effects, 10)


@pytest.mark.soak
def test_a_hundred_paused_holders_write_nothing_stale(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    for part in range(10):
        pause_holders(start, server.url, None, effects, 10, part)


def test_workers_are_killed_and_every_workflow_completes(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    kill_workers(Drivers(start, server.url, effects), workflows=60, kills=8, seed=7)


@pytest.mark.soak
def test_many_workers_are_killed_and_every_workflow_completes(
    server: RedisServer, start: Start, effects: Effects
) -> None:
    kill_workers(Drivers(start, server.url, effects), workflows=4_000, kills=200, seed=8)
