"""Replicas race on one conversation."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from stateward.audit.record import TurnRace
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import message, turn
from stateward.audit.workloads.workload import Stage, Workload, until

FEWEST = 15  # turns of each in the long conversation
AT_ONCE = 50  # messages an append, when it is made long
EVERY = 5  # every fifth turn is delivered by all replicas concurrently
BUDGET = 60.0  # seconds for each race, and for what comes before it: a slow memory races less


async def conduct(stage: Stage) -> None:
    reader, *replicas = await stage.fleet.start(1 + max(2, stage.sizes.replicas))
    (thread, long), count = stage.names("race", 2), stage.sizes.race_turns
    stage.record.turn_race = await _raced(stage, reader, replicas, thread, count)
    await reader.ask(
        "turn_races:lengthen", thread=long, count=stage.sizes.race_history, patience=120.0
    )
    few = max(FEWEST, count // 4)
    stage.record.long_race = await _raced(stage, reader, replicas, long, few)
    await stage.fleet.end(reader, *replicas)


async def _raced(
    stage: Stage, reader: Replica, replicas: list[Replica], thread: str, count: int
) -> TurnRace:
    for replica in replicas:
        replica.events.clear()
    answers = await stage.at_once(
        replicas, "turn_races:append_all", thread=thread, count=count, patience=300.0
    )
    failed = Counter(e["error"] for replica in replicas for e in replica.events if "failed" in e)
    order: list[Any] = []
    unreadable = ""
    try:
        parts = await reader.ask("turn_races:order", thread=thread, patience=120.0)
        order = [tuple(each) for each in parts]
    except Failed as error:
        unreadable = str(error)[:200]
    acknowledged = sorted({name for names in answers for name in names})
    return TurnRace(acknowledged, order, 2, unreadable, dict(failed))


WORKLOAD = Workload("turn-races", "threads", "racing replicas on one conversation", conduct)


# --- in a replica -----------------------------------------------------------------------


async def lengthen(memory: Memory, tell: Any, thread: str, count: int) -> None:
    end = time.monotonic() + BUDGET
    for first in range(0, count, AT_ONCE):
        if time.monotonic() > end:
            return
        messages = [
            message("user", f"past {first + n}") for n in range(min(AT_ONCE, count - first))
        ]
        await memory.append(thread, messages, f"past/{first}")


async def order(memory: Memory, tell: Any, thread: str) -> list[tuple[str, Any]]:
    """Return the turn of each message and the message's part in the turn, without the past."""
    parts = [(str(each.get("content")), each.get("part", 0)) for each in await memory.load(thread)]
    return [(name, part) for name, part in parts if not name.startswith("past ")]


async def append_all(
    memory: Memory, tell: Any, thread: str, who: int, count: int, begin: float
) -> list[str]:
    acknowledged = []
    await until(begin)
    for number in range(count):
        if time.monotonic() > begin + BUDGET:
            break
        name = f"all/{number}" if number % EVERY == 0 else f"{who}/{number}"
        try:
            await memory.append(thread, turn(name), name)
            acknowledged.append(name)
        except Exception as error:
            tell(failed=name, error=type(error).__name__)
    return acknowledged
