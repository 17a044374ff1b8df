"""A backup while replicas write, restored into a clean place and compared."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.record import Drill
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.erasure import look_in_backup
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.workload import Stage, Workload

THREADS = 5
BEFORE = 60  # turns that must be there when the backup begins
RESTING = 3  # conversations that no one writes to in the meantime: all of them must be there
TURNS = 4  # in each of these

WHY_NONE = (
    "give the memory backup() and restore(), or pass --backup-command and --restore-command, and "
    "a backup is made and restored"
)


async def conduct(stage: Stage) -> None:
    procedure = stage.backup()
    if procedure is None:
        stage.record.notes["backup"] = WHY_NONE
        return
    threads, resting = stage.names("drill", THREADS), stage.names("drill-rest", RESTING)
    users = stage.names("drill-user", 5) if stage.provides("users") else []
    (writer,) = await stage.fleet.start(fresh=True)
    for number, user in enumerate(users):
        await writer.call("put_user", user, {"number": number})
    await writer.ask("backup:write_all", threads=resting, count=RESTING * TURNS)
    writing = writer.send("backup:write", threads=threads, first=RESTING * TURNS)
    await writer.until(lambda events: len(events) >= BEFORE)
    before = len(writer.events)
    started = time.monotonic()
    moment = await asyncio.to_thread(procedure.save)
    took = time.monotonic() - started
    await writer.ask("backup:stop")
    await asyncio.wait_for(writing, 30.0)
    threads += resting
    written: dict[str, list[int]] = {thread: [] for thread in threads}
    for event in writer.events:
        written[event["thread"]].append(event["number"])
    values = await _values(writer, users)
    await stage.fleet.end(writer)
    started = time.monotonic()
    changed = await asyncio.to_thread(procedure.put_back)
    (reader,) = await stage.fleet.start(**changed)
    restored = {
        thread: [int(each["number"]) for each in await reader.call("load", thread)]
        for thread in threads
    }
    restoring = time.monotonic() - started
    there = await _values(reader, users)
    await look_in_backup(stage, reader)
    await stage.fleet.end(reader)
    same = there == values
    stage.record.drill = Drill(
        before, restored, written, same, took, restoring, moment, procedure.by
    )


async def _values(replica: Replica, users: list[str]) -> list[Any]:
    return [(await replica.call("get_user", user))[0] for user in users]


WORKLOAD = Workload("backup", "threads", "backing up under load, restoring elsewhere", conduct)


# --- in a replica -----------------------------------------------------------------------

_stopped = asyncio.Event()


async def stop(memory: Memory, tell: Any) -> None:
    _stopped.set()


async def write(memory: Memory, tell: Any, threads: list[str], first: int) -> None:
    """Write one turn after the other, so that a restored copy must hold an unbroken beginning."""
    number = first
    while not _stopped.is_set():
        await _one(memory, tell, threads[number % len(threads)], number)
        number += 1
        await asyncio.sleep(0.001)


async def write_all(memory: Memory, tell: Any, threads: list[str], count: int) -> None:
    for number in range(count):
        await _one(memory, tell, threads[number % len(threads)], number)


async def _one(memory: Memory, tell: Any, thread: str, number: int) -> None:
    await memory.append(thread, [message("user", str(number), number=number)], f"n/{number}")
    tell(thread=thread, number=number)
