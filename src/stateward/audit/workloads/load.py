"""Open-loop load: calls begin when they are scheduled, and are measured from then.

A caller that waits for each answer before it asks again hides every stall from itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from stateward.audit.histogram import Heartbeat, LogHistogram
from stateward.audit.record import Level
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory, Stopwatch
from stateward.audit.workloads.samples import turn
from stateward.audit.workloads.workload import Stage, Workload
from stateward.pages.words import plural

LOOKUPS = 0.8  # of all calls; the others append a turn
LAST = 20
THIRDS = 3
FIRST = 20  # lookups of a replica that has just joined
WAITS = 20  # half seconds that a calm moment is waited for
CALM = 5.0  # ms of lag; a generator that lags more proves nothing, so the load is repeated


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(stage.sizes.replicas)
    levels = []
    for conversations in stage.sizes.conversations:
        many = plural(conversations, "concurrent conversation")
        stage.say(many)
        threads = stage.names(f"load-{conversations}", conversations)
        await replicas[0].ask("load:prepare", threads=threads)
        for replica in replicas[1:]:
            await replica.ask("load:warm", threads=threads[:20])
        tried = [await _level(stage, replicas, threads, 0)]
        while tried[-1].lag > CALM and len(tried) <= stage.sizes.repeats:
            stage.say(f"{many}, again: this machine was busy")
            await calm()
            tried.append(await _level(stage, replicas, threads, len(tried)))
        levels.append(min(tried, key=lambda level: level.lag))
    await stage.fleet.end(*replicas)
    stage.record.levels = levels


async def calm() -> None:
    """Wait a limited time for a moment in which this machine is not busy otherwise."""
    for _ in range(WAITS):
        with Heartbeat() as heart:
            await asyncio.sleep(0.5)
        if heart.late.ms(0.99) < CALM:
            return


async def _level(stage: Stage, replicas: list[Replica], threads: list[str], again: int) -> Level:
    # One conversation does not ask as often as a hundred do.
    rate = min(stage.sizes.rate, 10.0 * len(threads))
    measured = await loaded(stage, replicas, threads, rate, again)
    return merged(len(threads), stage.sizes.duration, measured)


async def loaded(
    stage: Stage,
    replicas: list[Replica],
    threads: list[str],
    rate: float,
    again: int,
    joining: Sequence[Replica] = (),
) -> list[dict[str, Any]]:
    """Return what each replica measured under this total rate, those that join half-way too."""
    seconds, begin = stage.sizes.duration, time.monotonic() + 0.3
    measured: list[dict[str, Any]] = await asyncio.gather(
        *(
            replica.ask(
                "load:run",
                threads=threads,
                rate=rate / len(replicas),
                seconds=seconds,
                begin=begin,
                seed=stage.record.seed * 10_000 + 1000 * again + number,
                start=0.0 if number < len(replicas) else seconds / 2,
                patience=seconds + 60.0,
            )
            for number, replica in enumerate((*replicas, *joining))
        )
    )
    return measured


def merged(conversations: int, seconds: float, reports: list[dict[str, Any]]) -> Level:
    """The measurements of all replicas as one."""
    by_second: dict[int, LogHistogram] = {}
    errors: Counter[str] = Counter()
    failed: Counter[int] = Counter()
    intended: Counter[int] = Counter()
    lag = LogHistogram()
    for each in reports:
        for second, counts in each["lookups"].items():
            by_second.setdefault(int(second), LogHistogram()).merge(LogHistogram(counts))
        errors.update(each["errors"])
        failed.update({int(s): n for s, n in each["failed"].items()})
        intended.update({int(s): n for s, n in each["intended"].items()})
        lag.merge(LogHistogram(each["lag"]))
    whole = together(by_second.values())
    windows = [
        together(h for s, h in by_second.items() if int(THIRDS * s / (10 * seconds)) == third)
        for third in range(THIRDS)
    ]
    calls = sum(intended.values())
    late = max(each["finished"] for each in reports)
    moments = _moments(by_second, intended, failed)
    return Level(
        conversations=conversations,
        seconds=seconds,
        intended=round(calls / seconds, 1),
        achieved=round((calls - sum(failed.values())) / max(seconds, late), 1),
        lookups=whole.total,
        failed=sum(failed.values()),
        windows=[window.ms(0.95) for window in windows if window.total],
        p50=whole.ms(0.5),
        p95=whole.ms(0.95),
        p99=whole.ms(0.99),
        lag=lag.ms(0.99),
        moments=moments,
        errors=dict(errors),
    )


def _moments(
    by_tenth: dict[int, LogHistogram], intended: Counter[int], failed: Counter[int]
) -> list[tuple[float, float, float, float, float, float, int]]:
    """Return the figures by second, from measurements by tenths of a second."""
    moments = []
    for second in sorted({tenth // 10 for tenth in intended}):
        tenths = range(second * 10, second * 10 + 10)
        whole = together(by_tenth[t] for t in tenths if t in by_tenth)
        meant, lost = sum(intended[t] for t in tenths), sum(failed[t] for t in tenths)
        p50, p95, p99 = whole.ms(0.5), whole.ms(0.95), whole.ms(0.99)
        moments.append((float(second), p50, p95, p99, float(meant), float(meant - lost), lost))
    return moments


def together(histograms: Iterable[LogHistogram]) -> LogHistogram:
    whole = LogHistogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


WORKLOAD = Workload("load", "threads", "open-loop load", conduct)


# --- in a replica -----------------------------------------------------------------------


async def prepare(memory: Memory, tell: Any, threads: list[str]) -> None:
    """Give every conversation a past."""
    for thread in threads:
        await memory.append(thread, [m for n in range(10) for m in turn(f"past/{n}")], "past")
    await warm(memory, tell, threads[:20])


async def warm(memory: Memory, tell: Any, threads: list[str]) -> None:
    for thread in threads:
        with suppress(Exception):  # a failure here is counted under load too
            await memory.load(thread, LAST)


class _Meter:
    """Measurements of one replica, by tenths of a second of the intended start."""

    def __init__(self) -> None:
        self.lookups: dict[int, LogHistogram] = {}
        self.first = LogHistogram()
        self.errors: Counter[str] = Counter()
        self.failed: Counter[int] = Counter()
        self.intended: Counter[int] = Counter()
        self.finished = 0.0


async def run(
    memory: Memory,
    tell: Any,
    threads: list[str],
    rate: float,
    seconds: float,
    begin: float,
    seed: int,
    start: float = 0.0,
) -> dict[str, Any]:
    """Make calls from `begin` + `start` until `begin` + `seconds`."""
    meter, chance = _Meter(), random.Random(seed)
    under_way: set[asyncio.Task[None]] = set()
    at, number = start + chance.expovariate(rate), 0
    with Heartbeat() as heart:
        while at < seconds:
            await asyncio.sleep(max(0.0, begin + at - time.monotonic()))
            lookup = chance.random() < LOOKUPS
            call = _call(memory, meter, chance.choice(threads), lookup, begin, at, (seed, number))
            task = asyncio.create_task(call)
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            at += chance.expovariate(rate)
            number += 1
        if under_way:
            await asyncio.wait(under_way, timeout=30.0)
        hanging = list(under_way)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
    return {
        "lookups": {second: histogram.plain() for second, histogram in meter.lookups.items()},
        "first": meter.first.plain(),
        "errors": dict(meter.errors),
        "failed": dict(meter.failed),
        "intended": dict(meter.intended),
        "finished": meter.finished,
        "lag": heart.late.plain(),
    }


async def _call(
    memory: Memory,
    meter: _Meter,
    thread: str,
    lookup: bool,
    begin: float,
    at: float,
    name: tuple[int, int],
) -> None:
    tenth, asked, watch = int(at * 10), time.monotonic(), Stopwatch()
    meter.intended[tenth] += 1
    try:
        with watch:
            if lookup:
                await memory.load(thread, LAST)
            else:
                key = f"{name[0]}/{name[1]}"
                await memory.append(thread, turn(key), key)
    except (Exception, asyncio.CancelledError) as error:
        hung = isinstance(error, asyncio.CancelledError)
        if hung and watch.began is None:  # it never got a thread, so it was never asked
            meter.intended[tenth] -= 1
            return
        meter.errors["TimeoutError" if hung else type(error).__name__] += 1
        meter.failed[tenth] += 1
        lookup = False  # the time of a failure is not a lookup's
    at += (watch.began or asked) - asked  # the wait for a thread
    case = time.monotonic() - begin
    meter.finished = max(meter.finished, case)
    if lookup:
        meter.lookups.setdefault(tenth, LogHistogram()).add(case - at)
        if meter.first.total < FIRST:
            meter.first.add(case - at)
