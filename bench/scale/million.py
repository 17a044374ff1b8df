"""A million messages in one store: its size, and what reading, saving and sweeping it take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

import msgspec

import holdfast
from bench.conversations import turn
from bench.rounds import quantile
from bench.scale.places import Place
from bench.scale.turns import fill
from holdfast.backup import backup, restore
from holdfast.store import Store

LENGTH = 100  # messages of a conversation
SMALL = 1_000  # messages in the store it is compared with
ROUNDS, CALLS = 9, 200
LATER = 40.0  # days: everything has expired then, and its grace is over
STEP = 1_000  # rows that a sweep removes in one go


@dataclass(frozen=True)
class Million:
    messages: int
    filled_per_second: float  # turns
    bytes: dict[str, int]  # by where they are
    payload: int  # bytes of JSON in it
    last_p50_ms: float
    last_growth: float  # × the same in a store of 1,000 messages, in the same run
    append_p50_ms: float
    append_growth: float
    backup_seconds: float
    backup_bytes: int
    restore_seconds: float
    idle_sweep_ms: float  # with nothing to remove
    sweep_seconds: float  # with everything to remove
    sweep_step_ms: float  # the longest that anyone waits for a step of it


def measure(place: Place, folder: Path, messages: int, say: Callable[[str], None]) -> Million:
    small, large = place.url("small"), place.url("large")
    asyncio.run(fill(small, SMALL // LENGTH, LENGTH))
    conversations = messages // LENGTH
    start = perf_counter()
    step = max(1, conversations // 10)

    def told(done: int) -> None:
        if done % step == 0:
            say(f"{done * LENGTH:,} messages")

    asyncio.run(fill(large, conversations, LENGTH, told))
    filled = messages / 2 / (perf_counter() - start)
    size = place.size("large")
    say("reading and appending")
    calls = asyncio.run(_compare(small, large, conversations))
    say("sweeping nothing")
    idle = asyncio.run(_idle_sweep(large))
    say("backup")
    file = str(folder / "million.backup")
    start = perf_counter()
    saved = backup(large, file)
    backup_seconds = perf_counter() - start
    say("restore")
    copy = place.url("copy")
    start = perf_counter()
    restore(file, copy)
    restore_seconds = perf_counter() - start
    say("sweeping everything")
    sweep_seconds, longest = asyncio.run(_sweep_all(place, conversations))
    one = sum(len(msgspec.json.encode(m)) for n in range(LENGTH // 2) for m in turn(n))
    return Million(
        messages,
        filled,
        size,
        one * conversations,
        *calls["last"],
        *calls["append"],
        backup_seconds,
        saved.bytes,
        restore_seconds,
        idle,
        sweep_seconds,
        longest,
    )


async def _compare(small: str, large: str, conversations: int) -> dict[str, tuple[float, float]]:
    """p50 in the large store, and its ratio to the small one, taken round by round."""
    order = Random(0)
    few = SMALL // LENGTH
    found: dict[str, tuple[float, float]] = {}
    async with holdfast.open(small) as little, holdfast.open(large) as big:
        for name in ("last", "append"):
            above, below = [], []
            for number in range(-1, ROUNDS):  # the first warms up
                picked = [order.randrange(conversations) for _ in range(CALLS)]
                one = await _timed(little, name, [n % few for n in picked])
                other = await _timed(big, name, picked)
                if number >= 0:
                    below.append(quantile(one, 0.5))
                    above.append(quantile(other, 0.5))
            ratios = [a / b for a, b in zip(above, below, strict=True)]
            found[name] = (median(above) * 1000, median(ratios))
    return found


async def _timed(store: holdfast.Store, name: str, picked: list[int]) -> list[float]:
    took = []
    for number in picked:
        thread = store.thread(f"c-{number}")
        start = perf_counter()
        if name == "last":
            await thread.load(last=20)
        else:
            await thread.append(*turn(number))
        took.append(perf_counter() - start)
    return took


async def _idle_sweep(url: str) -> float:
    async with holdfast.open(url) as store:
        start = perf_counter()
        swept = await store.sweep(STEP)
        took = perf_counter() - start
        if swept.entities:
            raise SystemExit("a sweep removed what had not expired")
        return took * 1000


async def _sweep_all(place: Place, conversations: int) -> tuple[float, float]:
    """All of the restored copy, long after its last message."""
    longest, removed, more, begun = 0.0, 0, True, perf_counter()
    async with Store(place.engine_later("copy", LATER), spill=False) as store:
        while more:
            start = perf_counter()
            swept = await store.sweep(STEP)
            longest = max(longest, perf_counter() - start)
            removed, more = removed + swept.entities, swept.more
    if removed < conversations:
        raise SystemExit(f"the sweep removed {removed:,} of {conversations:,} conversations")
    return perf_counter() - begun, longest * 1000
