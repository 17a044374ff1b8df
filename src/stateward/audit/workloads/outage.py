"""The store is killed, cut off, frozen, slowed, refused or full while a replica goes on asking."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.record import Outage, Tried
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import crash
from stateward.audit.workloads.calls import HUNG, append, found, read, told
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.workload import Disturbance, Stage, Workload

KNOWN = 5  # turns that are there before


async def conduct(stage: Stage) -> None:
    """Whatever can be done to the target's storage."""
    met, disturbances = [], stage.disturbances
    killing = await disturbances.crash()
    if killing is not None:
        met.append(await crash.conduct(stage, killing))
    faults = await disturbances.all()
    origin = time.monotonic() - (met[-1].end if met else 0.0)
    for number, fault in enumerate(faults):
        stage.say(fault.label)
        (thread,) = stage.names(f"outage-{number}", 1)
        met.append(await _one(stage, fault, thread, origin))
    if met:
        stage.record.outages = met
    elif disturbances.why_none:
        stage.record.notes["outage"] = disturbances.why_none


async def _one(stage: Stage, fault: Disturbance, thread: str, origin: float) -> Outage:
    (replica,) = await stage.fleet.start(fresh=True, **fault.changed)
    before = [f"before/{number}" for number in range(KNOWN)]
    for name in before:
        await replica.call("append", thread, [message("user", name)], name)
    await replica.call("load", thread)
    start = time.monotonic()
    await fault.begin(replica)
    try:
        disturbed = replica.send(
            "outage:disturb",
            thread=thread,
            seconds=stage.sizes.outage,
            every=fault.every,
            known=KNOWN,
            origin=origin,
        )
        await _until_all_was_asked(stage, replica)
    finally:
        await fault.end(replica)
    end = time.monotonic()
    recovery: float | None = None
    try:
        await replica.ask("calls:recover", thread=thread, patience=stage.sizes.recovery)
        recovery = time.monotonic() - end
    except Failed as error:
        stage.say(f"not recovered: {error}")
    try:
        said = await asyncio.wait_for(disturbed, HUNG + 10.0)
    except (Failed, TimeoutError):
        said = {"tried": [], "accepted": [], "kept": [], "hung": 1}
    tried = [Tried(**each) for each in said["tried"]]
    return Outage(
        fault.label,
        fault.fired(tried),
        round(start - origin, 2),
        round(end - origin, 2),
        tried,
        before + said["accepted"],
        await found(stage, replica, thread, said["kept"]),
        recovery,
        said["hung"],
    )


async def _until_all_was_asked(stage: Stage, replica: Replica) -> None:
    """The fault lasts as long as the replica asks, however late it began."""
    try:
        await replica.until(
            lambda events: any("asked" in each for each in events), stage.sizes.outage + HUNG
        )
    except (Failed, TimeoutError) as error:
        stage.say(f"the replica did not go on: {error}")


WORKLOAD = Workload("outage", "threads", "taking the store away", conduct, unwatched=True)


# --- in a replica -----------------------------------------------------------------------


async def disturb(
    memory: Memory, tell: Any, thread: str, seconds: float, every: float, known: int, origin: float
) -> dict[str, Any]:
    accepted: list[str] = []
    end = time.monotonic() + seconds
    calls: set[asyncio.Task[dict[str, Any]]] = set()
    number = 0
    while time.monotonic() < end:
        name = f"during/{number}"
        calls.add(asyncio.create_task(read(memory, thread, known, origin)))
        calls.add(asyncio.create_task(append(memory, thread, name, accepted, origin)))
        number += 1
        await asyncio.sleep(every)
    tell(asked=number)
    done, hanging = await asyncio.wait(calls, timeout=HUNG)
    for call in hanging:
        call.cancel()
    return told([call.result() for call in done], accepted, len(hanging))
