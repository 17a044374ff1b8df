"""Writes until the disk is full, goes on reading, and writes again when there is room.

python full_disk.py FOLDER COLOUR limit|disk|disk-before

limit: no file may grow (RLIMIT_FSIZE). disk: a real small disk, filled to the last byte by a file
beside the store. limit-before, disk-before: it is already full when the store is first used.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_disk
from talk import described, open_store, report, settled

from stateward import Policy

BIG = "x" * 500_000

folder, colour, fault = sys.argv[1:]
path = Path(folder, "agents.db")
sys.dont_write_bytecode = True  # a full disk would take only half of it


class SizeLimit:
    """The operating system refuses to let any file grow."""

    def __init__(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write, not our death
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        wal = Path(f"{path}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._before[1]))

    def relieve(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


class SmallDisk:
    """A disk of its own, filled by somebody else's file."""

    def __init__(self) -> None:
        small_disk.mount(folder, 4)
        self._other = Path(folder, "other")

    def fill(self) -> None:
        try:
            with self._other.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        except OSError:
            return

    def relieve(self) -> None:
        self._other.unlink()


async def outcome(call: Callable[[], Any]) -> dict[str, Any]:
    """What a call answers, or how it fails."""
    try:
        if colour == "sync":
            await asyncio.to_thread(call)
        else:
            await call()
    except Exception as error:
        return described(error)
    return {"error": None}


async def contents(store: Any) -> dict[str, Any]:
    """All that can be read."""
    threads = {}
    for name in ("t-1", *(f"big-{n}" for n in range(6))):
        window = await settled(store.thread(name, user="u-1").load())
        threads[name] = [message["n"] for message in window.messages]
        assert window.version == len(window.messages)
    return {"threads": threads, "user": (await settled(store.user("u-1").get())).value}


def add_one(value: dict[str, Any]) -> dict[str, Any]:
    return {"n": value.get("n", 0) + 1}


async def use(store: Any, count: int) -> None:
    for _ in range(count):
        await settled(store.thread("t-1", user="u-1").append({"n": 1}, {"n": 2}))
        await settled(store.user("u-1").update(add_one))


async def main() -> None:
    disk = SizeLimit() if fault.startswith("limit") else SmallDisk()
    store = open_store(colour, f"sqlite:///{path}", policy=Policy(threads="raise"))
    if fault.endswith("before"):
        disk.fill()
        refused = [await outcome(lambda: store.user("u-1").put({"n": 1}))]
        disk.relieve()
        await use(store, 3)
        report(refused=refused, after=await contents(store))
    else:
        await use(store, 3)
        before = await contents(store)
        disk.fill()
        thread = store.thread("t-1", user="u-1")
        refused = [
            # Until the little room inside the last page of the log is used up.
            await outcome(lambda: thread.append({"n": 3}, {"n": 4, "text": BIG})),
            await outcome(lambda: store.user("u-1").put({"n": -1, "text": BIG})),
        ]
        during = await contents(store)
        # Many at once: their batch is larger than the cache, so the disk is met before the commit.
        big = [store.thread(f"big-{n}", user="u-1") for n in range(6)]
        turn = [{"n": n, "text": BIG} for n in range(16)]
        crowd = await asyncio.gather(*(outcome(lambda t=t: t.append(*turn)) for t in big))
        after_crowd = await contents(store)
        disk.relieve()
        await use(store, 3)
        report(
            refused=refused,
            crowd=crowd,
            before=before,
            during=during,
            after_crowd=after_crowd,
            after=await contents(store),
        )
    await settled(store.close())
    if fault.startswith("disk"):
        import apsw

        connection = apsw.Connection(str(path))
        assert connection.pragma("integrity_check") == "ok"
        connection.close()


asyncio.run(main())
