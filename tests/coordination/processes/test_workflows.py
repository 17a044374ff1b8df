"""Workflows while their drivers are killed and their store is away."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import PATIENCE, Effects, Replica

TTL = 2.0  # seconds; a driver that a busy machine keeps waiting for that long has lost its lease
SLOW = 0.02  # seconds a step: those that are killed must not be outdone while others start
STEPS = ("fetch-0", "check-1", "pay-2", "pay-3", "tell-4")


class Drivers:
    """Starts drivers; knows what they did."""

    def __init__(self, start: Start, url: str, effects: Effects) -> None:
        self._start = start
        self._facts = {"url": url, "effects": str(effects.path)}
        self._url = url
        self.effects = effects
        self.all: list[Replica] = []

    def start(self, colour: str = "async", ttl: float = TTL, **facts: object) -> Replica:
        who = f"driver {len(self.all)}"
        driver = self._start("driver", who=who, colour=colour, ttl=ttl, **self._facts, **facts)
        self.all.append(driver)
        return driver

    def begin(self, *ids: str) -> None:
        self.start(begin=ids).finish()

    def until_completed(self, count: int) -> None:
        """Wait until so many workflows are completed; fail when no further one is for long."""
        before, since = -1, time.monotonic()
        with stateward.sync.open(self._url) as store:
            while (done := self._statuses(store)["completed"]) < count:
                if done > before:
                    before, since = done, time.monotonic()
                stuck = time.monotonic() - since
                assert stuck < PATIENCE, f"{done} of {count}, and no more for {stuck:.0f} s"
                time.sleep(0.05)

    def completed(self) -> int:
        with stateward.sync.open(self._url) as store:
            return self._statuses(store)["completed"]

    def _statuses(self, store: Any) -> Counter[str]:
        return Counter(info.status for info in store.workflows())

    def check(self, *ids: str) -> int:
        """No finished step ran again. How often one ran again that was not finished."""
        with stateward.sync.open(self._url) as store:
            assert self._statuses(store) == {"completed": len(ids)}
        finished: set[tuple[str, str]] = set()
        keys: dict[tuple[str, str], set[str]] = {}
        runs: Counter[tuple[str, str]] = Counter()
        for line in self.effects.all():
            if "recorded" in line:
                finished.add(tuple(line["recorded"]))
            if "step" not in line:
                continue
            step = tuple(line["step"])
            assert step not in finished, f"{step} happened again"
            keys.setdefault(step, set()).add(line["key"])
            runs[step] += 1
        assert set(runs) == finished == {(id, step) for id in ids for step in STEPS}
        assert all(len(of_one) == 1 for of_one in keys.values())
        assert len(set.union(*keys.values())) == len(keys)
        return sum(runs.values()) - len(runs)

    def pause_inside_a_step(self, driver: Replica) -> None:
        """Let it stand still where an effect has happened, and its step is not finished."""
        who = f"driver {self.all.index(driver)}"
        while True:
            driver.pause()
            mine = self.effects.all(by=who)
            if mine and "step" in mine[-1]:
                return
            driver.resume()
            time.sleep(0.003)  # so that it gets on

    def noted(self, error: str) -> int:
        """How often `work` went on after this error."""
        return sum(len(driver.all(error=error)) for driver in self.all)


@pytest.fixture
def drivers(start: Start, url: str, effects: Effects) -> Drivers:
    return Drivers(start, url, effects)


def test_a_driver_killed_between_two_steps_is_succeeded_and_no_finished_step_runs_again(
    drivers: Drivers,
) -> None:
    ids = [f"killed-before-{number}" for number in range(len(STEPS))]
    doomed = [drivers.start(drive=id, ttl=4.0) for id in ids]
    for number, driver in enumerate(doomed):
        for before in range(number):
            driver.until_said(before=before)
            driver.tell(go=True)
        driver.until_said(before=number)  # and all before it are finished
        driver.kill()
    worker = drivers.start(work=True, ttl=60.0)
    drivers.until_completed(len(ids))
    worker.tell(stop=True)
    worker.finish()
    assert drivers.check(*ids) == 0  # nobody was killed inside a step
    for number, driver in enumerate(doomed):
        assert len([e for e in driver.said if "recorded" in e]) == number
        mine = [e["step"] for e in drivers.effects.all(by=f"driver {number}") if "step" in e]
        assert mine == [[ids[number], step] for step in STEPS[:number]]


def kill_workers(drivers: Drivers, workflows: int, kills: int, seed: int) -> None:
    """Three of them work; again and again one is killed -9, wherever it happens to be."""
    chance = random.Random(seed)
    ids = [f"w-{number}" for number in range(workflows)]
    drivers.begin(*ids)
    colours = ["async", "sync", "async"]
    workers = [drivers.start(colour, work=True, slow=SLOW) for colour in colours]
    for number in range(kills):
        place = number % len(workers)
        victim = workers[place]
        victim.until(lambda said: sum("recorded" in e for e in said) >= 3, "three finished steps")
        time.sleep(chance.random() * 0.03)  # the random moment, not a wait
        if number == 0:
            drivers.pause_inside_a_step(victim)
        victim.kill()
        workers[place] = drivers.start(colours[place], work=True, slow=SLOW)
    drivers.until_completed(workflows)
    for worker in workers:
        worker.tell(stop=True)
    for worker in workers:
        worker.finish()
    again = drivers.check(*ids)
    # One kill at least came between an effect and its record, or they were all tame.
    assert 0 < again <= kills + drivers.noted("LeaseLost")


def test_workers_are_killed_and_every_workflow_completes(drivers: Drivers) -> None:
    kill_workers(drivers, workflows=60, kills=8, seed=7)


@pytest.mark.soak
def test_many_workers_are_killed_and_every_workflow_completes(drivers: Drivers) -> None:
    kill_workers(drivers, workflows=4_000, kills=200, seed=8)


def lose_the_store(drivers: Drivers, start: Start, path: Path, count: int, seconds: float) -> None:
    """The driver of all of them dies; while others recover them the store goes away."""
    ids = [f"w-{number}" for number in range(count)]
    drivers.begin(*ids)
    blocker = start("blocker", lock="write", path=str(path), effects=str(drivers.effects.path))
    first = drivers.start(work=True, slow=0.02)
    first.until(lambda said: sum("recorded" in e for e in said) >= 7, "some finished steps")
    first.kill()
    rescuers = [drivers.start(c, work=True, slow=0.02, timeout=0.3) for c in ("async", "sync")]
    for rescuer in rescuers:
        rescuer.until(lambda said: sum("recorded" in e for e in said) >= 3, "some recovered steps")
    blocker.until_said(ready=True)
    blocker.tell(hold=True)
    blocker.until_said(held=True)
    begun = time.monotonic()
    assert drivers.completed() < count - 5, "there was hardly anything left to recover"
    outage = ("StoreUnavailable", "StoreTooSlow")
    rescuers[0].until(  # it has met the outage: in a step, or when it took the next one
        lambda said: any(e.get("error") in outage for e in said), "that it was left"
    )
    time.sleep(max(0.0, begun + seconds - time.monotonic()))  # longer than any write may take
    before = [len(rescuer.said) for rescuer in rescuers]
    blocker.tell(release=True)
    blocker.finish()
    drivers.until_completed(count)
    for rescuer, said in zip(rescuers, before, strict=True):
        assert len(rescuer.said) > said, "it never came back to work"
        rescuer.tell(stop=True)
        rescuer.finish()
    drivers.check(*ids)


def test_a_store_that_goes_away_during_recovery_strands_nothing(
    drivers: Drivers, start: Start, path: Path
) -> None:
    lose_the_store(drivers, start, path, count=40, seconds=2)


@pytest.mark.soak
def test_a_store_that_goes_away_for_long_during_recovery_strands_nothing(
    drivers: Drivers, start: Start, path: Path
) -> None:
    lose_the_store(drivers, start, path, count=400, seconds=15)
