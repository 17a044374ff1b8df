"""A process dies with a full spill: whoever comes next brings it to the store, or leaves it out.

And one whose disk is full goes on.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from servers import until

import stateward
import stateward.sync
from stateward import Spill

ROLES = Path(__file__).parent.parent / "roles"
COLOURS = ("async", "sync")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else can write to the file."""
    holder = apsw.Connection(str(path))
    holder.set_busy_timeout(30_000)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


def spill_and_die(path: Path, spill: Path, colour: str) -> int:
    """How many turns a process had spilled when kill -9 met it."""
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROLES / "spiller.py"),
        f"sqlite:///{path}",
        str(spill),
    ]
    child = subprocess.Popen(
        [*command, colour, "20000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        said = child.stdout.readline()
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == -signal.SIGKILL
    return int(said)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that exists."""
    with stateward.sync.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.user("u-1").put({"name": "Noor"})
    return tmp_path / "agents.db"


@pytest.mark.parametrize("colour", COLOURS)
def test_the_next_start_replays_a_full_spill(path: Path, tmp_path: Path, colour: str) -> None:
    spill = tmp_path / "spill"
    with locked(path):
        count = spill_and_die(path, spill, colour)
    assert count >= 50
    assert len(list(spill.glob("*.spill"))) == 1
    with stateward.sync.open(f"sqlite:///{path}", spill=spill) as store:
        found = [store.thread(f"s-{n}", user="u-1").load().messages for n in range(3)]
        assert store.counters.adopted == count
    numbers = [[message["n"] for message in messages] for messages in found]
    assert numbers == [list(range(n, count, 3)) for n in range(3)]
    assert list(spill.glob("*.spill")) == []


async def test_erased_before_the_replay_it_stays_erased(path: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    with locked(path):
        count = spill_and_die(path, spill, "async")
    async with stateward.open(f"sqlite:///{path}", spill=False) as other:
        await other.user("u-1").erase()
    async with stateward.open(f"sqlite:///{path}", spill=spill) as store:
        await until(lambda: store.counters.erased == count and not list(spill.glob("*.spill")))
        assert not (await store.thread("s-0", user="u-1").load()).exists
        assert [info.id async for info in store.threads(user="u-1")] == []


async def test_a_sibling_that_is_running_adopts_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.layers.outage.suppression.ADOPT_SECONDS", 0.2)
    spill = tmp_path / "spill"
    async with stateward.open(f"sqlite:///{path}", spill=Spill(str(spill))) as sibling:
        with locked(path):
            count = spill_and_die(path, spill, "async")
        await until(lambda: sibling.counters.replayed == count)
        assert sibling.counters.adopted == count
        await until(lambda: list(spill.glob("*.spill")) == [])


def test_two_that_start_at_once_share_the_work_and_double_nothing(
    path: Path, tmp_path: Path
) -> None:
    spill = tmp_path / "spill"
    with locked(path):
        counts = [spill_and_die(path, spill, colour) for colour in COLOURS]
    url = f"sqlite:///{path}"
    with (
        stateward.sync.open(url, spill=spill) as one,
        stateward.sync.open(url, spill=spill) as other,
    ):
        one.user("u-1").get()
        other.user("u-1").get()
    assert one.counters.replayed + other.counters.replayed == sum(counts)
    with stateward.sync.open(url, spill=False) as store:
        stored = sum(store.thread(f"s-{n}", user="u-1").load().version for n in range(3))
    assert stored == sum(counts)


def test_a_turn_that_a_full_disk_refused_is_stored_when_there_is_room(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROLES / "full_disk.py"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["statuses"] == ["spilled", "stored"]
    assert said["n"] == list(range(42))
    assert (said["read"], said["breaker"]) == (False, "closed")
