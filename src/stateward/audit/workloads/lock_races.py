"""Replicas race for one lock: its holder is paused until another has it, then wakes and writes."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from stateward.audit.record import LockRace
from stateward.audit.replicas.fleet import Failed
from stateward.audit.targets.memory import Memory, Refused
from stateward.audit.workloads.samples import contents, turn
from stateward.audit.workloads.workload import Stage, Workload

TTL = 1.0


async def conduct(stage: Stage) -> None:
    taken = refused = accepted = both = 0
    for thread in stage.names("locked", stage.sizes.lock_rounds):
        first, second = await stage.fleet.start(2, fresh=True)
        paused = first.send("lock_races:hold", thread=thread)
        await first.until_event(held=True)
        first.signal(signal.SIGSTOP)
        try:
            await second.ask("lock_races:take", thread=thread, patience=30.0)
            taken += 1
        except Failed:
            first.signal(signal.SIGCONT)
            await stage.fleet.end(first, second)
            continue
        first.send("lock_races:go")
        first.signal(signal.SIGCONT)
        outcome = await asyncio.wait_for(paused, 30.0)
        refused += outcome == "refused"
        accepted += outcome == "accepted"
        stored = contents(await second.call("load", thread))
        both += "stale" in stored and outcome == "refused"
        await stage.fleet.end(first, second)
    stage.record.lock_race = LockRace(stage.sizes.lock_rounds, taken, refused, accepted, both)


WORKLOAD = Workload("lock-races", "fences", "pausing the holder of a lock", conduct)


# --- in a replica -----------------------------------------------------------------------

_woken = asyncio.Event()


async def go(memory: Memory, tell: Any) -> None:
    _woken.set()


async def hold(memory: Memory, tell: Any, thread: str) -> str:
    try:
        async with memory.lock(thread, TTL) as token:
            await memory.append_fenced(thread, turn("first"), "first", token)
            tell(held=True)
            await _woken.wait()
            await memory.append_fenced(thread, turn("stale"), "stale", token)
            return "accepted"
    except Refused:
        return "refused"
    except Exception as error:
        # Thrown out of the lock without having written counts too: nothing stale was stored.
        return "refused" if type(error).__name__ == "LeaseLost" else f"{error!r}"


async def take(memory: Memory, tell: Any, thread: str) -> None:
    async with memory.lock(thread, TTL) as token:
        await memory.append_fenced(thread, turn("second"), "second", token)
