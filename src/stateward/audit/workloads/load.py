"""Open-loop load: calls begin when they are scheduled, and are measured from then.

A caller that waits for each answer before it asks again hides every stall from itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

from stateward.audit.histogram import Heartbeat, LogHistogram
from stateward.audit.record import Doubling, Length, Level
from stateward.audit.stage import Stage, turn
from stateward.audit.targets import Target

LOOKUPS = 0.8  # of all calls; the others append a turn
LAST = 20
LOOKS = 60  # at each length of history
AT_ONCE = 100  # messages a call, when a history is made
THIRDS = 3
FIRST = 20  # lookups of a replica that has just joined
CALM = 5.0  # ms of lag; a generator that lags more proves nothing, so the load is repeated


async def levels(stage: Stage) -> list[Level]:
    replicas = await stage.fleet.start(stage.sizes.replicas)
    found = []
    for conversations in stage.sizes.conversations:
        many = "conversation" if conversations == 1 else "conversations"
        stage.say(f"{conversations:,} {many} at once")
        threads = stage.names(f"load-{conversations}", conversations)
        await replicas[0].ask("load:prepare", threads=threads)
        for replica in replicas[1:]:
            await replica.ask("load:warm", threads=threads[:20])
        tried = [await _level(stage, replicas, threads, 0)]
        while tried[-1].lag > CALM and len(tried) <= stage.sizes.repeats:
            stage.say(f"{conversations:,} {many} at once, again: this machine was busy")
            tried.append(await _level(stage, replicas, threads, len(tried)))
        found.append(min(tried, key=lambda level: level.lag))
    await stage.fleet.end(*replicas)
    return found


async def _level(stage: Stage, replicas: list[Any], threads: list[str], again: int) -> Level:
    seconds = stage.sizes.duration
    # One conversation does not ask as often as a hundred do.
    rate = min(stage.sizes.rate, 10.0 * len(threads))
    begin = time.monotonic() + 0.3
    said = await asyncio.gather(
        *(
            replica.ask(
                "load:run",
                threads=threads,
                rate=rate / len(replicas),
                seconds=seconds,
                begin=begin,
                seed=stage.seed * 10_000 + 1000 * again + number,
                patience=seconds + 60.0,
            )
            for number, replica in enumerate(replicas)
        )
    )
    return merged(len(threads), seconds, said)


# --- more replicas ----------------------------------------------------------------------


async def doubling(stage: Stage) -> Doubling:
    """As auto-scaling does it: half-way through a load, as many replicas again join in."""
    await stage.fleet.rest()
    conversations = max(stage.sizes.conversations)
    threads = stage.names("doubling", conversations)
    warm_ones = await stage.fleet.start(stage.sizes.replicas)
    await warm_ones[0].ask("load:prepare", threads=threads)
    for replica in warm_ones[1:]:
        await replica.ask("load:warm", threads=threads)
    tried: list[Doubling] = []
    while not tried or (tried[-1].lag > CALM and len(tried) <= stage.sizes.repeats):
        stage.say("as many replicas again join in")
        tried.append(await _doubled(stage, warm_ones, threads, len(tried)))
    await stage.fleet.end(*warm_ones)
    return min(tried, key=lambda each: each.lag)


async def _doubled(stage: Stage, warm_ones: list[Any], threads: list[str], again: int) -> Doubling:
    seconds, half = stage.sizes.duration, stage.sizes.duration / 2
    joining = await stage.fleet.start(len(warm_ones), fresh=True)
    begin = time.monotonic() + 0.3
    said = await asyncio.gather(
        *(
            replica.ask(
                "load:run",
                threads=threads,
                rate=stage.sizes.rate / 2 / len(warm_ones),
                seconds=seconds,
                begin=begin,
                seed=stage.seed * 10_000 + 1000 * again + number,
                start=half if number >= len(warm_ones) else 0.0,
                patience=seconds + 60.0,
            )
            for number, replica in enumerate([*warm_ones, *joining])
        )
    )
    await stage.fleet.end(*joining)
    warm = _together(
        LogHistogram(counts)
        for each in said[: len(warm_ones)]
        for tenth, counts in each["lookups"].items()
        if int(tenth) >= int(half * 10)
    )
    cold = _together(LogHistogram(each["first"]) for each in said[len(warm_ones) :])
    lag = _together(LogHistogram(each["lag"]) for each in said)
    return Doubling(
        before=len(warm_ones),
        after=len(warm_ones) + len(joining),
        lookups=cold.total,
        cold_p50=cold.ms(0.5),
        cold_p95=cold.ms(0.95),
        warm_p50=warm.ms(0.5),
        warm_p95=warm.ms(0.95),
        lag=lag.ms(0.99),
    )


def merged(conversations: int, seconds: float, said: list[dict[str, Any]]) -> Level:
    """The measurements of all replicas as one."""
    by_second: dict[int, LogHistogram] = {}
    errors: Counter[str] = Counter()
    failed: Counter[int] = Counter()
    intended: Counter[int] = Counter()
    lag = LogHistogram()
    for each in said:
        for second, counts in each["lookups"].items():
            by_second.setdefault(int(second), LogHistogram()).merge(LogHistogram(counts))
        errors.update(each["errors"])
        failed.update({int(s): n for s, n in each["failed"].items()})
        intended.update({int(s): n for s, n in each["intended"].items()})
        lag.merge(LogHistogram(each["lag"]))
    whole = _together(by_second.values())
    windows = [
        _together(h for s, h in by_second.items() if int(THIRDS * s / (10 * seconds)) == third)
        for third in range(THIRDS)
    ]
    calls = sum(intended.values())
    late = max(each["finished"] for each in said)
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
    """By second; what was measured is kept by tenths of one."""
    found = []
    for second in sorted({tenth // 10 for tenth in intended}):
        tenths = range(second * 10, second * 10 + 10)
        whole = _together(by_tenth[t] for t in tenths if t in by_tenth)
        meant, lost = sum(intended[t] for t in tenths), sum(failed[t] for t in tenths)
        p50, p95, p99 = whole.ms(0.5), whole.ms(0.95), whole.ms(0.99)
        found.append((float(second), p50, p95, p99, float(meant), float(meant - lost), lost))
    return found


def _together(histograms: Any) -> LogHistogram:
    whole = LogHistogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole


async def prepare(target: Target, tell: Any, threads: list[str]) -> None:
    """Give every conversation a past."""
    for thread in threads:
        await target.append(thread, [m for n in range(10) for m in turn(f"past/{n}")], "past")
    await warm(target, tell, threads[:20])


async def warm(target: Target, tell: Any, threads: list[str]) -> None:
    for thread in threads:
        await target.load(thread, LAST)


class _Meter:
    """What one replica measured, by tenths of a second of the intended start."""

    def __init__(self) -> None:
        self.lookups: dict[int, LogHistogram] = {}
        self.first = LogHistogram()
        self.errors: Counter[str] = Counter()
        self.failed: Counter[int] = Counter()
        self.intended: Counter[int] = Counter()
        self.finished = 0.0


async def run(
    target: Target,
    tell: Any,
    threads: list[str],
    rate: float,
    seconds: float,
    begin: float,
    seed: int,
    start: float = 0.0,
) -> dict[str, Any]:
    """From `begin` + `start` until `begin` + `seconds`."""
    meter, chance = _Meter(), random.Random(seed)
    under_way: set[asyncio.Task[None]] = set()
    at, number = start + chance.expovariate(rate), 0
    with Heartbeat() as heart:
        while at < seconds:
            await asyncio.sleep(max(0.0, begin + at - time.monotonic()))
            lookup = chance.random() < LOOKUPS
            call = _call(target, meter, chance.choice(threads), lookup, begin, at, (seed, number))
            task = asyncio.create_task(call)
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            at += chance.expovariate(rate)
            number += 1
        if under_way:
            await asyncio.wait(under_way, timeout=30.0)
        for task in under_way:
            task.cancel()
            meter.errors["TimeoutError"] += 1
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
    target: Target,
    meter: _Meter,
    thread: str,
    lookup: bool,
    begin: float,
    at: float,
    name: tuple[int, int],
) -> None:
    tenth = int(at * 10)
    meter.intended[tenth] += 1
    try:
        if lookup:
            await target.load(thread, LAST)
        else:
            key = f"{name[0]}/{name[1]}"
            await target.append(thread, turn(key), key)
    except Exception as error:
        meter.errors[type(error).__name__] += 1
        meter.failed[tenth] += 1
    done = time.monotonic() - begin
    meter.finished = max(meter.finished, done)
    if lookup:
        meter.lookups.setdefault(tenth, LogHistogram()).add(done - at)
        if meter.first.total < FIRST:
            meter.first.add(done - at)


# --- the length of the history ----------------------------------------------------------


async def lengths(stage: Stage) -> list[Length]:
    (replica,) = await stage.fleet.start()
    (thread,) = stage.names("long", 1)
    found, there = [], 0
    for length in stage.sizes.history:
        stage.say(f"a history of {length:,} messages")
        said = await replica.ask(
            "load:lengthen", thread=thread, there=there, length=length, patience=600.0
        )
        there = length
        took = LogHistogram(said)
        found.append(Length(length, took.ms(0.5), took.ms(0.95), took.ms(0.99)))
    await stage.fleet.end(replica)
    return found


async def lengthen(
    target: Target, tell: Any, thread: str, there: int, length: int
) -> dict[str, int]:
    for first in range(there, length, AT_ONCE):
        messages = [m for n in range(first, min(first + AT_ONCE, length), 2) for m in turn(f"{n}")]
        await target.append(thread, messages, f"long/{first}")
    await target.load(thread, LAST)
    took = LogHistogram()
    for _ in range(LOOKS):
        start = time.monotonic()
        await target.load(thread, LAST)
        took.add(time.monotonic() - start)
    return took.plain()
