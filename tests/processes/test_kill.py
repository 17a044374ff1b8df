"""Writers die by kill -9: every acknowledged write is there, and turns are whole."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

import stateward
import stateward.sync
from processes.children import Child, begin_together
from processes.conftest import Start

CONVERSATIONS = 4  # of a writer, as in roles/writer.py
TRAFFIC = 25  # acknowledged writes without which a kill proves nothing
LONGEST_WAIT = 0.08  # seconds from there to the kill, at most


class Acknowledged:
    """What one writer had been told was stored when it died."""

    def __init__(self, who: str, lines: list[str]) -> None:
        self.who = who
        self.writes = 0
        self.turns = [0] * CONVERSATIONS
        self.updates = 0
        for line in lines:
            match line.split():
                case ["append", place, number]:
                    assert int(number) == self.turns[int(place)] + 1
                    self.turns[int(place)] += 1
                    self.writes += 1
                case ["update", number]:
                    assert int(number) == self.updates + 1
                    self.updates += 1
                    self.writes += 1

    def check_turns(self, place: int, window: stateward.Window) -> int:
        """Everything acknowledged, at most the one turn under way besides; how many besides."""
        found = [(m["turn"], m["part"]) for m in window.messages]
        turns = len(found) // 2
        whole = [(number, part) for number in range(1, turns + 1) for part in (1, 2)]
        assert found == whole, f"a turn of {self.who}-{place} is split, doubled or missing"
        assert window.version == len(found)
        besides = turns - self.turns[place]
        assert besides in (0, 1), f"{self.turns[place]} were acknowledged, {turns} are there"
        return besides

    def check_updates(self, document: stateward.Document) -> int:
        stored = document.value.get("n", 0)
        assert document.version == stored
        assert stored - self.updates in (0, 1), f"{self.updates} acknowledged, {stored} there"
        return stored - self.updates


def look_sync(url: str, acknowledged: Acknowledged) -> int:
    """Open the file anew and check; how many writes are there that nobody was told of."""
    who = acknowledged.who
    with stateward.sync.open(url) as store:
        besides = acknowledged.check_updates(store.user(who).get())
        for place in range(CONVERSATIONS):
            window = store.thread(f"{who}-{place}", user=who).load()
            besides += acknowledged.check_turns(place, window)
        store.thread("witness").append({"saw": who})  # the file also takes writes again
    return besides


async def look(url: str, acknowledged: Acknowledged) -> int:
    who = acknowledged.who
    async with stateward.open(url) as store:
        besides = acknowledged.check_updates(await store.user(who).get())
        for place in range(CONVERSATIONS):
            window = await store.thread(f"{who}-{place}", user=who).load()
            besides += acknowledged.check_turns(place, window)
        await store.thread("witness").append({"saw": who})
    return besides


class Killing:
    """Kills one writer after the other on one file, and looks after each."""

    def __init__(self, start: Start, path: Path, seed: int) -> None:
        self._start = start
        self._url = f"sqlite:///{path}"
        self._path = path
        self._chance = random.Random(seed)
        self._names = count(1)
        self.dead: list[Acknowledged] = []
        self.besides = 0

    def writers(self) -> Iterator[tuple[str, Child]]:
        """Writers of both colours in turn; the next one already starts while one is at work."""
        following = self._new()
        while True:
            current, following = following, self._new()
            yield current
            current[1].end()

    def _new(self) -> tuple[str, Child]:
        number = next(self._names)
        who = f"w-{number}"
        return who, self._start("writer", self._url, ("async", "sync")[number % 2], who)

    def kill(self, who: str, writer: Child) -> None:
        begin_together([writer])
        writer.until_lines(1 + TRAFFIC)
        time.sleep(self._chance.random() * LONGEST_WAIT)  # the random moment, not a wait
        acknowledged = Acknowledged(who, writer.kill())
        assert acknowledged.writes >= TRAFFIC
        self.dead.append(acknowledged)
        if len(self.dead) % 2:
            self.besides += look_sync(self._url, acknowledged)
        else:
            self.besides += asyncio.run(look(self._url, acknowledged))

    def check_everything(self) -> None:
        """Once more all that was ever acknowledged, and the file itself."""
        with stateward.sync.open(self._url) as store:
            for acknowledged in self.dead:
                who = acknowledged.who
                acknowledged.check_updates(store.user(who).get())
                for place in range(CONVERSATIONS):
                    window = store.thread(f"{who}-{place}", user=who).load()
                    acknowledged.check_turns(place, window)
            witnesses = [m["saw"] for m in store.thread("witness").load().messages]
        assert witnesses == [acknowledged.who for acknowledged in self.dead]
        check_integrity(self._path)
        writes = sum(acknowledged.writes for acknowledged in self.dead)
        print(f"{len(self.dead)} kills, {writes} acknowledged, {self.besides} besides")


def check_integrity(path: Path) -> None:
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


def kill_many(start: Start, path: Path, kills: int, seed: int) -> None:
    killing = Killing(start, path, seed)
    for who, writer in killing.writers():
        killing.kill(who, writer)
        if len(killing.dead) == kills:
            break
    assert len(killing.dead) == kills
    # Some kill must have come between a commit and its acknowledgement, or they were all tame.
    assert killing.besides > 0
    killing.check_everything()


def test_fifty_writers_are_killed_and_no_acknowledged_write_is_lost(
    start: Start, path: Path
) -> None:
    kill_many(start, path, 50, seed=991)


@pytest.mark.soak
def test_two_thousand_writers_are_killed_and_no_acknowledged_write_is_lost(
    start: Start, path: Path
) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    for part in range(40):  # a fresh file each: looking at all that was written must stay cheap
        kill_many(start, path.with_name(f"agents-{part}.db"), 50, seed + part)


@pytest.mark.parametrize("colours", [("async", "sync"), ("sync", "async")])
def test_a_writer_goes_on_undisturbed_while_others_are_killed(
    start: Start, url: str, path: Path, colours: tuple[str, str]
) -> None:
    survivor_colour, killed_colour = colours
    chance = random.Random(7)
    survivor = start("writer", url, survivor_colour, "survivor")
    victims = [start("writer", url, killed_colour, f"victim-{n}") for n in range(4)]
    begin_together([survivor])
    dead: list[Acknowledged] = []
    for number, victim in enumerate(victims):
        begin_together([victim])
        victim.until_lines(1 + TRAFFIC)
        time.sleep(chance.random() * LONGEST_WAIT)
        dead.append(Acknowledged(f"victim-{number}", victim.kill()))
        survivor.until_lines(len(survivor.lines) + TRAFFIC)  # it still gets through
    dead.append(Acknowledged("survivor", survivor.kill()))
    for acknowledged in dead:
        look_sync(url, acknowledged)
    check_integrity(path)


def test_a_writer_killed_inside_a_transaction_leaves_no_lock_behind(
    start: Start, url: str, path: Path
) -> None:
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"n": 1})
        holder = start("holder", path, "write")
        holder.until_said("held")
        holder.kill()
        assert store.user("u-1").update(lambda value: {"n": value["n"] + 1}).value == {"n": 2}
    check_integrity(path)
