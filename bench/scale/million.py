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

import stateward
from bench.conversations import turn
from bench.rounds import quantile
from bench.scale.places import Place
from bench.scale.turns import PATIENT, fill
from stateward.store import Store
from stateward.transfer.backup import backup, restore

LENGTH = 100  # messages of a conversation
SMALL = 1_000  # messages in the store it is compared with
LATER = 40.0  # days: everything has expired then, and its grace is over
STEP = 1_000  # rows that a sweep removes in one go


@dataclass(frozen=True)
class Million:
    messages: int
    filled_per_second: float  # turns
    bytes: dict[str, int]  # by where they are
    payload: int  # bytes of JSON in it
    last: dict[str, float]  # see `_compare`
    append: dict[str, float]
    backup_seconds: float
    backup_bytes: int
    restore_seconds: float
    idle_sweep_ms: float  # with nothing to remove
    sweep_seconds: float  # with everything to remove
    sweep_step_p50_ms: float  # of the steps of 1,000 rows in which it goes
    sweep_step_p99_ms: float


def measure(
    place: Place,
    folder: Path,
    messages: int,
    *,
    rounds: int = 9,
    calls: int = 200,
    say: Callable[[str], None] = print,
) -> Million:
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
    place.settle("large")
    size = place.size("large")
    say("reading and appending")
    compared = asyncio.run(_compare(small, large, conversations, rounds, calls))
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
    sweep_seconds, steps = asyncio.run(_sweep_all(place, conversations))
    one = sum(len(msgspec.json.encode(m)) for n in range(LENGTH // 2) for m in turn(n))
    return Million(
        messages,
        filled,
        size,
        one * conversations,
        compared["last"],
        compared["append"],
        backup_seconds,
        saved.bytes,
        restore_seconds,
        idle,
        sweep_seconds,
        quantile(steps, 0.5) * 1000,
        quantile(steps, 0.99) * 1000,
    )


async def _compare(
    small: str, large: str, conversations: int, rounds: int, calls: int
) -> dict[str, dict[str, float]]:
    """p50 in the large store and its ratio to the small one, taken round by round.

    `few` are as many conversations as the small store has: what differs is the size of the store.
    `any` are conversations from all over the large one: besides, no cache knows them.
    """
    order = Random(0)
    few = SMALL // LENGTH
    found: dict[str, dict[str, float]] = {}
    async with stateward.open(small) as little, stateward.open(large) as big:
        for name in ("last", "append"):
            seen: dict[str, list[float]] = {"small": [], "few": [], "any": []}
            for number in range(-1, rounds):  # the first warms up
                near = [order.randrange(few) for _ in range(calls)]
                places = {
                    "small": (little, near),
                    "few": (big, [n * (conversations // few) for n in near]),
                    "any": (big, [order.randrange(conversations) for _ in range(calls)]),
                }
                for where, (store, picked) in places.items():
                    took = await _timed(store, name, picked)
                    if number >= 0:
                        seen[where].append(quantile(took, 0.5))
            found[name] = {"small_ms": median(seen["small"]) * 1000}
            for where in ("few", "any"):
                ratios = [a / b for a, b in zip(seen[where], seen["small"], strict=True)]
                found[name][f"{where}_ms"] = median(seen[where]) * 1000
                found[name][f"{where}_growth"] = median(ratios)
    return found


async def _timed(store: stateward.Store, name: str, picked: list[int]) -> list[float]:
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
    async with stateward.open(url) as store:
        start = perf_counter()
        swept = await store.sweep(STEP)
        took = perf_counter() - start
        if swept.entities:
            raise SystemExit("a sweep removed what had not expired")
        return took * 1000


async def _sweep_all(place: Place, conversations: int) -> tuple[float, list[float]]:
    """All of the restored copy, long after its last message: seconds in all, and of each step."""
    steps, removed, more, begun = [], 0, True, perf_counter()
    async with Store(place.engine_later("copy", LATER), policy=PATIENT, spill=False) as store:
        while more:
            start = perf_counter()
            swept = await store.sweep(STEP)
            steps.append(perf_counter() - start)
            removed, more = removed + swept.entities, swept.more
    if removed < conversations:
        raise SystemExit(f"the sweep removed {removed:,} of {conversations:,} conversations")
    return perf_counter() - begun, steps
