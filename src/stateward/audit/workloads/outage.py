"""The store is killed, cut off, frozen, slowed, refused or full while a replica keeps calling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from msgspec.structs import replace

from stateward.audit.record import Outage, Tried
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import crash
from stateward.audit.workloads.calls import (
    ELSEWHERE,
    HUNG,
    append,
    call_report,
    change_user,
    in_turn,
    limited,
    read,
    read_user,
    settled,
    stored_afterwards,
    wait_for_recovery,
    without_elsewhere,
)
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.workload import Disturbance, Stage, Workload

KNOWN = 5  # turns that are there before
AFTER = 3  # turns of the same replica afterwards
USERS = 3  # every third try is also one of users' state
AT_ONCE = 8  # calls: as many as any memory has connections or threads for
PROMISES = 5  # turns that a replica has accepted when it is killed while the store is away
PROMISING = 4.0  # seconds for that, at most
BETWEEN = 1.0  # seconds between two, as they are shown


async def conduct(stage: Stage) -> None:
    """Disturb the target's storage in every possible way."""
    met, disturbances = [], stage.disturbances
    killing = await disturbances.crash()
    if killing is not None:
        met.append(await crash.conduct(stage, killing))
    faults = await disturbances.all()
    begun = met[-1].end if met else 0.0
    # A fault of a link concerns one replica alone, so several replicas can have one concurrently.
    room = asyncio.Semaphore(max(2, 2 * stage.sizes.replicas - 2))
    threads = [stage.names(f"outage-{number}", 1)[0] for number in range(len(faults))]
    linked = [(f, thread) for f, thread in zip(faults, threads, strict=True) if f.changed]
    linked.sort(key=lambda each: -each[0].least)
    away = await disturbances.away()
    (promised,) = stage.names("promised", 1)
    beside = bool(away is not None and away.changed)
    broken, met_at_once = await asyncio.gather(
        _promised(stage, away if beside else None, promised, room),
        asyncio.gather(*(_one(stage, *each, room) for each in linked)),
    )
    outages = dict(zip([thread for _, thread in linked], met_at_once, strict=True))
    for fault, thread in zip(faults, threads, strict=True):
        if thread not in outages:
            outages[thread] = await _one(stage, fault, thread, room)
    if not beside:
        broken = await _promised(stage, away, promised, room)
    if broken is not None:
        outages[promised] = broken
        threads.append(promised)
    if outages:
        changed = [outages[thread].changed for thread in threads]
        afterwards = await stored_afterwards(stage, threads, changed)
        for thread, (there, changes, why) in zip(threads, afterwards, strict=True):
            outage = replace(outages[thread], found=there, kept_changes=changes, unreadable=why)
            met.append(_shifted(outage, begun - outage.start))
            begun = met[-1].end + BETWEEN
    if met:
        stage.record.outages = met
    if disturbances.why_none:
        stage.record.notes["outage"] = disturbances.why_none


def _shifted(outage: Outage, seconds: float) -> Outage:
    """Move an outage in time, to show several as if one had followed the other."""
    tried = [replace(each, at=each.at + seconds) for each in outage.tried]
    start, end = round(outage.start + seconds, 2), round(outage.end + seconds, 2)
    return replace(outage, start=start, end=end, tried=tried)


async def _one(stage: Stage, fault: Disturbance, thread: str, room: asyncio.Semaphore) -> Outage:
    async with room:
        return await _disturbed(stage, fault, thread)


