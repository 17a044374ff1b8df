"""What a replica kept locally goes where its thread lives after `stateward rebalance`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from replicas.processes import lay_out, url_of
from stateward import cli, sync
from stateward.engines.registry import parse
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.spill import Spill, SpillRecord
from stateward.observe.counters import Counters
from stateward.ops import Entity
from stateward.world import World

OLD, NEW = ("agents-0",), ("agents-0", "agents-1")
MOVING = [f"s-{n}" for n in range(99) if stateward.route(f"s-{n}", NEW) == "agents-1"]
STAYING = [f"s-{n}" for n in range(99) if stateward.route(f"s-{n}", NEW) == "agents-0"]
HELLO = {"content": "hello", "role": "user"}


def keep(store: str, folder: Path, *ids: str) -> Backlog:
    """One turn of each thread, kept by a process for which the store has this name."""
    world, counters = World(), Counters()
    backlog = Backlog(Spill(str(folder)), store, "default", world, counters)
    for id in ids:
        bodies = (json.dumps(HELLO),)
        entity = Entity("default", "thread", id)
        backlog.add(SpillRecord(world.new_op(), entity, bodies, world.now()))
    backlog.persist()
    return backlog


def lengths(url: str) -> dict[str, int]:
    with sync.open(url, spill=False) as store:
        return {info.id: info.version for info in store.threads()}


@pytest.fixture
def volume(tmp_path: Path) -> str:
    url = url_of(tmp_path, "agents-0")
    lay_out(url, "agents-0", OLD)
    with sync.open(url, spill=False) as store:
        for id in (MOVING[0], MOVING[1], STAYING[0]):
            store.thread(id).append(HELLO)
    return url


def test_turns_that_were_kept_move_with_their_threads(tmp_path: Path, volume: str) -> None:
    deleted, existing, new, staying = MOVING[0], MOVING[1], MOVING[2], STAYING[0]
    folder = tmp_path / "spill"
    # Where the replica ran, its volume had another path.
    keep("sqlite:////data/agents.db", folder, deleted, existing, new, staying).close()
    keep("redis://elsewhere:6379", folder, "theirs").close()
    with sync.open(volume, spill=False) as store:
        store.thread(deleted).delete()
    other = url_of(tmp_path, "agents-1")
    words = ["rebalance", f"agents-0={volume}", "--joining", f"agents-1={other}"]
    spill = ["--spill", f"agents-0={folder}"]
    assert cli.main([*words, *spill, "--dry-run"]) == 0
    assert lengths(volume) == {existing: 1, staying: 1}
    assert cli.main([*words, *spill]) == 0
    assert lengths(volume) == {staying: 2}
    assert lengths(other) == {existing: 2, new: 1}
    assert len(list(folder.glob("*.spill"))) == 1, "what is another store's stays"
    assert cli.main([*words, *spill]) == 0
    assert lengths(other) == {existing: 2, new: 1}


def test_turns_kept_of_a_thread_that_an_earlier_run_moved_are_found_too(
    tmp_path: Path, volume: str
) -> None:
    other = url_of(tmp_path, "agents-1")
    words = ["rebalance", f"agents-0={volume}", "--joining", f"agents-1={other}"]
    assert cli.main(words) == 0
    keep(f"sqlite://{volume.removeprefix('sqlite:///')}", tmp_path / "spill", MOVING[0]).close()
    assert cli.main([*words, "--spill", f"agents-0={tmp_path / 'spill'}"]) == 0
    assert lengths(other) == {MOVING[0]: 2, MOVING[1]: 1}
    assert lengths(volume) == {STAYING[0]: 1}


def test_turns_in_a_file_that_somebody_uses_keep_everything_where_it_is(
    tmp_path: Path, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backlog = keep("sqlite:////data/agents.db", tmp_path / "spill", MOVING[0])
    other = url_of(tmp_path, "agents-1")
    words = ["rebalance", f"agents-0={volume}", "--joining", f"agents-1={other}"]
    spill = ["--spill", f"agents-0={tmp_path / 'spill'}"]
    assert cli.main([*words, *spill]) != 0
    assert "has turns of" in capsys.readouterr().err
    assert lengths(other) == {}
    backlog.close()
    assert cli.main([*words, *spill]) == 0
    assert lengths(other) == {MOVING[0]: 2, MOVING[1]: 1}


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_turns_that_no_replica_will_bring_are_reported_by_the_move_and_by_health(
    tmp_path: Path, volume: str, capsys: pytest.CaptureFixture[str], colour: str
) -> None:
    other, spill = url_of(tmp_path, "agents-1"), tmp_path / "spill"
    words = ["rebalance", f"agents-0={volume}", "--joining", f"agents-1={other}"]
    assert cli.main(words) == 0
    assert "--spill agents-0=DIR" in capsys.readouterr().err
    keep(parse(volume).identity or "", spill, MOVING[0], STAYING[0]).close()
    options: Any = {"replica": "agents-0", "replicas": NEW, "spill": str(spill)}
    if colour == "async":
        async with stateward.open(volume, **options) as store:
            await until(lambda: store.counters.replayed == 1)
            problem = (await store.health()).spill_problem
    else:
        with sync.open(volume, **options) as blocking:
            await until(lambda: blocking.counters.replayed == 1)
            problem = blocking.health().spill_problem
    assert problem is not None
    assert problem.startswith("1 spilled turns are of threads that live with other replicas")
    assert "--spill agents-0=DIR" in problem
    assert cli.main([*words, "--spill", f"agents-0={spill}"]) == 0
    assert capsys.readouterr().err == ""
    assert lengths(other)[MOVING[0]] == 2


@pytest.mark.parametrize("text", ["/var/spill", "agents-7=/var/spill"])
def test_a_directory_is_that_of_a_replica_that_is_named(
    text: str, volume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rebalance", f"agents-0={volume}", "--spill", text]) != 0
    assert "write NAME=DIR" in capsys.readouterr().err
