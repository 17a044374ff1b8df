"""How much a turn takes, and what the store says of itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast.audit.history import Costs, Growing, Read
from holdfast.audit.stage import Stage, turn
from holdfast.audit.targets import Target

THREADS = 10


async def conduct(stage: Stage) -> tuple[Growing, Costs]:
    threads = stage.names("growing", THREADS)
    sized = "sizes" in stage.provides
    # A file is as large as it will be when the last one has closed it.
    await stage.fleet.rest()
    (first,) = await stage.fleet.start(fresh=True)
    await first.ask("growing:write", threads=threads, count=THREADS)
    await stage.fleet.end(first)
    (replica,) = await stage.fleet.start(fresh=True)
    before = await replica.ask("growing:describe") if sized else {}
    out = await replica.ask("growing:written")
    count = stage.sizes.growth_turns
    await replica.ask("growing:write", threads=threads, count=count, patience=300.0)
    written = await replica.ask("growing:written")
    memory = await replica.ask("growing:memory")
    await stage.fleet.end(replica)
    (last,) = await stage.fleet.start()
    after = await last.ask("growing:describe") if sized else {}
    await stage.fleet.end(last)
    settings = after.get("settings", {})
    told = settings.get("max_connections")
    return (
        Growing(count, before.get("bytes"), after.get("bytes"), after.get("capacity")),
        Costs(
            stage.sizes.replicas,
            None,
            None if told is None else int(told),
            memory,
            THREADS,
            # What goes through a socket is not counted by the system.
            None if out is None or not (written or 0) - out else (written - out) / count,
        ),
    )


async def settings(stage: Stage) -> Read:
    (replica,) = await stage.fleet.start()
    said = await replica.ask("growing:describe")
    await stage.fleet.end(replica)
    values = said.get("settings", {})
    blocked = [name for name, value in values.items() if value == "unknown"]
    return Read(
        said.get("engine", ""), said.get("version", ""), said.get("durability", ""), values, blocked
    )


async def describe(target: Target, tell: Any) -> Any:
    return await target.call("describe")


async def write(target: Target, tell: Any, threads: list[str], count: int) -> None:
    for first in range(0, count, len(threads)):
        for thread in threads:
            await target.append(thread, turn(f"{first}/{count}"), f"{first}/{count}")


async def written(target: Target, tell: Any) -> int | None:
    """Bytes that this process has handed to the system so far, where that is known."""
    return _written()


async def memory(target: Target, tell: Any) -> int | None:
    return _memory()


def _written() -> int | None:
    if not os.path.exists("/proc/self/io"):
        return None
    text = Path("/proc/self/io").read_text()
    fields = dict(line.split(": ") for line in text.splitlines())
    return int(fields["wchar"])


def _memory() -> int | None:
    if not os.path.exists("/proc/self/statm"):
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
