"""Calls while the store is disturbed, and what of them is there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory, Stopwatch
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.workload import Stage

ELSEWHERE = "elsewhere/"  # turns of a replica that is not disturbed
HUNG = 20.0  # seconds after which a call counts as hanging
UNASKED = "unasked"  # outcome of a call that never got a thread, so says nothing of the memory
CallEntry = dict[str, Any]  # a call: when it began, what came of it, and how long it took


async def settled(stage: Stage, replica: Replica, thread: str, kept: list[str]) -> None:
    """Let a replica deliver all that it kept for later, and end the replica."""
    try:
        await replica.ask("calls:settle", thread=thread, kept=kept, patience=30.0)
    except Failed as error:
        stage.say(f"not settled: {error}")
    await stage.fleet.end(replica)


async def wait_for_recovery(stage: Stage, replica: Replica, thread: str) -> dict[str, Any] | None:
    """Return the first answer after an outage; None if none comes in time."""
    try:
        answer: dict[str, Any] = await replica.ask(
            "calls:recover", thread=thread, patience=stage.sizes.recovery
        )
    except Failed as error:
        stage.say(f"not recovered: {error}")
        return None
    return answer


async def stored_afterwards(
    stage: Stage, threads: list[str], changed: Sequence[list[str]] = ()
) -> list[tuple[list[str], list[str], str]]:
    """Read each thread in a new process once the store is back, or return why that fails.

    First the turns, and then those changes of users' state that are there.
    """
    (other,) = await stage.fleet.start(fresh=True)
    contents: list[tuple[list[str], list[str], str]] = []
    for number, thread in enumerate(threads):
        try:
            turns = await other.ask("calls:contents_of", thread=thread)
            names = changed[number] if changed else []
            changes = await other.ask("calls:changes_of", user=thread, names=names)
            contents.append((turns, changes, ""))
        except Failed as error:
            contents.append(([], [], str(error)))
    await stage.fleet.end(other)
    return contents


def without_elsewhere(tried: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tried.items() if name != "elsewhere"}


# --- in a replica -----------------------------------------------------------------------


async def limited(
    *calls: Coroutine[Any, Any, CallEntry] | asyncio.Task[CallEntry],
) -> list[CallEntry]:
    """Return the entries of calls; one that hangs is given up, and its entry says so."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    _, hanging = await asyncio.wait(tasks, timeout=HUNG)
    for task in hanging:
        task.cancel()
    if hanging:
        await asyncio.wait(hanging, timeout=1.0)
    entries = [task.result() if task.done() else {} for task in tasks]
    for task, entry in zip(tasks, entries, strict=True):
        if task in hanging and entry.get("outcome") != UNASKED:
            entry["outcome"] = "hung"
    return entries


def call_report(entries: Iterable[CallEntry], accepted: list[str]) -> dict[str, Any]:
    """Report the calls of a replica; `kept` are the spilled turns, which may come later."""
    tried = [each for each in entries if each["outcome"] not in ("hung", UNASKED)]
    hung = sum(each["outcome"] == "hung" for each in entries)
    spilled = [each["turn"] for each in tried if each["outcome"] == "kept"]
    plain = [{name: each[name] for name in each if name != "turn"} for each in tried]
    report = {"tried": plain, "accepted": accepted, "kept": spilled, "hung": hung}
    return {**report, "in_turn": in_turn(tried)}


def in_turn(tried: list[dict[str, Any]]) -> list[str]:
    """Return turns kept for later that were each begun after the one before was accepted."""
    turns, free = [], float("-inf")
    for each in sorted(tried, key=lambda each: each["at"]):
        if each["outcome"] == "kept" and each["at"] >= free:
            turns.append(str(each["turn"]))
            free = each["at"] + each["seconds"]
    return turns


async def contents_of(memory: Memory, tell: Any, thread: str) -> list[str]:
    """Load the contents; retried for a while, as a store that has just come back may refuse."""
    for _ in range(19):
        try:
            return contents(await asyncio.wait_for(memory.load(thread), HUNG))
        except Exception as error:
            tell(not_yet=type(error).__name__)
            await asyncio.sleep(0.5)
    return contents(await memory.load(thread))


async def changes_of(memory: Memory, tell: Any, user: str, names: list[str]) -> list[str]:
    """Return the changes that are stored: updates of one user, and puts of many."""
    if not names:
        return []
    value, _ = await asyncio.wait_for(memory.get_user(user), HUNG)
    changes = list(value.get("seen", {}))
    for name in names:
        if name.startswith("put/"):
            value, _ = await asyncio.wait_for(memory.get_user(f"{user}/{name}"), HUNG)
            if value == {"name": name}:
                changes.append(name)
    return changes


@contextmanager
def _recorded(memory: Memory, origin: float, **entry: Any) -> Iterator[dict[str, Any]]:
    """Record the call in this block: when it began, what came of it, and how long it took."""
    watch = Stopwatch()
    try:
        with watch:
            yield entry
    except asyncio.CancelledError:
        entry["outcome"] = UNASKED if watch.began is None else "hung"
    except Exception as error:
        typed = isinstance(error, memory.unavailable)
        entry |= {"outcome": "error", "error": type(error).__name__, "typed": typed}
    entry |= {"at": (watch.began or origin) - origin, "seconds": watch.seconds}


async def read_user(memory: Memory, user: str, origin: float) -> dict[str, Any]:
    with _recorded(memory, origin, what="user", outcome="read") as entry:
        value, _ = await memory.get_user(user)
        entry["complete"] = value.get("known") is True
    return entry


async def change_user(
    memory: Memory, user: str, name: str, accepted: list[str], origin: float
) -> dict[str, Any]:
    def add(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "seen": {**value.get("seen", {}), name: True}}

    with _recorded(memory, origin, what="change", outcome="stored") as entry:
        if name.startswith("put/"):
            await memory.put_user(f"{user}/{name}", {"name": name})
        else:
            await memory.call("update_user", user, add)
        accepted.append(name)
    return entry


async def read(memory: Memory, thread: str, known: int, origin: float) -> dict[str, Any]:
    with _recorded(memory, origin, what="read", outcome="read") as entry:
        there = contents(await memory.load(thread))
        own = [text for text in there if not text.startswith(ELSEWHERE)]
        entry |= {"complete": len(own) >= known, "elsewhere": len(there) - len(own)}
    return entry


async def append(
    memory: Memory, thread: str, name: str, accepted: list[str], origin: float
) -> dict[str, Any]:
    with _recorded(memory, origin, what="append", turn=name) as entry:
        entry["outcome"] = await memory.append(thread, [message("user", name)], name)
        accepted.append(name)
    return entry


async def recover(memory: Memory, tell: Any, thread: str) -> dict[str, Any]:
    """Return the number of messages of the first answer, and the seconds it took."""
    while True:
        try:
            with Stopwatch() as watch:
                there = len(await memory.load(thread))
            return {"messages": there, "seconds": watch.seconds}
        except Exception as error:
            tell(not_yet=type(error).__name__)
            await asyncio.sleep(0.05)


async def settle(memory: Memory, tell: Any, thread: str, kept: list[str]) -> None:
    """Wait until what was kept for later is there: nothing else can still come."""
    for _ in range(60):
        if set(kept) <= set(contents(await memory.load(thread))):
            return
        await asyncio.sleep(0.2)
