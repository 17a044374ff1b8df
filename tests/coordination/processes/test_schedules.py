"""A schedule whose workers are killed: each tick runs once, and none is left out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count

import pytest

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import PATIENCE, Effects, Replica

EVERY_SECOND = "* * * * * *"
TTL = 5.0  # longer than a busy machine stands still: else a worker that lives loses a task


def await_that(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def keep(start: Start, url: str, effects: Effects, *, workers: int, kills: int, seed: int) -> None:
    """Let workers keep a schedule of every second, and kill one of them again and again."""
    chance, numbers = random.Random(seed), count()
    killed: set[str] = set()

    def worker() -> Replica:
        number = next(numbers)
        facts = {"url": url, "effects": str(effects.path), "ttl": TTL}
        colour = ("async", "sync")[number % 2]
        return start("scheduler", who=f"w{number}", colour=colour, **facts)

    with stateward.sync.open(url) as store:
        schedule = store.schedule("s")
        declared = schedule.declare(
            EVERY_SECOND, task="report", tick="at", missed="all", at_most=1000
        )
        at_work = {f"w{number}": worker() for number in range(workers)}
        for replica in at_work.values():
            replica.until_said(works=True)
        for _ in range(kills):
            seen = len(effects.all())
            await_that(lambda seen=seen: len(effects.all()) > seen, "another tick")  # type: ignore[misc]
            time.sleep(chance.random() * 0.05)  # in a task, between two, or while it plans
            who = effects.all()[-1]["by"]
            if who not in at_work or chance.random() < 0.3:
                who = chance.choice(sorted(at_work))
            at_work.pop(who).kill()
            killed.add(who)
            at_work[f"w{workers + len(killed) - 1}"] = worker()
        for replica in at_work.values():
            replica.until_said(works=True)
        schedule.pause()
        await_that(
            lambda: all(task.status == "completed" for task in store.tasks()),
            "all that was recorded has run",
        )
        paused = schedule.info()
        tasks = [task.id for task in store.tasks()]
    for replica in at_work.values():
        replica.tell(end=True)
    for replica in at_work.values():
        replica.finish()

    # No tick is left out, and none has two records.
    assert paused is not None
    assert declared.next_at is not None
    assert paused.last_at is not None
    assert paused.skipped == 0
    ticks = [datetime.fromisoformat(id.partition("@")[2]) for id in tasks]
    expected = round((paused.last_at - declared.next_at).total_seconds()) + 1
    assert ticks == [declared.next_at + timedelta(seconds=number) for number in range(expected)]

    # Each ran once, but for those that somebody was killed with.
    runs = effects.count("tick")
    assert sum(runs.values()) >= kills
    assert set(runs) == {id.partition("@")[2] for id in tasks}
    for tick, number in runs.items():
        by = [line["by"] for line in effects.all(tick=tick)]
        assert number == 1 or set(by[:-1]) <= killed, f"{tick} was run by {by}, killed: {killed}"


def test_each_tick_runs_once_while_workers_are_killed(
    start: Start, url: str, effects: Effects
) -> None:
    keep(start, url, effects, workers=3, kills=5, seed=18)


@pytest.mark.soak
def test_each_of_many_ticks_runs_once_while_workers_are_killed(
    start: Start, url: str, effects: Effects
) -> None:
    keep(start, url, effects, workers=6, kills=250, seed=19)
