"""The load generator tells the truth, also about a store that stands still."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from typing import Any

import pytest

from audit.auditing import judged, small
from stateward.audit.conductor import Audit
from stateward.audit.faults.choice import FaultChoice
from stateward.audit.histogram import LogHistogram
from stateward.audit.record import Check, Record
from stateward.audit.replicas.fleet import Fleet
from stateward.audit.replicas.waits import ProcessorWaits
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import load
from stateward.audit.workloads.workload import Stage, Workload


class StandsStill:
    """Answers at once, but for a stretch in which nobody is answered."""

    def __init__(self, start: float, end: float) -> None:
        self._start, self._end = start, end
        self._began = time.monotonic()
        self.took: list[float] = []

    async def load(self, thread: str, last: int | None) -> list[Any]:
        asked = time.monotonic()
        if self._start <= asked - self._began < self._end:
            await asyncio.sleep(self._end - (asked - self._began))
        self.took.append(time.monotonic() - asked)
        return []

    async def append(self, thread: str, messages: list[Any], key: str) -> None:
        return None


async def measured(memory: Any, seconds: float) -> Any:
    said = await load.run(
        Memory(memory),
        lambda **_: None,
        threads=["t-1"],
        rate=100.0,
        seconds=seconds,
        begin=time.monotonic(),
        seed=1,
    )
    return load.merged(10, seconds, [said])


@pytest.mark.timing
def test_a_stall_of_a_second_shows_in_the_percentiles() -> None:
    """10 % of a 5 s load wait for it: p95 is about half of the stall, and p99 most of it."""
    level = asyncio.run(measured(StandsStill(1.0, 1.5), 5.0))
    late = 4 * level.lag  # a busy machine's own share
    assert 150 < level.p95 < 500 + late
    assert 350 < level.p99 < 700 + late
    assert level.p50 < 50 + late
    assert level.achieved == pytest.approx(level.intended, rel=0.05)
    worst = max(level.moments, key=lambda moment: moment[3])
    assert (worst[0], worst[3] > 300) == (1.0, True)


def test_a_store_that_blocks_the_event_loop_is_not_excused_as_a_slow_generator() -> None:
    class Blocks:
        async def load(self, thread: str, last: int | None) -> list[Any]:
            time.sleep(0.15)  # noqa: ASYNC251 (this is what is wrong with it)
            return []

        async def append(self, thread: str, messages: list[Any], key: str) -> None:
            return None

    level = asyncio.run(measured(Blocks(), 1.0))
    assert level.lag < 140  # 150 ms at a time were not noticed by the clock beside it
    report = judged(Record(provides=["threads"], levels=[level]), generator_lag_ms=140.0)
    (latency,) = [a for a in report.answers if a.id == "latency"]
    assert latency.verdict == "fail"


def test_histograms_of_several_processes_add_up_and_are_exact_to_two_percent() -> None:
    chance = random.Random(3)
    values = [chance.expovariate(100.0) for _ in range(20_000)]
    whole = LogHistogram()
    for part in range(4):
        one = LogHistogram()
        for value in values[part::4]:
            one.add(value)
        whole.merge(LogHistogram(one.plain()))
    assert whole.total == len(values)
    values.sort()
    for q in (0.5, 0.95, 0.99):
        assert whole.quantile(q) == pytest.approx(values[int(q * len(values))], rel=0.03)
    assert LogHistogram().quantile(0.5) == 0.0


# --- what fails on a machine that is too busy ---------------------------------------------


class Attempts:
    """A workload whose first so many attempts break a promise."""

    def __init__(self, broken: int, promise: str) -> None:
        self.names: list[str] = []
        self.left = broken
        self.workload = Workload(
            "x", "tasks", "trying", self._conduct, checks="task_checks", timed=("in time",)
        )
        self.promise = promise

    async def _conduct(self, stage: Stage) -> None:
        self.names += stage.names("x", 1)
        self.left -= 1
        checks = [Check(self.promise, 5, int(self.left >= 0)), Check("else", 5)]
        stage.record.task_checks = checks


@pytest.mark.parametrize(
    ("broken", "promise", "busy", "attempts", "kept"),
    [
        (1, "in time", True, 2, [("in time", 0), ("else", 0)]),  # it was the machine
        (9, "in time", True, 3, [("else", 0)]),  # nobody knows what it was
        (9, "in time", False, 1, [("in time", 1), ("else", 0)]),
        (9, "at any time", True, 1, [("at any time", 1), ("else", 0)]),
    ],
)
def test_what_a_busy_machine_makes_fail_is_tried_again_and_else_unknown(
    monkeypatch: pytest.MonkeyPatch,
    broken: int,
    promise: str,
    busy: bool,
    attempts: int,
    kept: list[tuple[str, int]],
) -> None:
    monkeypatch.setattr(ProcessorWaits, "is_busy", busy)
    tried = Attempts(broken, promise)

    async def main() -> Record:
        audit = Audit(small(None, repeats=2), lambda _: None)
        fleet = Fleet(audit.target)
        stage = Stage(fleet, audit.options.sizes, audit.record, FaultChoice(audit.target))
        await audit._repeated(stage, tried.workload)
        await fleet.kill_all()
        shutil.rmtree(audit.folder)
        return audit.record

    record = asyncio.run(main())
    assert [(each.promise, each.differing) for each in record.task_checks or ()] == kept
    assert len(tried.names) == len(set(tried.names)) == attempts
    assert ("x" in record.notes) == (len(kept) == 1)
