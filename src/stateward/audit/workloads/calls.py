"""Calls while the store is disturbed, and what of them is there afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.workload import Stage

ELSEWHERE = "elsewhere/"  # turns of a replica that is not disturbed
HUNG = 20.0  # seconds after which a call counts as hanging


async def settled(stage: Stage, replica: Replica, thread: str, kept: list[str]) -> None:
    """Once it has brought what it kept for later, nothing else can still come."""
    try:
        await replica.ask("calls:settle", thread=thread, kept=kept, patience=30.0)
    except Failed as error:
        stage.say(f"not settled: {error}")
    await stage.fleet.end(replica)


async def found(
    stage: Stage, threads: list[str], changed: Sequence[list[str]] = ()
) -> list[tuple[list[str], list[str], str]]:
    """What a new process, opened when the store is back, finds in each; or why it finds nothing.

    First the turns, and then those changes of users' state that are there.
    """
    (other,) = await stage.fleet.start(fresh=True)
    there: list[tuple[list[str], list[str], str]] = []
    for number, thread in enumerate(threads):
        try:
            turns = await other.ask("calls:contents_of", thread=thread)
            names = changed[number] if changed else []
            kept = await other.ask("calls:changes_of", user=thread, names=names)
            there.append((turns, kept, ""))
        except Failed as error:
            there.append(([], [], str(error)))
    await stage.fleet.end(other)
    return there


def without_elsewhere(tried: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tried.items() if name != "elsewhere"}


# --- in a replica -----------------------------------------------------------------------


def told(tried: list[dict[str, Any]], accepted: list[str], hung: int) -> dict[str, Any]:
    """What a replica says of its calls; `kept` are the turns that may come later."""
    kept = [each["turn"] for each in tried if each["outcome"] == "kept"]
    plain = [{name: each[name] for name in each if name != "turn"} for each in tried]
    said = {"tried": plain, "accepted": accepted, "kept": kept, "hung": hung}
    return {**said, "in_turn": in_turn(tried)}


def in_turn(tried: list[dict[str, Any]]) -> list[str]:
    """Turns that were kept for later, of which each was begun when the one before was accepted."""
    found, free = [], float("-inf")
    for each in sorted(tried, key=lambda each: each["at"]):
        if each["outcome"] == "kept" and each["at"] >= free:
            found.append(str(each["turn"]))
            free = each["at"] + each["seconds"]
    return found


async def contents_of(memory: Memory, tell: Any, thread: str) -> list[str]:
    """Asked again for a while: a store that has just come back may refuse at first."""
    for _ in range(19):
        try:
            return contents(await asyncio.wait_for(memory.load(thread), HUNG))
        except Exception as error:
            tell(not_yet=type(error).__name__)
            await asyncio.sleep(0.5)
    return contents(await memory.load(thread))


async def changes_of(memory: Memory, tell: Any, user: str, names: list[str]) -> list[str]:
    """Those that are there: updates of one user, and puts of many."""
    if not names:
        return []
    value, _ = await asyncio.wait_for(memory.get_user(user), HUNG)
    there = list(value.get("seen", {}))
    for name in names:
        if name.startswith("put/"):
            value, _ = await asyncio.wait_for(memory.get_user(f"{user}/{name}"), HUNG)
            if value == {"name": name}:
                there.append(name)
    return there


async def read_user(memory: Memory, user: str, origin: float) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "user", "at": start - origin, "outcome": "read"}
    try:
        value, _ = await memory.get_user(user)
        entry["complete"] = value.get("known") is True
    except Exception as error:
        entry |= _failed(memory, error)
    return {**entry, "seconds": time.monotonic() - start}


async def change_user(
    memory: Memory, user: str, name: str, accepted: list[str], origin: float
) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "change", "at": start - origin, "outcome": "stored"}

    def see(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "seen": {**value.get("seen", {}), name: True}}

    try:
        if name.startswith("put/"):
            await memory.put_user(f"{user}/{name}", {"name": name})
        else:
            await memory.call("update_user", user, see)
        accepted.append(name)
    except Exception as error:
        entry |= _failed(memory, error)
    return {**entry, "seconds": time.monotonic() - start}


async def read(memory: Memory, thread: str, known: int, origin: float) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "read", "at": start - origin, "outcome": "read"}
    try:
        there = contents(await memory.load(thread))
        own = [text for text in there if not text.startswith(ELSEWHERE)]
        entry["complete"] = len(own) >= known
        entry["elsewhere"] = len(there) - len(own)
    except Exception as error:
        entry |= _failed(memory, error)
    return {**entry, "seconds": time.monotonic() - start}


async def append(
    memory: Memory, thread: str, name: str, accepted: list[str], origin: float
) -> dict[str, Any]:
    start = time.monotonic()
    entry: dict[str, Any] = {"what": "append", "at": start - origin, "turn": name}
    try:
        entry["outcome"] = await memory.append(thread, [message("user", name)], name)
        accepted.append(name)
    except Exception as error:
        entry |= _failed(memory, error)
    return {**entry, "seconds": time.monotonic() - start}


def _failed(memory: Memory, error: Exception) -> dict[str, Any]:
    return {
        "outcome": "error",
        "error": type(error).__name__,
        "typed": isinstance(error, memory.unavailable),
    }


async def recover(memory: Memory, tell: Any, thread: str) -> dict[str, Any]:
    """How many messages the first answer gave, and how long it took."""
    while True:
        began = time.monotonic()
        try:
            there = len(await memory.load(thread))
            return {"messages": there, "seconds": time.monotonic() - began}
        except Exception as error:
            tell(not_yet=type(error).__name__)
            await asyncio.sleep(0.05)


async def settle(memory: Memory, tell: Any, thread: str, kept: list[str]) -> None:
    """Wait until what was kept for later is there: nothing else can still come."""
    for _ in range(60):
        if set(kept) <= set(contents(await memory.load(thread))):
            return
        await asyncio.sleep(0.2)
