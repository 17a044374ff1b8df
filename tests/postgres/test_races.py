"""Eight processes on one database: nothing lost, doubled, split or deadlocked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from servers.postgres import PostgresServer

import stateward.sync
from postgres.conftest import make_blocking
from postgres.workers import UPDATES
from stateward.ops import Entry, Fetch, Fetched, List, Listed, Log

PROCESSES = 8
TESTS = Path(__file__).parent.parent


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


def deadlocks(server: PostgresServer) -> int:
    server.run_sql("SELECT pg_stat_force_next_flush()")
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"
    return int(server.run_sql(query)[0][0])


def test_racing_batches_never_deadlock_and_no_turn_is_split_doubled_or_lost(
    server: PostgresServer, url: str
) -> None:
    before = deadlocks(server)
    make_blocking(url).migrate()
    told = race("append", url)
    assert deadlocks(server) == before

    answers: Counter[str] = Counter()
    stored: dict[str, dict[int, str]] = defaultdict(dict)
    for worker in told:
        answers.update(worker["answers"])
        for entity, op, version in worker["stored"]:
            assert version not in stored[entity], "two appends were given one version"
            stored[entity][version] = op
    assert answers["Applied"] > 1000
    assert answers["Duplicate"] > 50, "the race for keys did not happen"
    assert set(answers) == {"Applied", "Duplicate"}

    engine = make_blocking(url)
    engine.open()
    listed = engine.execute((List("race", kind="thread", limit=1000),))[0]
    assert isinstance(listed, Listed)
    assert len(listed.entities) > 20
    for found in listed.entities:
        fetched = engine.execute((Fetch(found.entity, log=Log(details=True)),))[0]
        assert isinstance(fetched, Fetched)
        check_history(fetched.entries, stored[found.entity.id])
        assert fetched.head.commits == len(fetched.entries) / 2
    engine.close()


def check_history(entries: tuple[Entry, ...], stored: dict[int, str]) -> None:
    """Without gaps, in whole turns, each key once, and just what was acknowledged."""
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    questions, answers = entries[::2], entries[1::2]
    assert [entry.stamp for entry in questions] == [entry.stamp for entry in answers]
    assert {entry.seq: entry.stamp for entry in answers} == stored
    keys = [entry.key for entry in answers if entry.key is not None]
    assert len(keys) == len(set(keys))


def test_eight_processes_count_up_one_document_and_none_gets_lost(url: str) -> None:
    make_blocking(url).migrate()
    race("update", url)
    with stateward.sync.open(url) as store:
        document = store.user("counter").get()
    assert document.value == {"n": PROCESSES * UPDATES}
    assert document.version == PROCESSES * UPDATES
