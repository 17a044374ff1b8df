"""The store is cut off, frozen, slowed, refused or full while a replica goes on asking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from stateward.audit.record import Outage, Tried
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.stage import Stage, message
from stateward.audit.targets import Target

HUNG = 20.0  # seconds after which a call counts as hanging


class Fault(Protocol):
    """Something that can be done to a store, and undone."""

    label: str
    changed: dict[str, Any]
    every: float  # seconds between two tries

    async def begin(self, replica: Replica) -> None: ...
    async def end(self, replica: Replica) -> None: ...
    def fired(self, tried: Sequence[Tried]) -> bool: ...


async def conduct(stage: Stage, faults: Sequence[Fault], since: float = 0.0) -> list[Outage]:
    """`since` is when they begin, in seconds from the first disturbance of all."""
    origin = time.monotonic() - since
    found = []
    for number, fault in enumerate(faults):
        stage.say(fault.label)
        (thread,) = stage.names(f"outage-{number}", 1)
        found.append(await _one(stage, fault, thread, origin))
    return found


async def _one(stage: Stage, fault: Fault, thread: str, origin: float) -> Outage:
    (replica,) = await stage.fleet.start(fresh=True, **fault.changed)
    known = await replica.ask("outage:talk", thread=thread)
    start = time.monotonic()
    await fault.begin(replica)
    try:
        disturbed = replica.send(
            "outage:disturb",
            thread=thread,
            seconds=stage.sizes.outage,
            every=fault.every,
            known=known,
            origin=origin,
        )
        await _until_all_was_asked(stage, replica)
    finally:
        await fault.end(replica)
    end = time.monotonic()
    recovery: float | None = None
    try:
        await replica.ask("outage:recover", thread=thread, patience=stage.sizes.recovery)
        recovery = time.monotonic() - end
    except Failed as error:
        stage.say(f"not recovered: {error}")
    try:
        said = await asyncio.wait_for(disturbed, HUNG + 10.0)
    except (Failed, TimeoutError):
        said = {"tried": [], "accepted": [], "kept": [], "hung": 1}
    tried = [Tried(**each) for each in said["tried"]]
    accepted = [f"before/{n}" for n in range(known)] + said["accepted"]
    return Outage(
        fault.label,
        fault.fired(tried),
        round(start - origin, 2),
        round(end - origin, 2),
        tried,
        accepted,
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


async def found(stage: Stage, replica: Replica, thread: str, kept: list[str]) -> list[str]:
    """What a replica that was not disturbed sees, once the other has brought what it kept."""
    try:
        await replica.ask("outage:settle", thread=thread, kept=kept, patience=30.0)
    except Failed as error:
        stage.say(f"not settled: {error}")
    await stage.fleet.end(replica)
    (other,) = await stage.fleet.start()
    try:
        contents: list[str] = await other.ask("outage:contents", thread=thread)
    except Failed:
        contents = []
    await stage.fleet.end(other)
    return contents


async def talk(target: Target, tell: Any, thread: str) -> int:
    for number in range(5):
        await target.append(thread, [message("user", f"before/{number}")], f"before/{number}")
    await target.load(thread)
    return 5


async def disturb(
    target: Target, tell: Any, thread: str, seconds: float, every: float, known: int, origin: float
) -> dict[str, Any]:
    accepted: list[str] = []
    end = time.monotonic() + seconds
    calls: set[asyncio.Task[dict[str, Any]]] = set()
    number = 0
    while time.monotonic() < end:
        name = f"during/{number}"
        calls.add(asyncio.create_task(read(target, thread, known, origin)))
        calls.add(asyncio.create_task(append(target, thread, name, accepted, origin)))
        number += 1
        await asyncio.sleep(every)
    tell(asked=number)
    done, hanging = await asyncio.wait(calls, timeout=HUNG)
    for call in hanging:
        call.cancel()
    return told([call.result() for call in done], accepted, len(hanging))


def told(tried: list[dict[str, Any]], accepted: list[str], hung: int) -> dict[str, Any]:
    """What a replica says of its calls; `kept` are the turns that may come later."""
    kept = [each["turn"] for each in tried if each["outcome"] == "kept"]
    plain = [{name: each[name] for name in each if name != "turn"} for each in tried]
    return {"tried": plain, "accepted": accepted, "kept": kept, "hung": hung}


async def read(target: Target, thread: str, known: int, origin: float) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "read", "at": start - origin, "outcome": "read"}
    try:
        entry["complete"] = len(await target.load(thread)) >= known
    except Exception as error:
        entry |= _failed(target, error)
    return {**entry, "seconds": time.monotonic() - start}


async def append(
    target: Target, thread: str, name: str, accepted: list[str], origin: float
) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "append", "at": start - origin, "turn": name}
    try:
        entry["outcome"] = await target.append(thread, [message("user", name)], name)
        accepted.append(name)
    except Exception as error:
        entry |= _failed(target, error)
    return {**entry, "seconds": time.monotonic() - start}


def _failed(target: Target, error: Exception) -> dict[str, Any]:
    return {
        "outcome": "error",
        "error": type(error).__name__,
        "typed": isinstance(error, target.unavailable),
    }


async def recover(target: Target, tell: Any, thread: str) -> None:
    while True:
        try:
            await target.load(thread)
            return
        except Exception as error:
            tell(not_yet=type(error).__name__)
            await asyncio.sleep(0.05)


async def settle(target: Target, tell: Any, thread: str, kept: list[str]) -> None:
    """Wait until what was kept for later is there: nothing else can still come."""
    for _ in range(60):
        if set(kept) <= set(await contents(target, tell, thread)):
            return
        await asyncio.sleep(0.2)


async def contents(target: Target, tell: Any, thread: str) -> list[str]:
    return [str(m.get("content")) for m in await target.load(thread)]
