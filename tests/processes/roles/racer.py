"""One of several processes that do the same thing to one file at the same time.

python racer.py URL COLOUR JOB WHO COUNT
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from talk import open_store, ready, report, settled


def turn(who: int, number: int) -> list[dict[str, Any]]:
    return [{"who": who, "turn": number, "part": part} for part in (1, 2)]


async def update(store: Any, who: int, count: int, **options: Any) -> dict[str, Any]:
    """Add one to the same number as everybody else."""
    user = store.user("u-1")
    tries = 0

    def add_one(value: dict[str, Any]) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        return {"n": value.get("n", 0) + 1}

    versions = [(await settled(user.update(add_one, **options))).version for _ in range(count)]
    return {"versions": versions, "tries": tries}


async def update_patiently(store: Any, who: int, count: int) -> dict[str, Any]:
    """As `update`, for a race that lasts longer than an update waits by default."""
    return await update(store, who, count, within=60.0)


async def append(store: Any, who: int, count: int) -> dict[str, Any]:
    """Append turns to the same thread as everybody else."""
    thread = store.thread("common", user="u-1")
    appended = [await settled(thread.append(*turn(who, number))) for number in range(count)]
    return {"versions": [a.version for a in appended], "statuses": [a.status for a in appended]}


async def append_own(store: Any, who: int, count: int) -> dict[str, Any]:
    """Append turns to a thread of one's own, and note how long each took.

    The same to a file that nobody else uses, in turns: how long it takes on this machine, now.
    """
    url, colour = sys.argv[1:3]
    alone = open_store(colour, f"{url}-{who}")
    threads = [each.thread(f"own-{who}", user="u-1") for each in (store, alone)]
    seconds: list[list[float]] = [[], []]
    for number in range(count):
        for thread, took in zip(threads, seconds, strict=True):
            begun = time.perf_counter()
            await settled(thread.append(*turn(who, number)))
            took.append(time.perf_counter() - begun)
    await settled(alone.close())
    return {"seconds": seconds[0], "alone": seconds[1]}


async def same_key(store: Any, who: int, count: int) -> dict[str, Any]:
    """Deliver the same turns, under the same keys, as everybody else."""
    thread = store.thread("common", user="u-1")
    appended = [
        await settled(thread.append(*turn(0, number), key=f"turn-{number}"))
        for number in range(count)
    ]
    return {"versions": [a.version for a in appended], "statuses": [a.status for a in appended]}


JOBS: dict[str, Callable[[Any, int, int], Coroutine[Any, Any, dict[str, Any]]]] = {
    "update": update,
    "update_patiently": update_patiently,
    "append": append,
    "append_own": append_own,
    "same_key": same_key,
}


async def main(url: str, colour: str, job: str, who: str, count: str) -> None:
    store = open_store(colour, url)
    await settled(store.health())  # opened before it counts: how that races has its own test
    ready()
    done = await JOBS[job](store, int(who), int(count))
    await settled(store.close())
    report(**done)


asyncio.run(main(*sys.argv[1:]))
