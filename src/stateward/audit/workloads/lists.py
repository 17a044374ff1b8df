"""Replicas append to lists and read them whole: what the checker of consistency needs."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from stateward.audit.record import Step
from stateward.audit.stage import Stage, message
from stateward.audit.targets import Target

LISTS = 8


async def conduct(stage: Stage) -> list[Step]:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    threads = stage.names("list", LISTS)
    begin = time.monotonic() + 0.2
    said = await asyncio.gather(
        *(
            replica.ask(
                "lists:walk",
                threads=threads,
                who=number,
                count=stage.sizes.steps,
                seed=stage.seed + number,
                begin=begin,
                patience=300.0,
            )
            for number, replica in enumerate(replicas)
        )
    )
    (reader,) = await stage.fleet.start()
    last = await reader.ask("lists:read_all", threads=threads, who=len(replicas))
    await stage.fleet.end(reader, *replicas)
    return [Step(*step) for steps in (*said, last) for step in steps]


async def walk(
    target: Target, tell: Any, threads: list[str], who: int, count: int, seed: int, begin: float
) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    steps: list[tuple[Any, ...]] = []
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    for number in range(count):
        thread = chance.choice(threads)
        if chance.random() < 0.4:
            steps.append(await _append(target, who, thread, f"{who}.{number}"))
        else:
            steps.append(await _read(target, who, thread))
    return steps


async def read_all(
    target: Target, tell: Any, threads: list[str], who: int
) -> list[tuple[Any, ...]]:
    return [await _read(target, who, thread) for thread in threads]


async def _append(target: Target, who: int, thread: str, value: str) -> tuple[Any, ...]:
    invoked = time.monotonic()
    try:
        said = await target.append(thread, [message("user", value)], value)
    except Exception:
        said = "unknown"
    status = "ok" if said == "stored" else "unknown"
    return who, invoked, time.monotonic(), status, "append", thread, [value]


async def _read(target: Target, who: int, thread: str) -> tuple[Any, ...]:
    invoked = time.monotonic()
    try:
        values = [str(m.get("content")) for m in await target.load(thread)]
        status = "ok"
    except Exception:
        values, status = [], "fail"
    return who, invoked, time.monotonic(), status, "read", thread, values
