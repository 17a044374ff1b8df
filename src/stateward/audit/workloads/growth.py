"""Growth: the room that a turn takes in the store, and the memory that a replica takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stateward.audit.record import Costs, Growing
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import varied_turn
from stateward.audit.workloads.workload import Stage, Workload

THREADS = 10
FEWEST = 20  # turns that show what one takes
LEAST = 100  # bytes that a turn has, at the least
AT_ONCE = 100  # messages a call, when a history is made
UPDATES = 200  # of one user's state
MORE_UPDATES = 600  # if it has grown by then, it may be a history that has an end
DOCUMENT = 1000  # bytes that it has, whatever is changed in it


async def conduct(stage: Stage) -> None:
    threads, (one,) = stage.names("growing", THREADS), stage.names("grown", 1)
    long = max(stage.sizes.history)
    await stage.fleet.rest()
    (replica,) = await stage.fleet.start(fresh=True)
    await replica.ask("growth:write", threads=threads, count=THREADS)
    await replica.ask("growth:lengthen", thread=one, messages=long, patience=300.0)
    replica, before = await _measured(stage, replica)
    out = await replica.ask("growth:written")
    count = stage.sizes.growth_turns
    await replica.ask("growth:write", threads=threads, count=count, patience=300.0)
    written = await replica.ask("growth:written")
    resident = await replica.ask("growth:resident")
    replica, after = await _measured(stage, replica)
    more = max(FEWEST, count // 3)
    await replica.ask("growth:write", threads=[one], count=more, patience=300.0)
    replica, at_last = await _measured(stage, replica)
    updated: dict[str, Any] = {}
    at_the_end: dict[str, Any] = {}
    if stage.provides("users"):
        await replica.ask("growth:update", user=one, count=UPDATES, patience=300.0)
        replica, updated = await _measured(stage, replica)
        if (updated.get("bytes") or 0) - (at_last.get("bytes") or 0) > UPDATES * DOCUMENT // 2:
            await replica.ask("growth:update", user=one, count=MORE_UPDATES, patience=300.0)
            replica, at_the_end = await _measured(stage, replica)
    await stage.fleet.end(replica)
    most = after.get("settings", {}).get("max_connections")
    stage.record.growing = Growing(
        count,
        before.get("bytes"),
        after.get("bytes"),
        after.get("capacity"),
        usual=count // THREADS,
        long=long,
        long_turns=more,
        bytes_long=at_last.get("bytes"),
        updates=UPDATES,
        document=DOCUMENT,
        bytes_updated=updated.get("bytes"),
        more_updates=MORE_UPDATES if at_the_end else 0,
        bytes_more=at_the_end.get("bytes"),
    )
    stage.record.costs = Costs(
        stage.sizes.replicas,
        None if most is None else stage.pool,
        None if most is None else int(most),
        resident,
        THREADS,
        _a_turn(out, written, count),
    )


def _a_turn(before: int | None, after: int | None, turns: int) -> float | None:
    """Bytes written a turn; the system does not count what goes through a socket."""
    if before is None or after is None:
        return None
    each = (after - before) / turns
    return None if each < LEAST else each  # such few are wake-ups of an event loop


async def _measured(stage: Stage, replica: Replica) -> tuple[Replica, dict[str, Any]]:
    """Return a replica to continue with, and the store's description of itself."""
    if not stage.provides("sizes"):
        return replica, {}
    described: dict[str, Any] = await replica.call("describe")
    if "journal_mode" not in described.get("settings", {}):
        return replica, described
    # A file is as large as it will be when the last one has closed it.
    await stage.fleet.end(replica)
    (another,) = await stage.fleet.start(fresh=True)
    return another, await another.call("describe")


WORKLOAD = Workload("growth", "threads", "measuring growth", conduct, unwatched=True)


# --- in a replica -----------------------------------------------------------------------


async def write(memory: Memory, tell: Any, threads: list[str], count: int) -> None:
    for first in range(0, count, len(threads)):
        for thread in threads:
            name = f"{first}/{count}"
            await memory.append(thread, varied_turn(f"{thread}/{name}"), name)


async def lengthen(memory: Memory, tell: Any, thread: str, messages: int) -> None:
    for first in range(0, messages, AT_ONCE):
        count = min(AT_ONCE, messages - first)
        turns = [m for n in range(first, first + count, 2) for m in varied_turn(f"{n}")]
        await memory.append(thread, turns, f"long/{first}")


async def update(memory: Memory, tell: Any, user: str, count: int) -> None:
    """Update a user's state this many times without changing its size."""
    for number in range(count):
        value = {"number": number % 10, "text": f"{number:04}" * (DOCUMENT // 4)}
        await memory.call("update_user", user, lambda _, value=value: value)


async def written(memory: Memory, tell: Any) -> int | None:
    """Bytes that this process has handed to the system so far, where that is known."""
    counters = _told_of_itself("io")
    if counters is None:
        return None
    return int(dict(line.split(": ") for line in counters.splitlines())["wchar"])


async def resident(memory: Memory, tell: Any) -> int | None:
    """Bytes of memory that this process takes, where that is known."""
    counters = _told_of_itself("statm")
    return None if counters is None else int(counters.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _told_of_itself(name: str) -> str | None:
    path = Path("/proc/self") / name
    return path.read_text() if path.exists() else None
