"""A backup while replicas write, restored into a clean place and compared."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.record import Drill
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.workload import Stage, Workload

THREADS = 5
BEFORE = 60  # turns that must be there when the backup begins


async def conduct(stage: Stage) -> None:
    procedure = stage.backup()
    if procedure is None:
        return
    threads, users = stage.names("drill", THREADS), stage.names("drill-user", 5)
    (writer,) = await stage.fleet.start(fresh=True)
    with_users = stage.provides("users")
    await writer.ask("drill:set_users", users=users if with_users else [])
    writing = writer.send("drill:write", threads=threads)
    await writer.until(lambda events: len(events) >= BEFORE)
    before = len(writer.events)
    started = time.monotonic()
    moment = await asyncio.to_thread(procedure.save)
    took = time.monotonic() - started
    await writer.ask("drill:stop")
    await asyncio.wait_for(writing, 30.0)
    written: dict[str, list[int]] = {thread: [] for thread in threads}
    for event in writer.events:
        written[event["thread"]].append(event["number"])
    kept = await writer.ask("drill:users", users=users) if with_users else {}
    await stage.fleet.end(writer)
    started = time.monotonic()
    changed = await asyncio.to_thread(procedure.put_back)
    (reader,) = await stage.fleet.start(**changed)
    restored = await reader.ask("drill:numbers", threads=threads)
    restoring = time.monotonic() - started
    there = await reader.ask("drill:users", users=users) if with_users else {}
    await stage.fleet.end(reader)
    same = there == kept
    stage.record.drill = Drill(
        before, restored, written, same, took, restoring, moment, procedure.by
    )


WORKLOAD = Workload("backup", "threads", "backing up under load, restoring elsewhere", conduct)


# --- in a replica -----------------------------------------------------------------------

_stopped = asyncio.Event()


async def stop(memory: Memory, tell: Any) -> None:
    _stopped.set()


async def write(memory: Memory, tell: Any, threads: list[str]) -> None:
    """One turn after the other: at any moment a whole beginning of them is there."""
    number = 0
    while not _stopped.is_set():
        thread = threads[number % len(threads)]
        await memory.append(thread, [message("user", str(number), number=number)], f"n/{number}")
        tell(thread=thread, number=number)
        number += 1
        await asyncio.sleep(0.001)


async def numbers(memory: Memory, tell: Any, threads: list[str]) -> dict[str, list[int]]:
    return {thread: [int(m["number"]) for m in await memory.load(thread)] for thread in threads}


async def set_users(memory: Memory, tell: Any, users: list[str]) -> None:
    for number, user in enumerate(users):
        await memory.put_user(user, {"number": number})


async def users(memory: Memory, tell: Any, users: list[str]) -> dict[str, Any]:
    return {user: (await memory.get_user(user))[0] for user in users}
