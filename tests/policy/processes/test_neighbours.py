"""Two stores over one spill directory, as in two processes: they keep one order between them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from policy.test_suppression import IMPATIENT, answers, files, open_store, say, texts
from stateward import Policy, correlate
from stateward.files import lock
from stateward.layers.outage import suppression
from stateward.layers.outage.neighbours import NearRecord, Neighbours
from stateward.layers.outage.spill import SpillFile, SpillRecord, done_line, line_of
from stateward.ops import Entity
from stateward.world import World

THREAD = Entity("default", "thread", "s-1")


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


async def test_what_a_neighbour_keeps_is_stored_before_the_next_append(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        with one.faults.unavailable():
            for text in ("one", "two"):
                assert (await one.thread("s-1").append(say(text))).status == "spilled"
            assert (await other.thread("s-1").append(say("three"))).status == "stored"
            assert texts(await other.thread("s-1").load()) == ["one", "two", "three"]
            assert one.counters.replayed == 0
        await until(lambda: one.counters.replayed == 2 and files(tmp_path) == [])
        assert await one.thread("s-1").late() == []
    assert other.counters.replayed == one.counters.late == other.counters.late == 0
    assert "memory_write_late" not in [record.message for record in caplog.records]


async def test_what_both_keep_is_stored_in_the_order_in_which_it_was_accepted(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        with one.faults.unavailable(), other.faults.unavailable():
            for n in range(6):
                said = await (one, other)[n % 2].thread("s-1").append(say(f"{n}"))
                assert said.status == "spilled"
        await until(lambda: one.counters.replayed == other.counters.replayed == 3)
        window = await one.thread("s-1").load()
        assert texts(window) == ["0", "1", "2", "3", "4", "5"]
        assert await one.thread("s-1").late() == []


async def test_a_turn_queues_behind_a_neighbours_though_the_store_is_down_for_that_one_alone(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        with one.faults.unavailable():
            await one.thread("s-1").append(say("one"))
        with other.faults.unavailable():
            assert (await other.thread("s-1").append(say("two"))).status == "spilled"
        await answers(one)
        assert (await one.thread("s-1").append(say("three"))).status == "stored"
        await until(lambda: other.counters.replayed == 1)
        assert texts(await one.thread("s-1").load()) == ["one", "two", "three"]


async def test_nobody_waits_for_a_neighbour_that_does_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression, "RETRY_SECONDS", 0.05)
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as paused:
        with paused.faults.unavailable():  # to the end: as if it were paused
            await paused.thread("s-1").append(say("one"))
            with one.faults.unavailable():
                await one.thread("s-1").append(say("two"))
            await until(lambda: one.counters.replayed == 1)  # in the background
            assert texts(await one.thread("s-1").load()) == ["one", "two"]
        await until(lambda: paused.counters.replayed == 1)
    async with stateward.open(place, spill=False) as store:
        assert texts(await store.thread("s-1").load()) == ["one", "two"]


async def test_a_file_that_a_dead_process_left_counts_before_anybody_has_adopted_it(
    place: str, tmp_path: Path
) -> None:
    policy = Policy(read_timeout=0.4, write_timeout=0.4)
    async with open_store(place, tmp_path, policy=policy) as one:
        with one.faults.unavailable():
            await one.thread("s-1").append(say("one"))
            await one.close()
        assert len(files(tmp_path)) == 1
        async with open_store(place, tmp_path) as other:
            with other.faults.unavailable():
                assert (await other.thread("s-1").append(say("two"))).status == "spilled"
            await answers(other)
            assert (await other.thread("s-1").append(say("three"))).status == "stored"
            assert texts(await other.thread("s-1").load()) == ["one", "two", "three"]


async def test_an_erased_turn_of_a_neighbour_stays_erased_and_is_counted_once(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        with one.faults.unavailable():
            await one.thread("s-1", user="u-1").append(say("one"))
            await other.user("u-1").erase()
            assert (await other.thread("s-1", user="u-1").append(say("new"))).status == "stored"
        await until(lambda: one.counters.erased == 1)
        assert texts(await other.thread("s-1", user="u-1").load()) == ["new"]
    assert other.counters.erased == 0


async def test_of_two_deliveries_that_two_processes_keep_the_first_is_stored(
    place: str, tmp_path: Path
) -> None:
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        with one.faults.unavailable(), other.faults.unavailable():
            for store, answer in ((one, "yes"), (other, "no")):
                thread = store.thread("s-1")
                await thread.append(say("q"), say(answer), key="k", repeat="first")
            await other.thread("s-1").append(say("next"))
        await until(lambda: one.counters.replayed == 1 and other.counters.replayed == 2)
        assert texts(await one.thread("s-1").load()) == ["q", "yes", "next"]
        again = await other.thread("s-1").append(say("q"), say("no"), key="k", repeat="first")
        assert again.messages == (say("q"), say("yes"))
    assert one.counters.lost == other.counters.lost == 0


async def test_late_is_what_came_after_a_turn_of_another_machine_alone(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_store(place, tmp_path) as one,
        open_store(place, tmp_path) as other,
        stateward.open(place, spill=False) as far,
    ):
        with one.faults.unavailable(), correlate("r-1"):
            await one.thread("s-1").append(say("one"))
            await far.thread("s-1").append(say("far"))
            await one.thread("s-1").append(say("two"))
            await other.thread("s-1").append(say("three"))
        await until(lambda: one.counters.replayed == 2)
        assert texts(await far.thread("s-1").load()) == ["far", "one", "two", "three"]
        assert [(it.first, it.last) for it in await far.thread("s-1").late()] == [(2, 2)]
    assert one.counters.late + other.counters.late == 1
    said = [vars(r) for r in caplog.records if r.message == "memory_write_late"]
    assert [(r["first"], r["correlation_id"]) for r in said] == [(2, "r-1")]


@pytest.mark.parametrize("damage", ["removed", "cut off"])
async def test_a_stamp_that_was_damaged_is_made_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(suppression, "ADOPT_SECONDS", 0.05)
    async with open_store(place, tmp_path) as one, open_store(place, tmp_path) as other:
        await one.thread("s-1").append(say("one"))
        await other.thread("s-1").append(say("two"))
        near = other._layered.stacks[0].backlog.neighbours
        (stamp,) = (tmp_path / "spill").glob(".stamp-*")
        stamp.unlink() if damage == "removed" else os.truncate(stamp, 0)
        with one.faults.unavailable():
            await one.thread("s-1").append(say("three"))
            await until(lambda: near.count == 1)
            await other.thread("s-1").append(say("four"))
            assert texts(await other.thread("s-1").load()) == ["one", "two", "three", "four"]


async def test_without_a_directory_everybody_is_on_their_own(place: str, tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("not a directory")
    async with open_store(place, tmp_path, policy=IMPATIENT) as one:
        with one.faults.unavailable():
            assert (await one.thread("s-1").append(say("one"))).status == "spilled"
        await answers(one)
        await one.thread("s-1").append(say("two"))
        assert texts(await one.thread("s-1").load()) == ["one", "two"]


# --- the files of others ----------------------------------------------------------------


def record(n: int) -> SpillRecord:
    return SpillRecord(f"op-{n}", THREAD, (f'{{"n":{n}}}',), float(n))


def neighbours(folder: Path) -> Neighbours:
    return Neighbours(str(folder), "m", World().new_id)


def head(near: Neighbours) -> Any:
    place = near.head(THREAD)
    return None if place is None else near.read(place)


def test_only_whole_lines_count_and_each_is_read_once(tmp_path: Path) -> None:
    near = neighbours(tmp_path)
    file = SpillFile.create(str(tmp_path), "m-x-1.spill", {})
    line = line_of(record(2))
    file.write(line_of(record(1)) + line[:20])
    near.look([])
    assert (near.count, head(near)) == (1, record(1))
    file.write(line[20:] + done_line("op-1"))
    near.look([])
    assert (near.count, head(near)) == (1, record(2))
    near.forget("op-2")
    near.look([])
    assert (near.count, near.head(THREAD)) == (0, None)
    assert near.accepted("op-1") == 1.0
    file.remove()


def test_the_oldest_of_all_files_comes_first_but_none_before_its_own_files(tmp_path: Path) -> None:
    near = neighbours(tmp_path)
    contents = {"m-x-1": (4, 1), "m-y-1": (2, 5), "m-ours-1": (0,), "other-z-1": (0,)}
    made = {}
    for name, numbers in contents.items():
        made[name] = SpillFile.create(str(tmp_path), f"{name}.spill", {})
        made[name].write(b"".join(line_of(record(n)) for n in numbers))
    near.look([made["m-ours-1"].path])
    found = []
    while (place := near.head(THREAD)) is not None:
        assert isinstance(place, NearRecord)
        found.append(int(place.at))
        near.forget(place.op)
    assert found == [2, 4, 1, 5]
    for file in made.values():
        file.remove()


def test_a_file_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    near = neighbours(tmp_path)
    file = SpillFile.create(str(tmp_path), "m-x-1.spill", {})
    file.write(line_of(record(1)))
    near.look([])
    place = near.head(THREAD)
    assert place is not None
    file.remove()
    assert near.read(place) is None
    near.look([])
    assert near.count == 0


def test_a_stamp_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    one = neighbours(tmp_path)
    one.look([])
    (stamp,) = tmp_path.glob(".stamp-*")
    assert stamp.stat().st_mode & 0o777 == 0o600
    stamp.chmod(0o622)
    other = neighbours(tmp_path)
    other.look([])
    other.changed()
    assert other.stamp == b""
    assert one.stamp == one.seen
    stamp.chmod(0o600)
    other.changed()
    assert one.stamp == other.stamp != one.seen


def test_a_change_of_ones_own_needs_no_look_and_hides_none_of_anothers(tmp_path: Path) -> None:
    one, other = neighbours(tmp_path), neighbours(tmp_path)
    one.look([])
    one.changed()
    assert one.stamp == one.seen
    other.look([])
    other.changed()
    one.changed()
    assert one.stamp != one.seen
    assert other.stamp != other.seen
    one.look([])
    (stamp,) = tmp_path.glob(".stamp-*")
    with open(stamp, "rb+") as paused:  # in the middle of a change
        assert lock(paused.fileno())
        other.changed()
        assert one.stamp != one.seen
        one.look([])
        one.changed()
        assert one.stamp != one.seen
    one.look([])
    one.changed()
    assert one.stamp == one.seen
