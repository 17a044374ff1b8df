"""Stores the turns that it is told to, many at a time, and says what became of each.

python worker.py URL DIRECTORY COLOUR; then lines "THREAD NUMBER", each answered by
"THREAD NUMBER STATUS".
"""

from __future__ import annotations

import asyncio
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import stateward
import stateward.sync

url, directory, colour = sys.argv[1:]
options: dict[str, Any] = {
    "policy": stateward.Policy(read_timeout=0.5, write_timeout=0.8, breaker_seconds=0.3),
    "spill": directory,
}
logging.disable()


def turn(thread: str, n: str) -> tuple[dict[str, Any], ...]:
    return {"role": "user", "n": int(n)}, {"role": "assistant", "n": int(n)}


async def main() -> None:
    async def serve(thread: str, n: str) -> None:
        appended = await store.thread(thread).append(*turn(thread, n), key=n, repeat="first")
        print(thread, n, appended.status, flush=True)

    async with stateward.open(url, **options) as store, asyncio.TaskGroup() as group:
        while line := await asyncio.to_thread(sys.stdin.readline):
            group.create_task(serve(*line.split()))


def main_blocking() -> None:
    def serve(thread: str, n: str) -> None:
        appended = store.thread(thread).append(*turn(thread, n), key=n, repeat="first")
        sys.stdout.write(f"{thread} {n} {appended.status}\n")
        sys.stdout.flush()

    with stateward.sync.open(url, **options) as store, ThreadPoolExecutor(16) as pool:
        done = [pool.submit(serve, *line.split()) for line in sys.stdin]
        for each in done:
            each.result()


if colour == "sync":
    main_blocking()
else:
    asyncio.run(main())
