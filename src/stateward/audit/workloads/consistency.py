"""Replicas append to lists and read them whole: what the checker of consistency needs."""

from __future__ import annotations

import random
import time
from typing import Any

from stateward.audit.record import Step
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.workload import Stage, Workload, until

LISTS = 8


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    threads, count = stage.names("list", LISTS), stage.sizes.steps
    seed = stage.record.seed
    walks = await stage.at_once(
        replicas, "consistency:walk", threads=threads, count=count, seed=seed, patience=300.0
    )
    (reader,) = await stage.fleet.start()
    last = await reader.ask("consistency:read_all", threads=threads, who=len(replicas))
    await stage.fleet.end(reader, *replicas)
    stage.record.steps = [Step(*step) for steps in (*walks, last) for step in steps]


WORKLOAD = Workload("consistency", "threads", "recording a history for the checker", conduct)


# --- in a replica -----------------------------------------------------------------------


async def walk(
    memory: Memory, tell: Any, threads: list[str], who: int, count: int, seed: int, begin: float
) -> list[tuple[Any, ...]]:
    chance = random.Random(seed + who)
    steps: list[tuple[Any, ...]] = []
    await until(begin)
    for number in range(count):
        thread = chance.choice(threads)
        if chance.random() < 0.4:
            steps.append(await _append(memory, who, thread, f"{who}.{number}"))
        else:
            steps.append(await _read(memory, who, thread))
    return steps


async def read_all(
    memory: Memory, tell: Any, threads: list[str], who: int
) -> list[tuple[Any, ...]]:
    return [await _read(memory, who, thread) for thread in threads]


async def _append(memory: Memory, who: int, thread: str, value: str) -> tuple[Any, ...]:
    invoked = time.monotonic()
    try:
        outcome = await memory.append(thread, [message("user", value)], value)
    except Exception:
        outcome = "unknown"
    status = "ok" if outcome == "stored" else "unknown"
    return who, invoked, time.monotonic(), status, "append", thread, [value]


async def _read(memory: Memory, who: int, thread: str) -> tuple[Any, ...]:
    invoked = time.monotonic()
    try:
        values = contents(await memory.load(thread))
        status = "ok"
    except Exception:
        values, status = [], "fail"
    return who, invoked, time.monotonic(), status, "read", thread, values
