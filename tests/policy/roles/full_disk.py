"""Appends to a SQLite file whose disk takes no more, then finds room; says what became of it.

python full_disk.py FOLDER
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import signal
import sys
from pathlib import Path

import stateward

folder = Path(sys.argv[1])
logging.disable()
sys.dont_write_bytecode = True  # a full disk would take only half of it


def wal_size() -> int:
    return Path(f"{folder}/agents.db-wal").stat().st_size


async def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write, not our death
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with stateward.open(f"sqlite:///{folder}/agents.db", spill=folder / "spill") as store:
        thread = store.thread("s-1")
        for n in range(40):
            await thread.append({"n": n, "text": "x" * 5000})
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal_size(), before[1]))
        turn = {"n": 40, "text": "x" * 100_000}
        statuses = [(await thread.append(turn)).status]
        read = (await store.thread("another").load()).exists  # reads go on
        breaker = store.breaker
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        statuses.append((await thread.append({"n": 41})).status)
        numbers = [message["n"] for message in (await thread.load()).messages]
        print(json.dumps({"statuses": statuses, "read": read, "breaker": breaker, "n": numbers}))


asyncio.run(main())