async def _disturbed(stage: Stage, fault: Disturbance, thread: str) -> Outage:
    replica, before = await _prepared(stage, fault, thread)
    await replica.call("load", thread)
    users = stage.provides("users")
    if users:
        await replica.call("put_user", thread, {"known": True})
        await replica.call("get_user", thread)
    stored: list[float] = []  # when a turn of another replica was acknowledged
    async with _written_elsewhere(stage, thread, stored) if fault.changed else nullcontext():
        if fault.changed:
            await replica.call("load", thread)
        stage.say(fault.label)
        origin = time.monotonic()
        await fault.begin(replica)
        try:
            disturbed = replica.send(
                "outage:disturb",
                thread=thread,
                seconds=max(stage.sizes.outage, fault.least),
                every=fault.every,
                known=KNOWN,
                origin=origin,
                users=users,
            )
            await _until_all_was_asked(stage, replica, fault.least)
        finally:
            await fault.end(replica)
    end = time.monotonic()
    recovery, late, after = await _afterwards(stage, replica, thread, origin, end)
    try:
        answer = await asyncio.wait_for(disturbed, HUNG + 10.0)
    except (Failed, TimeoutError):
        answer = {"tried": [], "accepted": [], "kept": [], "hung": 1, "changed": [], "in_turn": []}
    tried = [_compared(each, stored, origin) for each in answer["tried"]] + late
    await settled(stage, replica, thread, answer["kept"])
    return Outage(
        fault.label,
        fault.fired(tried),
        0.0,
        round(end - origin, 2),
        tried,
        before + answer["accepted"] + after,
        [],
        recovery,
        answer["hung"],
        elsewhere=len(stored),
        changed=answer["changed"],
        in_turn=answer["in_turn"],
    )


async def _prepared(stage: Stage, fault: Disturbance, thread: str) -> tuple[Replica, list[str]]:
    """Start a replica that the fault can reach, and let it append the turns that are known."""
    (replica,) = await stage.fleet.start(fresh=True, **fault.changed)
    before = [f"before/{number}" for number in range(KNOWN)]
    for name in before:
        await replica.call("append", thread, [message("user", name)], name)
    return replica, before


async def _afterwards(
    stage: Stage, replica: Replica, thread: str, origin: float, end: float
) -> tuple[float | None, list[Tried], list[str]]:
    """Return the seconds to recovery, the first read, and turns acknowledged from then on."""
    first = await wait_for_recovery(stage, replica, thread)
    if first is None:
        return None, [], []
    now, took = time.monotonic(), first["seconds"]
    whole = first["messages"] >= KNOWN
    read_again = Tried("read", now - took - origin, took, "read", complete=whole)
    after: list[str] = []
    try:
        after = await replica.ask(
            "outage:afterwards", thread=thread, keys=stage.provides("keys"), patience=60.0
        )
    except Failed as error:
        stage.say(f"not recovered: {error}")
    return now - end, [read_again], after


async def _promised(
    stage: Stage, fault: Disturbance | None, thread: str, room: asyncio.Semaphore
) -> Outage | None:
    """Kill a replica while the store is away: what it had accepted must be stored all the same.

    None if it accepted nothing, or there is no such fault: then there is nothing to keep.
    """
    if fault is None:
        return None
    async with room:
        replica, before = await _prepared(stage, fault, thread)
        stage.say(f"{fault.label}, and the replica is killed")
        origin = time.monotonic()
        await fault.begin(replica)
        try:
            users = stage.provides("users")
            replica.send("outage:promise", thread=thread, origin=origin, users=users)
            try:
                await replica.until(
                    lambda events: sum(_accepted(each) for each in events) >= PROMISES, PROMISING
                )
            except (TimeoutError, Failed) as error:
                stage.say(f"few turns were accepted: {error}")
            await replica.kill()
        finally:
            await fault.end(replica)
        end = time.monotonic()
        tried = [each["tried"] for each in replica.events if "tried" in each]
        changed = [each["changed"] for each in replica.events if "changed" in each]
        accepted = [each["turn"] for each in tried if each["outcome"] != "error"]
        if not accepted and not changed:
            return None
        # The same replica, started again: what it kept is where it had put it.
        (again,) = await stage.fleet.start(fresh=True, replica=replica.number, **fault.changed)
        is_back = await wait_for_recovery(stage, again, thread) is not None
        recovery = time.monotonic() - end if is_back else None
        await settled(stage, again, thread, accepted)
        plain = [Tried(**{n: v for n, v in each.items() if n != "turn"}) for each in tried]
        return Outage(
            f"{fault.label}, and the replica is killed",
            fault.fired(plain),
            0.0,
            round(end - origin, 2),
            plain,
            before + accepted,
            [],
            recovery,
            changed=changed,
            in_turn=in_turn(tried),
        )


def _accepted(event: dict[str, Any]) -> bool:
    return bool(event.get("tried", {"outcome": "error"})["outcome"] != "error")


