"""racer URL NAME LOG: changes one document when told, between reading and writing as told.

`change TRACEPARENT`: says "read" when it has read, and writes after the next line.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import stateward
from stateward.observe.logs import JsonFormatter


async def main(url: str, name: str, log: str) -> None:
    handler = logging.FileHandler(log)
    handler.setFormatter(JsonFormatter(replica=name))
    logging.getLogger("stateward").addHandler(handler)
    logging.getLogger("stateward").setLevel(logging.DEBUG)
    async with stateward.open(url, spill=False) as store:
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            with stateward.correlate(traceparent=line.partition(" ")[2]):
                await change(store, name)
            print("done", flush=True)
    handler.close()


async def change(store: stateward.Store, name: str) -> None:
    waited = False

    async def visit(value: dict[str, Any]) -> dict[str, Any]:
        nonlocal waited
        if not waited:
            waited = True
            print("read", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        return value | {name: "a secret preference"}

    await store.user("u-42").update(visit)


asyncio.run(main(*sys.argv[1:]))
