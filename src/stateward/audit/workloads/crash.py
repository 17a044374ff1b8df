"""The server is killed and started again while a replica continues appending as fast as it can."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.record import Outage, Tried
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.calls import (
    HUNG,
    append,
    call_report,
    limited,
    read,
    settled,
    stored_afterwards,
    wait_for_recovery,
    without_elsewhere,
)
from stateward.audit.workloads.workload import Crash, Stage

ROUNDS = 2
BEFORE = 100  # turns acknowledged before each of them
TOLD = 10  # turns between two reports
EVERY = 0.1  # seconds between two reads, and before a turn that follows a failure


async def conduct(stage: Stage, crash: Crash) -> Outage:
    stage.say(crash.label)
    origin = time.monotonic()
    (thread,) = stage.names("crash", 1)
    (replica,) = await stage.fleet.start(fresh=True)
    going = replica.send("crash:go_on", thread=thread, origin=origin)
    spans: list[float] = []
    recovery: float | None = 0.0
    for _ in range(ROUNDS):
        await _acknowledged(replica, BEFORE)
        struck = time.monotonic()
        spans.append(struck - origin)
        await crash.strike()
        if await wait_for_recovery(stage, replica, thread) is None:
            recovery = None
            break
        recovery = max(recovery or 0.0, time.monotonic() - struck)
        if not crash.fired:
            break
    end = time.monotonic() - origin
    await replica.ask("crash:stop", thread=thread)
    report = await asyncio.wait_for(going, HUNG + 10.0)
    tried = [Tried(**without_elsewhere(each)) for each in report["tried"]]
    await settled(stage, replica, thread, report["kept"])
    ((contents, _, why),) = await stored_afterwards(stage, [thread])
    return Outage(
        crash.label,
        crash.fired,
        round(spans[0], 2),
        round(end, 2),
        tried,
        report["accepted"],
        contents,
        recovery,
        report["hung"],
        len(spans),
        why,
        in_turn=report["in_turn"],
    )


async def _acknowledged(replica: Replica, count: int) -> None:
    """Wait until the replica has stored this many more turns."""
    before = _stored(replica.events)
    await replica.until(lambda events: _stored(events) >= before + count)


def _stored(events: list[dict[str, Any]]) -> int:
    return max((each["stored"] for each in events if "stored" in each), default=0)


# --- in a replica -----------------------------------------------------------------------

STOPPED: set[str] = set()  # threads


async def go_on(memory: Memory, tell: Any, thread: str, origin: float) -> dict[str, Any]:
    """Append one turn after the other, and read now and then, until the call to stop."""
    tried: list[dict[str, Any]] = []
    accepted: list[str] = []
    reading = asyncio.create_task(_read_on(memory, thread, tried, origin))
    stored = number = 0
    while thread not in STOPPED:
        turn = append(memory, thread, f"turn/{number}", accepted, origin)
        number += 1
        (entry,) = await limited(turn)
        tried.append(entry)
        if entry["outcome"] != "stored":
            await asyncio.sleep(EVERY)
            continue
        stored += 1
        if stored % TOLD == 0:
            tell(stored=stored)
    await reading
    return call_report(tried, accepted)


async def _read_on(memory: Memory, thread: str, tried: list[dict[str, Any]], origin: float) -> None:
    while thread not in STOPPED:
        stored = sum(each["outcome"] == "stored" for each in tried)
        tried += await limited(read(memory, thread, stored, origin))
        await asyncio.sleep(EVERY)


async def stop(memory: Memory, tell: Any, thread: str) -> None:
    STOPPED.add(thread)
