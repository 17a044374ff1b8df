"""Replicas race on one conversation, on the same tasks, and for one lock."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from typing import Any

from stateward.audit.record import LockRace, TaskRace, TurnRace
from stateward.audit.replicas.fleet import Failed
from stateward.audit.stage import Stage, turn
from stateward.audit.targets import Refused, Target

EVERY = 5  # one turn in so many is delivered by every replica at once
TTL = 1.0


async def turns(stage: Stage) -> TurnRace:
    reader, *replicas = await stage.fleet.start(1 + max(2, stage.sizes.replicas))
    (thread,) = stage.names("race", 1)
    begin = time.monotonic() + 0.2
    said = await asyncio.gather(
        *(
            replica.ask(
                "races:append_all",
                thread=thread,
                who=number,
                count=stage.sizes.race_turns,
                begin=begin,
                patience=300.0,
            )
            for number, replica in enumerate(replicas)
        )
    )
    failed = Counter(e["error"] for replica in replicas for e in replica.events if "failed" in e)
    order, unreadable = [], ""
    try:
        order = await reader.ask("races:stored", thread=thread)
    except Failed as error:
        unreadable = str(error)[:200]
    await stage.fleet.end(reader, *replicas)
    acknowledged = sorted({name for names in said for name in names})
    stored = [(str(name), part) for name, part in order]
    return TurnRace(acknowledged, stored, 2, unreadable, dict(failed))


async def append_all(
    target: Target, tell: Any, thread: str, who: int, count: int, begin: float
) -> list[str]:
    acknowledged = []
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    for number in range(count):
        name = f"all/{number}" if number % EVERY == 0 else f"{who}/{number}"
        try:
            await target.append(thread, turn(name), name)
            acknowledged.append(name)
        except Exception as error:
            tell(failed=name, error=type(error).__name__)
    return acknowledged


async def stored(target: Target, tell: Any, thread: str) -> list[tuple[Any, Any]]:
    return [(m.get("content"), m.get("part", 0)) for m in await target.load(thread)]


async def tasks(stage: Stage) -> TaskRace:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    names = stage.names("task", stage.sizes.tasks)
    begin = time.monotonic() + 0.2
    said = await asyncio.gather(
        *(
            replica.ask("races:run_all", tasks=names, who=number, begin=begin)
            for number, replica in enumerate(replicas)
        )
    )
    runs = dict.fromkeys(names, 0)
    for replica in replicas:
        for event in replica.events:
            if "ran" in event:
                runs[event["ran"]] += 1
    results = {name: [str(each[name]) for each in said if name in each] for name in names}
    missing = sum(name not in each for each in said for name in names)
    await stage.fleet.end(*replicas)
    return TaskRace(len(names), runs, results, missing)


async def run_all(
    target: Target, tell: Any, tasks: list[str], who: int, begin: float
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    for task in tasks:

        async def effect(task: str = task) -> str:
            tell(ran=task)
            await asyncio.sleep(0.002)
            return f"by {who}"

        try:
            results[task] = await target.call("run_once", task, effect)
        except Exception as error:
            tell(failed=task, error=type(error).__name__)
    return results


async def locks(stage: Stage) -> LockRace:
    taken = refused = accepted = both = 0
    for thread in stage.names("locked", stage.sizes.lock_rounds):
        first, second = await stage.fleet.start(2, fresh=True)
        paused = first.send("races:hold", thread=thread)
        await first.until(lambda events: any(e.get("held") for e in events))
        first.signal(signal.SIGSTOP)
        try:
            await second.ask("races:take", thread=thread, patience=30.0)
            taken += 1
        except Failed:
            first.signal(signal.SIGCONT)
            await stage.fleet.end(first, second)
            continue
        first.send("races:go")
        first.signal(signal.SIGCONT)
        outcome = await asyncio.wait_for(paused, 30.0)
        refused += outcome == "refused"
        accepted += outcome == "accepted"
        stored = await second.ask("races:stored", thread=thread)
        both += any(name == "stale" for name, _ in stored) and outcome == "refused"
        await stage.fleet.end(first, second)
    return LockRace(stage.sizes.lock_rounds, taken, refused, accepted, both)


_woken = asyncio.Event()


async def go(target: Target, tell: Any) -> None:
    _woken.set()


async def hold(target: Target, tell: Any, thread: str) -> str:
    try:
        async with target.inner.lock(thread, TTL) as token:
            await target.append_fenced(thread, turn("first"), "first", token)
            tell(held=True)
            await _woken.wait()
            await target.append_fenced(thread, turn("stale"), "stale", token)
            return "accepted"
    except Refused:
        return "refused"
    except Exception as error:
        # Thrown out of the lock without having written counts too: nothing stale was stored.
        return "refused" if type(error).__name__ == "LeaseLost" else f"{error!r}"


async def take(target: Target, tell: Any, thread: str) -> None:
    async with target.inner.lock(thread, TTL) as token:
        await target.append_fenced(thread, turn("second"), "second", token)
