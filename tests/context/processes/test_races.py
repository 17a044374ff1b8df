"""Several processes on one store: no cached read is stale, and no summary is made twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer

import stateward.sync
from context.workers import SUMMARISED_TURNS

PROCESSES = 4
_numbers = count(1)
TESTS = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("server")
    return server.url_of(f"w{next(_numbers)}")


def race(task: str, url: str, folder: Path) -> list[dict[str, Any]]:
    """What each of the processes says at its end."""
    with stateward.sync.open(url) as store:
        store.thread("begun").append({"n": 0})  # the schema is there before they start
    racing = [
        subprocess.Popen(
            [sys.executable, "-m", "context.workers", task, url, str(number), str(folder)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    said = [process.communicate(timeout=120)[0] for process in racing]
    assert [process.returncode for process in racing] == [0] * PROCESSES
    return [json.loads(text) for text in said]


def test_a_cached_reader_sees_what_was_written_and_never_goes_back(
    url: str, tmp_path: Path
) -> None:
    told = race("read_and_write", url, tmp_path)
    assert sum(worker["hits"] for worker in told) > 100


def test_every_turn_is_summarised_once_by_whoever_comes_first(url: str, tmp_path: Path) -> None:
    told = race("summarise", url, tmp_path)
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    made = sum(worker["made"] for worker in told)
    assert len(calls) == made > 5
    assert [worker["failed"] for worker in told] == [0] * PROCESSES
    with stateward.sync.open(url) as store:
        thread = store.thread("t")
        summary = thread.summary()
        assert summary is not None
        messages = [message["content"] for message in thread.load().messages]
    assert len(messages) == 2 * PROCESSES * SUMMARISED_TURNS
    covered = messages[: summary.upto]
    assert summary.text == "+" + "+".join(covered)
    assert summary.messages == len(covered)
    assert sum(len(call["messages"]) for call in calls) == len(covered)
