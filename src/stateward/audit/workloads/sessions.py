"""Turns written in one process, read in a new one after the first was killed."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Sessions
from stateward.audit.stage import Stage, turn
from stateward.audit.targets import Target


async def conduct(stage: Stage) -> Sessions:
    threads = stage.names("session", stage.sizes.threads)
    (writer,) = await stage.fleet.start(fresh=True)
    written = await writer.ask("sessions:write", threads=threads, turns=stage.sizes.turns)
    await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    read = await reader.ask("sessions:read", threads=threads)
    await stage.fleet.end(reader)
    return Sessions(written, read)


async def write(target: Target, tell: Any, threads: list[str], turns: int) -> dict[str, list[str]]:
    written: dict[str, list[str]] = {}
    for number in range(turns):
        for thread in threads:
            name = f"{thread}/{number}"
            await target.append(thread, turn(name), name)
            written.setdefault(thread, []).extend([name, name])
    return written


async def read(target: Target, tell: Any, threads: list[str]) -> dict[str, list[str]]:
    return {
        thread: [str(m.get("content")) for m in await target.load(thread)] for thread in threads
    }
