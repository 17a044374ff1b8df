"""Times of appends and lookups while a conversation grows, and while the store does."""

from __future__ import annotations

import random
import time
from typing import Any

from stateward.audit.record import CostBySize
from stateward.audit.targets.memory import Memory, Stopwatch
from stateward.audit.workloads.load import LAST
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import within
from stateward.audit.workloads.workload import Stage, Workload

AT_ONCE = 100  # messages an append, when a conversation is made
BULK = 50  # and when the store is filled, each to its own conversation
WARMING = 10  # calls that are not measured
LOOKS = 25  # measurements of each call at each size
FILLING = 8.0  # seconds for each of both, at most: a slow memory is filled with less


async def conduct(stage: Stage) -> None:
    (replica,) = await stage.fleet.start()
    threads = stage.names("slow", len(stage.sizes.curve))
    costs = await replica.ask(
        "slowdown:by_length",
        threads=threads,
        lengths=list(stage.sizes.curve),
        seed=stage.record.seed,
        patience=300.0,
    )
    (few,) = stage.names("filled", 1)
    stage.say("filling the store")
    costs += await replica.ask(
        "slowdown:by_store",
        few=few,
        users=stage.provides("users"),
        fillings=stage.sizes.fillings,
        filling=stage.sizes.filling,
        patience=300.0,
    )
    await stage.fleet.end(replica)
    stage.record.costs_by_size = [CostBySize(**each) for each in costs]


WORKLOAD = Workload("slowdown", "threads", "timing calls while the store grows", conduct)


# --- in a replica -----------------------------------------------------------------------


def _messages(name: str, count: int) -> list[dict[str, Any]]:
    chance = random.Random(name)
    return [
        message("user", f"{name}/{number}", text=f"{chance.getrandbits(800):x}")
        for number in range(count)
    ]


async def by_length(
    memory: Memory, tell: Any, threads: list[str], lengths: list[int], seed: int
) -> list[dict[str, Any]]:
    """Time all lengths in turn, so that other work on the machine affects all of them alike."""
    counts, end = [], time.monotonic() + FILLING
    for thread, length in zip(threads, lengths, strict=True):
        made = 0
        while made < length and (time.monotonic() < end or not made):
            count = min(AT_ONCE, length - made)
            await within(memory.append(thread, _messages(f"{made}", count), f"slow/{made}"))
            made += count
        counts.append(made)
    took: dict[str, list[list[float]]] = {
        "append": [[] for _ in threads],
        "load": [[] for _ in threads],
    }
    chance = random.Random(seed)
    for number in range(LOOKS):
        for place in chance.sample(range(len(threads)), len(threads)):
            await _measured(memory, took, place, threads[place], f"look/{number}")
    return [
        {"call": call, "of": "the conversation", "sizes": counts, "took": times}
        for call, times in took.items()
    ]


async def _measured(
    memory: Memory, took: dict[str, list[list[float]]], place: int, thread: str, name: str
) -> None:
    with Stopwatch() as load:
        await memory.load(thread, LAST)
    with Stopwatch() as append:
        await memory.append(thread, _messages(name, 1), name)
    took["load"][place].append(load.seconds * 1000)
    took["append"][place].append(append.seconds * 1000)


async def by_store(
    memory: Memory, tell: Any, few: str, users: bool, fillings: int, filling: int
) -> list[dict[str, Any]]:
    """Time a conversation that stays short while all others grow."""
    await within(memory.append(few, _messages("few", LAST), "few"))
    took: dict[str, list[list[float]]] = {"append": [], "load": []}
    if users:
        took["get_user"] = []
        await within(memory.put_user(few, {"name": few}))
    for number in range(WARMING):
        await _measured(memory, {"append": [[]], "load": [[]]}, 0, few, f"warm/{number}")
    sizes, made = [], 0
    for step in range(fillings + 1):
        for each in took.values():
            each.append([])
        for number in range(LOOKS):
            await _measured(memory, took, step, few, f"step {step}/{number}")
            if users:
                with Stopwatch() as watch:
                    await memory.get_user(few)
                took["get_user"][step].append(watch.seconds * 1000)
        sizes.append(made)
        goal, end = (step + 1) * filling, time.monotonic() + FILLING / fillings
        while step < fillings and made < goal and time.monotonic() < end:
            thread = f"{few}-{made // BULK}"
            await within(memory.append(thread, _messages(f"{made}", BULK), f"fill/{made}"), 60.0)
            if users:
                await within(memory.put_user(thread, {"name": thread, "text": "x" * 200}))
            made += BULK
    return [
        {"call": call, "of": "the store", "sizes": sizes, "took": times}
        for call, times in took.items()
    ]
