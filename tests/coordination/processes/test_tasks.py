"""Run-once tasks while workers are killed and paused past their leases."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import Effects, Replica, pause_all
from stateward.codec import decode
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Entity, Fetch, Fetched
from stateward.world import World

TTL = 0.3
A_ROUND = 50  # tasks
HOLDERS = [
    ("sync", "blocks", 5),
    ("async", "waits", 5),
    ("sync", "blocks", 5),
    ("async", "blocks", 1),
]
SUCCESSORS = [("sync", "blocks", 6), ("async", "waits", 6)]

Manner = tuple[str, str, int]


class Deliveries:
    """Rounds of deliveries. In each, holders begin tasks and vanish; successors take them over."""

    def __init__(
        self, start: Start, url: str, path: Path | None, effects: Effects, seed: int
    ) -> None:
        self._start = start
        self._path = path
        self._facts = {"url": url, "effects": str(effects.path), "ttl": TTL}
        self._chance = random.Random(seed)
        self._names = count()
        self.all: list[Replica] = []
        self.holders = [self._worker(*manner) for manner in HOLDERS]
        self.successors = [self._worker(*manner) for manner in SUCCESSORS]
        self.killed: list[int] = []  # tasks that died in the hands of a holder
        self.stale: list[int] = []  # tasks that a paused holder still had in hand

    def _worker(self, colour: str, manner: str, at_once: int) -> Replica:
        who = f"{colour}-{manner}-{next(self._names)}"
        worker = self._start(
            "deliverer", who=who, colour=colour, manner=manner, at_once=at_once, **self._facts
        )
        self.all.append(worker)
        return worker

    def round(self, number: int) -> None:
        tasks = list(range(number * A_ROUND, (number + 1) * A_ROUND))
        for place, holder in enumerate(self.holders):
            mine = tasks[place :: len(self.holders)]
            holder.tell(round=number, deliver=mine, hold=True)
        in_hand = [
            self._in_hand(holder, at_once, tasks)
            for holder, (_, _, at_once) in zip(self.holders, HOLDERS, strict=True)
        ]
        victim = number % len(self.holders)
        self.holders[victim].kill()
        self.killed += in_hand.pop(victim)
        paused = [holder for holder in self.holders if holder.alive]
        pause_all(paused, self._path)
        self.stale += [task for some in in_hand for task in some]
        for successor in self.successors:
            self._chance.shuffle(tasks)
            successor.tell(round=number, deliver=tasks, hold=False)
        self.holders[victim] = self._worker(*HOLDERS[victim])
        for successor in self.successors:
            successor.until_said(round=number)
        for holder in paused:
            holder.tell(go=number)
            holder.resume()
        for holder in paused:
            holder.until_said(round=number)

    def _in_hand(self, holder: Replica, at_once: int, tasks: list[int]) -> list[int]:
        """What it has begun and holds, as soon as it has its hands full."""

        def begun() -> list[int]:
            return sorted({e["begun"] for e in holder.all() if e.get("begun") in tasks})

        holder.until(lambda _: len(begun()) >= at_once, f"{at_once} begun tasks")
        return begun()

    def end(self) -> None:
        for worker in (*self.holders, *self.successors):
            worker.tell(end=True)
        for worker in (*self.holders, *self.successors):
            worker.finish()

    def said(self, fact: str) -> list[dict[str, Any]]:
        return [event for worker in self.all for event in worker.said if fact in event]


def stored(url: str, tasks: int) -> dict[int, Any]:
    """The committed results; no result was ever committed a second time."""
    with stateward.sync.open(url) as store:
        infos = list(store.tasks())
        assert len(infos) == tasks
        assert {info.status for info in infos} == {"completed"}
    results: dict[int, Any] = {}
    engine = create_sync_engine(parse(url), World())
    engine.open()
    for number in range(tasks):
        entity = Entity("default", "task", f"task-{number}")
        (fetched,) = engine.execute([Fetch(entity, documents=("result",))])
        assert isinstance(fetched, Fetched)
        value = fetched.documents["result"]
        assert value.version == 1, f"task {number} was committed {value.version} times"
        assert fetched.head.lease is None
        results[number] = decode(value.json)["value"]
    engine.close()
    return results


def check(deliveries: Deliveries, effects: Effects, url: str, rounds: int) -> None:
    tasks = rounds * A_ROUND
    results = stored(url, tasks)

    # Faults fired, and there was traffic around them.
    assert len(deliveries.killed) >= rounds
    assert len(deliveries.stale) >= 10 * rounds
    assert len(deliveries.said("delivered")) >= 2.5 * tasks

    # One commit each, and none by a holder that had been superseded.
    commits = [e for e in deliveries.said("fenced") if e["writes"] == "result"]
    applied = [e["fenced"] for e in commits if e["answer"] == "Applied"]
    assert sorted(applied) == sorted(f"task-{number}" for number in range(tasks))
    refused = [int(e["fenced"].removeprefix("task-")) for e in commits if e["answer"] == "Fenced"]
    lost = [e["lost"] for e in deliveries.said("lost")]
    assert len(applied) + len(refused) == len(commits)
    assert set(deliveries.stale) <= {*refused, *lost}, "a stale holder was neither told nor refused"
    assert len(refused) >= 5 * rounds

    # Every delivery got what is committed, whoever ran it and however often.
    for event in deliveries.said("delivered"):
        assert event["result"] == results[event["delivered"]], event

    # What a dead or paused holder had begun was begun again, under the same key.
    runs = effects.count("task")
    for number in (*deliveries.killed, *deliveries.stale):
        assert runs[str(number)] >= 2
    for number in range(tasks):
        assert runs[str(number)] >= 1
    keys = {(e["task"], e["key"]) for e in effects.all()}
    assert len(keys) == tasks
    assert len({key for _, key in keys}) == tasks


def deliver(
    start: Start, url: str, path: Path | None, effects: Effects, rounds: int, seed: int
) -> None:
    deliveries = Deliveries(start, url, path, effects, seed)
    for number in range(rounds):
        deliveries.round(number)
    deliveries.end()
    check(deliveries, effects, url, rounds)


def test_five_hundred_tasks_are_committed_once_while_workers_are_killed_and_paused(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    deliver(start, url, path, effects, rounds=10, seed=991)


@pytest.mark.soak
def test_ten_thousand_tasks_are_committed_once_while_workers_are_killed_and_paused(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    deliver(start, url, path, effects, rounds=200, seed=992)
