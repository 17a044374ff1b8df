"""How much a turn takes, and what the store says of itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stateward.audit.record import Costs, Growing, Read
from stateward.audit.replicas.fleet import Replica
from stateward.audit.stage import Stage, varied_turn
from stateward.audit.targets import Target

THREADS = 10
FEWEST = 20  # turns that show what one takes
LEAST = 100  # bytes that a turn has, at the least
AT_ONCE = 100  # messages a call, when a history is made


async def conduct(stage: Stage) -> tuple[Growing, Costs]:
    threads, (one,) = stage.names("growing", THREADS), stage.names("grown", 1)
    long = max(stage.sizes.history)
    sized = "sizes" in stage.provides
    await stage.fleet.rest()
    (replica,) = await stage.fleet.start(fresh=True)
    await replica.ask("growth:write", threads=threads, count=THREADS)
    await replica.ask("growth:lengthen", thread=one, messages=long, patience=300.0)
    replica, before = await _measured(stage, replica, sized)
    out = await replica.ask("growth:written")
    count = stage.sizes.growth_turns
    await replica.ask("growth:write", threads=threads, count=count, patience=300.0)
    written = await replica.ask("growth:written")
    memory = await replica.ask("growth:memory")
    replica, after = await _measured(stage, replica, sized)
    more = max(FEWEST, count // 3)
    await replica.ask("growth:write", threads=[one], count=more, patience=300.0)
    replica, at_last = await _measured(stage, replica, sized)
    await stage.fleet.end(replica)
    settings = after.get("settings", {})
    told = settings.get("max_connections")
    return (
        Growing(
            count,
            before.get("bytes"),
            after.get("bytes"),
            after.get("capacity"),
            usual=count // THREADS,
            long=long,
            long_turns=more,
            bytes_long=at_last.get("bytes"),
        ),
        Costs(
            stage.sizes.replicas,
            None,
            None if told is None else int(told),
            memory,
            THREADS,
            _a_turn(out, written, count),
        ),
    )


def _a_turn(before: int | None, after: int | None, turns: int) -> float | None:
    """Bytes written a turn; the system does not count what goes through a socket."""
    if before is None or after is None:
        return None
    each = (after - before) / turns
    return None if each < LEAST else each  # such few are wake-ups of an event loop


async def _measured(stage: Stage, replica: Replica, sized: bool) -> tuple[Replica, dict[str, Any]]:
    """What the store says, and a replica to go on with."""
    if not sized:
        return replica, {}
    said: dict[str, Any] = await replica.ask("growth:describe")
    if "journal_mode" not in said.get("settings", {}):
        return replica, said
    # A file is as large as it will be when the last one has closed it.
    await stage.fleet.end(replica)
    (another,) = await stage.fleet.start(fresh=True)
    return another, await another.ask("growth:describe")


async def settings(stage: Stage) -> Read:
    (replica,) = await stage.fleet.start()
    said = await replica.ask("growth:describe")
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
            name = f"{first}/{count}"
            await target.append(thread, varied_turn(f"{thread}/{name}"), name)


async def lengthen(target: Target, tell: Any, thread: str, messages: int) -> None:
    for first in range(0, messages, AT_ONCE):
        count = min(AT_ONCE, messages - first)
        given = [m for n in range(first, first + count, 2) for m in varied_turn(f"{n}")]
        await target.append(thread, given, f"long/{first}")


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
