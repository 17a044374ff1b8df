"""Turns written in one process, read in a new one after the first was killed."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Sessions
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, turn
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    threads = stage.names("session", stage.sizes.threads)
    (writer,) = await stage.fleet.start(fresh=True)
    written = await writer.ask("sessions:write", threads=threads, turns=stage.sizes.turns)
    await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    read = await reader.ask("sessions:read", threads=threads)
    await stage.fleet.end(reader)
    stage.record.sessions = Sessions(written, read)


WORKLOAD = Workload(
    "sessions", "threads", "killing a process, then reading its conversations", conduct
)


# --- in a replica -----------------------------------------------------------------------


async def write(memory: Memory, tell: Any, threads: list[str], turns: int) -> dict[str, list[str]]:
    written: dict[str, list[str]] = {}
    for number in range(turns):
        for thread in threads:
            name = f"{thread}/{number}"
            await memory.append(thread, turn(name), name)
            written.setdefault(thread, []).extend([name, name])
    return written


async def read(memory: Memory, tell: Any, threads: list[str]) -> dict[str, list[str]]:
    return {thread: await contents(memory, thread) for thread in threads}