async def _write_elsewhere(stage: Stage, thread: str, stored: list[float]) -> None:
    """Append in an undisturbed replica: a later read must return these turns, or fail."""
    (other,) = await stage.fleet.start()
    try:
        while True:
            name = f"{ELSEWHERE}{len(stored)}"
            await other.call("append", thread, [message("user", name)], name)
            stored.append(time.monotonic())
            await asyncio.sleep(0.3)
    except Failed as error:
        stage.say(f"the other replica stopped writing: {error}")
    finally:
        await stage.fleet.end(other)


@asynccontextmanager
async def _written_elsewhere(stage: Stage, thread: str, stored: list[float]) -> AsyncIterator[None]:
    """Let another replica write during the block, from its first turn on."""
    writing = asyncio.create_task(_write_elsewhere(stage, thread, stored))
    while not stored and not writing.done():
        await asyncio.wait([writing], timeout=0.02)
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait([writing])


def _compared(each: dict[str, Any], stored: list[float], origin: float) -> Tried:
    """Compare a read with what another replica had stored before it began."""
    tried = Tried(**without_elsewhere(each))
    if tried.what != "read" or tried.outcome != "read":
        return tried
    before = sum(at <= origin + tried.at for at in stored)
    return replace(tried, missing=max(0, before - each.get("elsewhere", 0)))


async def _until_all_was_asked(stage: Stage, replica: Replica, least: float) -> None:
    """Hold the fault as long as the replica asks, however late it began."""
    try:
        await replica.until(
            lambda events: any("asked" in each for each in events),
            max(stage.sizes.outage, least) + HUNG,
        )
    except (Failed, TimeoutError) as error:
        stage.say(f"the replica did not continue: {error}")


WORKLOAD = Workload("outage", "threads", "making the store unavailable", conduct, unwatched=True)


# --- in a replica -----------------------------------------------------------------------


async def disturb(
    memory: Memory,
    tell: Any,
    thread: str,
    seconds: float,
    every: float,
    known: int,
    origin: float,
    users: bool,
) -> dict[str, Any]:
    accepted: list[str] = []
    changed: list[str] = []
    end = time.monotonic() + seconds
    calls: list[asyncio.Task[dict[str, Any]]] = []
    number = 0

    while time.monotonic() < end:
        asking = [read(memory, thread, known, origin)]
        asking.append(append(memory, thread, f"during/{number}", accepted, origin))
        if users and number % USERS == 0:
            asking.append(read_user(memory, thread, origin))
            name = f"{('put', 'update')[number // USERS % 2]}/{number}"
            asking.append(change_user(memory, thread, name, changed, origin))
        calls += [asyncio.create_task(call) for call in asking]
        number += 1
        await asyncio.sleep(every)
        under_way = [call for call in calls if not call.done()]
        if len(under_way) >= AT_ONCE:
            left = max(0.0, end - time.monotonic())
            await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    tell(asked=number)
    return {**call_report(await limited(*calls), accepted), "changed": changed}


async def promise(memory: Memory, tell: Any, thread: str, origin: float, users: bool) -> None:
    """Write one turn after the other, and changes of a user's state, until killed."""

    async def turns() -> None:
        number = 0
        while True:
            tell(tried=await append(memory, thread, f"promised/{number}", [], origin))
            number += 1
            await asyncio.sleep(0.05)

    async def changes() -> None:
        number = 0
        while users:
            accepted: list[str] = []
            name = f"{('put', 'update')[number % 2]}/{number}"
            await change_user(memory, thread, name, accepted, origin)
            for each in accepted:
                tell(changed=each)
            number += 1
            await asyncio.sleep(0.05)

    await asyncio.gather(turns(), changes())


async def afterwards(memory: Memory, tell: Any, thread: str, keys: bool) -> list[str]:
    """Append turns once all is well again, and repeat one that was stored before."""
    accepted = []
    for number in range(AFTER):
        name = f"after/{number}"
        try:
            await memory.append(thread, [message("user", name)], name)
            accepted.append(name)
        except Exception as error:
            tell(failed=name, error=type(error).__name__)
    if keys:
        try:
            await memory.append(thread, [message("user", "before/0")], "before/0")
        except Exception as error:
            tell(failed="before/0", error=type(error).__name__)
    return accepted
