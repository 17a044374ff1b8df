"""`stateward rebalance`: one volume at a time has the right to an entity, and nothing is lost."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import stateward
from replicas.processes import (
    Process,
    contents,
    homes,
    rebalance,
    replicas,
    start_rebalance,
    url_of,
)
from stateward import sync
from stateward.kinds import routed_by
from stateward.ops import Entity, Fetched
from stateward.records import moment
from stateward.sync.state.personal_data import erased_at

THREE = ("agents-0", "agents-1", "agents-2")
FOUR = (*THREE, "agents-3")
TWO = ("agents-0", "agents-3")
IDS = [f"s-{number}" for number in range(40)]


def turn(id_: str, number: int) -> list[dict[str, Any]]:
    return [{"role": role, "content": f"{id_} {number}"} for role in ("user", "assistant")]


def talk(running: dict[str, Process], number: int) -> None:
    """One turn in every conversation, each with the replica that has it."""
    for id_, owner in homes(running, IDS).items():
        words = {"thread": id_, "user": "u-42", "key": f"turn-{number}"}
        assert running[owner].ask("append", messages=turn(id_, number), **words) == "stored"


def assert_all_is_there(running: dict[str, Process], turns: int) -> None:
    expected = {id_: [m for n in range(turns) for m in turn(id_, n)] for id_ in IDS}
    for id_, owner in homes(running, IDS).items():
        assert running[owner].ask("load", thread=id_, user="u-42") == [2 * turns, expected[id_]]
    listed = [id_ for process in running.values() for id_ in process.ask("list")]
    assert sorted(listed) == sorted(IDS)


def same(part: Fetched, other: Fetched) -> bool:
    """All that counts is equal: numbers, times, stamps, keys, documents, owner, retention."""
    ignoring = {"life", "dropped", "lease", "token", "commits"}
    fields = [field for field in part.head.__struct_fields__ if field not in ignoring]
    heads = all(getattr(part.head, f) == getattr(other.head, f) for f in fields)
    return heads and (part.entries, part.documents) == (other.entries, other.documents)


def test_three_replicas_become_four_and_then_two(tmp_path: Path) -> None:
    with replicas(tmp_path, *THREE) as running:
        talk(running, 0)
    before = contents(tmp_path, THREE)
    moved = rebalance(tmp_path, *THREE, "--joining", "agents-3")
    after = contents(tmp_path, FOUR)
    assert before.keys() == after.keys()
    gone_over = [at for at in before if before[at][0] != after[at][0]]
    assert {after[at][0] for at in gone_over} == {"agents-3"}, "nothing else moves"
    assert moved["entities"] == len(gone_over) > 0
    assert all(same(before[at][1], after[at][1]) for at in before)
    for name in FOUR:
        with sync.open(url_of(tmp_path, name), heartbeat=None) as store:
            told = [(each.what, each.outcome) for each in store.operations.entries()]
            told = told[-2:] if name in THREE else told[-1:]
            ended = [("rebalance", "intended"), ("rebalance", "done")]
            assert told == (ended if name in THREE else ended[1:]), "each volume has its own log"
    with replicas(tmp_path, *FOUR) as running:
        assert_all_is_there(running, 1)
        for id_, owner in homes(FOUR, IDS).items():  # a redelivery is still known
            words = {"thread": id_, "user": "u-42", "key": "turn-0"}
            assert running[owner].ask("append", messages=turn(id_, 0), **words) == "duplicate"
        talk(running, 1)
    rebalance(tmp_path, *TWO, "--leaving", "agents-1", "--leaving", "agents-2")
    with replicas(tmp_path, *TWO) as running:
        assert_all_is_there(running, 2)
        talk(running, 2)
        assert_all_is_there(running, 3)
    for left in ("agents-1", "agents-2"):
        assert contents(tmp_path, [left]) == {}


def test_one_store_for_all_is_divided_among_three(tmp_path: Path) -> None:
    with sync.open(url_of(tmp_path, "agents-0")) as store:
        for id_ in IDS:
            store.thread(id_, user="u-42").append(*turn(id_, 0), key="turn-0")
            store.thread(id_).vars.put({"topic": id_})
        store.thread("long").append(*({"n": n} for n in range(250)))
        with store.workflow("w-1", kind="refund", user="u-42") as run:
            run.step("look", lambda: {"order": 991})
        store.journal("j-1").append({"it": "began"})
        store.once("charge-1", lambda: {"paid": True})
        for id_ in IDS:
            assert store.thread(id_, user="u-42").effect("call/1", lambda: 7) == 7
    before = contents(tmp_path, ["agents-0"])
    planned = rebalance(
        tmp_path, "agents-0", "--joining", "agents-1", "--joining", "agents-2", "--dry-run"
    )
    assert not (tmp_path / "agents-1.db").exists(), "a dry run creates nothing"
    assert contents(tmp_path, ["agents-0"]) == before
    moved = rebalance(tmp_path, "agents-0", "--joining", "agents-1", "--joining", "agents-2")
    assert moved["moves"] == planned["moves"]
    after = contents(tmp_path, THREE)
    assert before.keys() == after.keys()
    for (kind, id_), (name, whole) in after.items():
        entity = Entity("default", kind, id_)
        assert name == stateward.route(routed_by(entity), THREE), (kind, id_)
        assert same(before[kind, id_][1], whole), (kind, id_)
    with sync.open(
        url_of(tmp_path, owner := stateward.route("long", THREE)), replica=owner, replicas=THREE
    ) as store:
        assert [m["n"] for m in store.thread("long").load().messages] == list(range(250))
        here = [id_ for id_ in IDS if stateward.route(id_, THREE) == owner]
        for id_ in here:  # an effect lives where its conversation does
            assert store.thread(id_, user="u-42").effect("call/1", lambda: 8) == 7
        assert sorted(info.of for info in store.effects()) == sorted(here)
    assert rebalance(tmp_path, *THREE)["entities"] == 0, "the second time there is nothing to do"


# --- whatever happens meanwhile ---------------------------------------------------------


def test_a_run_that_is_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    joining = ("agents-0", "--joining", "agents-1", "--joining", "agents-2")
    for threads in (1000, 3000, 9000):  # it may be done before this process gets to kill it
        folder = tmp_path / str(threads)
        folder.mkdir()
        with sync.open(f"{url_of(folder, 'agents-0')}?durability=relaxed") as store:
            for number in range(threads):
                store.thread(f"s-{number}").append({"n": number}, key="k")
        before = contents(folder, ["agents-0"])
        process = start_rebalance(folder, *joining)
        wait_until_it_has(folder / "agents-1.db", 50, process)
        process.kill()
        process.communicate()
        if process.returncode == -9:
            break
    assert process.returncode == -9, "it was faster than the test"
    check_that_the_next_finishes(folder, joining, before)


def check_that_the_next_finishes(
    tmp_path: Path, joining: tuple[str, ...], before: dict[Any, Any]
) -> None:
    # What is copied and what is not cannot be told from outside: nobody serves it.
    for name in THREE:
        store = sync.open(url_of(tmp_path, name), replica=name, replicas=THREE)
        assert "rebalanced" in (store.health().error or "")
        store.close()
    rebalance(tmp_path, *joining)
    after = contents(tmp_path, THREE)
    assert before.keys() == after.keys()
    assert all(same(before[at][1], after[at][1]) for at in before)
    assert all(name == stateward.route(id_, THREE) for (_, id_), (name, _) in after.items())


@pytest.mark.soak
def test_a_hundred_runs_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    with sync.open(f"{url_of(tmp_path, 'agents-0')}?durability=relaxed") as store:
        for number in range(300):
            store.thread(f"s-{number}").append({"n": number}, key="k")
    before = contents(tmp_path, ["agents-0"])
    chance = random.Random(1)
    began = time.monotonic()
    rebalance(tmp_path, "agents-0", *joining("agents-1", "agents-2", "agents-3"))
    took = time.monotonic() - began
    killed = 0
    for _ in range(100):
        staying = chance.sample(FOUR, chance.randint(1, 4))
        leaving = [w for name in FOUR if name not in staying for w in ("--leaving", name)]
        process = start_rebalance(tmp_path, *staying, *leaving)
        with suppress(subprocess.TimeoutExpired):
            process.wait(took * (0.4 + 0.6 * chance.random()))
        process.kill()
        process.communicate()
        killed += process.returncode == -9
    rebalance(tmp_path, *FOUR)
    after = contents(tmp_path, FOUR)
    assert killed > 20, "too few were killed for this to mean anything"
    assert before.keys() == after.keys()
    assert all(same(before[at][1], after[at][1]) for at in before)


def joining(*names: str) -> list[str]:
    return [word for name in names for word in ("--joining", name)]


def wait_until_it_has(path: Path, entities: int, process: Any) -> None:
    end = time.monotonic() + 30
    while not (path.exists() and count(path) >= entities):
        assert process.poll() is None or count(path) >= entities, "it never had as many"
        assert time.monotonic() < end, "it never had as many"
        time.sleep(0.001)


def count(path: Path) -> int:
    peek = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        found: int = peek.execute("SELECT count(*) FROM entities").fetchone()[0]
        return found
    except sqlite3.OperationalError:
        return 0  # its tables are not there yet
    finally:
        peek.close()


def test_it_does_not_begin_while_a_replica_runs_and_waits_for_it_to_stop(tmp_path: Path) -> None:
    with replicas(tmp_path, *THREE) as running:
        talk(running, 0)
        rebalance(tmp_path, *THREE, "--joining", "agents-3", fails="is in use by agents-0 (")
        talk(running, 1)  # and has not disturbed it
        waiting = start_rebalance(tmp_path, *THREE, "--joining", "agents-3", "--wait", "60")
    assert waiting.wait(60) == 0
    waiting.communicate()
    with replicas(tmp_path, *FOUR) as running:
        assert_all_is_there(running, 2)


def test_a_replica_that_was_killed_counts_as_running_for_a_while(tmp_path: Path) -> None:
    rebalance(tmp_path, "--joining", "agents-0")
    process = Process(tmp_path, "agents-0", ["agents-0"])
    process.kill()
    rebalance(tmp_path, "agents-0", "--joining", "agents-1", fails="one that was killed: --wait 30")


def test_what_two_volumes_have_is_left_for_people_to_decide(tmp_path: Path) -> None:
    moves = next(id_ for id_ in IDS if stateward.route(id_, FOUR) == "agents-3")
    with sync.open(url_of(tmp_path, "agents-0")) as store:
        store.thread(moves).append({"it": "is old"})
        store.thread("another").append({"it": "is old"})
    with sync.open(url_of(tmp_path, "agents-3")) as store:
        store.thread(moves).append({"it": "is new"})
    stores = ("agents-0", "agents-3", "--joining", "agents-1", "--joining", "agents-2")
    fails = f"the thread {moves!r} is with agents-0 and with agents-3"
    rebalance(tmp_path, *stores, fails=fails)
    store = sync.open(url_of(tmp_path, "agents-3"), replica="agents-3", replicas=FOUR)
    assert not store.health().ok
    store.close()
    with sync.open(url_of(tmp_path, "agents-3")) as store:
        store.thread(moves).delete()
    assert rebalance(tmp_path, *stores)["undecided"] == []
    with replicas(tmp_path, *FOUR) as running:
        assert running["agents-3"].ask("load", thread=moves) == [1, [{"it": "is old"}]]


def test_whoever_was_erased_stays_erased_on_every_volume(tmp_path: Path) -> None:
    with sync.open(url_of(tmp_path, "agents-0")) as store:
        store.thread("s-1", user="u-42").append({"it": "goes"})
        at = store.user("u-42").erase().at
    rebalance(tmp_path, "agents-0", "--joining", "agents-1", "--joining", "agents-2")
    rebalance(tmp_path, "agents-1", "agents-2", "--leaving", "agents-0")
    for name in ("agents-1", "agents-2"):
        with sync.open(url_of(tmp_path, name)) as store:
            assert moment(erased_at(store._scope, "u-42") or 0.0) == at


# --- what it refuses --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name the stores of all replicas"),
        (("sqlite:///agents.db?x=1",), "write NAME=URL"),
        (("nosuch",), "say --joining nosuch="),
        (("agents-0", "agents-0"), "is given twice"),
        (("--leaving", "agents-0"), "every replica is leaving"),
        (("agents-0", "pg=postgresql://127.0.0.1:1/x"), "a server that all replicas reach"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    with sync.open(url_of(tmp_path, "agents-0")) as store:
        store.thread("s-1").append({"n": 1})
    rebalance(tmp_path, *arguments, fails=says)


def test_a_replica_that_was_forgotten_is_named(tmp_path: Path) -> None:
    with replicas(tmp_path, *THREE) as running:
        talk(running, 0)
    rebalance(tmp_path, "agents-0", "agents-1", fails="'agents-2' that is not named here")
    rebalance(tmp_path, "agents-0", "agents-1", "--leaving", "agents-2")
    with replicas(tmp_path, "agents-0", "agents-1") as running:
        assert_all_is_there(running, 1)
