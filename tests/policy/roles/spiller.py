"""Appends to a store that does not answer until its spill is full, then waits to be killed.

python spiller.py URL DIRECTORY COLOUR MAX_BYTES
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import stateward
import stateward.sync

url, directory, colour, most = sys.argv[1:]
options: dict[str, Any] = {
    "policy": stateward.Policy(read_timeout=0.2, write_timeout=0.2, breaker_seconds=30.0),
    "spill": stateward.Spill(directory, max_bytes=int(most)),
}
logging.disable()


def turn(n: int) -> dict[str, Any]:
    return {"role": "user", "n": n, "text": "x" * 100}


async def main() -> None:
    store = stateward.open(url, **options)
    n, status = 0, "spilled"
    while status == "spilled":
        status = (await store.thread(f"s-{n % 3}", user="u-1").append(turn(n))).status
        n += 1
    print(n - 1, flush=True)
    await asyncio.Event().wait()


def main_blocking() -> None:
    store = stateward.sync.open(url, **options)
    n, status = 0, "spilled"
    while status == "spilled":
        status = store.thread(f"s-{n % 3}", user="u-1").append(turn(n)).status
        n += 1
    print(n - 1, flush=True)
    sys.stdin.readline()


if colour == "sync":
    main_blocking()
else:
    asyncio.run(main())
