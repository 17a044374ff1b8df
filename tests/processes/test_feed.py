"""A feed of changes misses nothing, however often who reads it is killed while others write."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running
from servers.redis_cluster import running_cluster

from processes.children import PATIENCE
from processes.conftest import Start
from stateward import sync


def newest(url: str) -> dict[tuple[str, str], int]:
    """What a feed must have told in the end: how often each one was written to."""
    with sync.open(url, heartbeat=None) as store:
        told = store.changes(("thread", "user"), wait=False)
        return {(change.kind, change.id): change.commits for change in told}


def told(folder: Path) -> dict[tuple[str, str], int]:
    """What the consumers have kept, in all their lives, and that no entity went back."""
    last: dict[tuple[str, str], int] = {}
    for line in (folder / "changes").read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            continue  # killed in the middle of it
        kind, id, commits, _ = json.loads(line)
        assert commits >= last.get((kind, id), 0), f"{kind} {id} went back"
        last[kind, id] = commits
    return last


def follow(start: Start, url: str, folder: Path, writers: int, writes: int, kills: int) -> None:
    with sync.open(url, heartbeat=None) as store:
        store.thread("t-0").append({"n": 0})
    children = [start("toucher", url, seed, writes) for seed in range(writers)]
    for _ in range(kills):
        consumer = start("consumer", url, folder)
        consumer.until_lines(5)
        consumer.kill()
    for child in children:
        child.finish(40 * PATIENCE)
    consumer = start("consumer", url, folder)
    wanted = newest(url)
    end = time.monotonic() + 4 * PATIENCE
    while told(folder) != wanted:
        assert consumer.alive
        assert time.monotonic() < end, set(wanted.items()) - set(told(folder).items())
        time.sleep(0.05)
    consumer.kill()


def test_a_consumer_that_is_killed_misses_nothing(start: Start, url: str, tmp_path: Path) -> None:
    follow(start, url, tmp_path, writers=2, writes=100, kills=2)


@pytest.fixture(params=["sqlite", "postgres", "valkey", "cluster"])
def soaked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of each engine."""
    if request.param == "postgres":
        server = PostgresServer(fsync="off").start()
        try:
            yield server.url_of("feed")
        finally:
            server.remove()
    elif request.param == "valkey":
        with running(tmp_path / "valkey", "valkey", "--appendonly", "no") as valkey:
            yield valkey.url
    elif request.param == "cluster":
        with running_cluster(tmp_path / "cluster", "valkey", replicas=0) as cluster:
            yield cluster.url
    else:
        yield f"sqlite:///{tmp_path}/agents.db"


@pytest.mark.soak
def test_eight_writers_and_a_consumer_that_is_killed_twenty_times(
    start: Start, soaked: str, tmp_path: Path
) -> None:
    follow(start, soaked, tmp_path, writers=8, writes=1000, kills=20)
