"""Replicas race on one conversation."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stateward.audit.record import TurnRace
from stateward.audit.replicas.fleet import Failed
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import turn
from stateward.audit.workloads.workload import Stage, Workload, until

EVERY = 5  # one turn in so many is delivered by every replica at once


async def conduct(stage: Stage) -> None:
    reader, *replicas = await stage.fleet.start(1 + max(2, stage.sizes.replicas))
    (thread,), count = stage.names("race", 1), stage.sizes.race_turns
    said = await stage.at_once(
        replicas, "turns:append_all", thread=thread, count=count, patience=300.0
    )
    failed = Counter(e["error"] for replica in replicas for e in replica.events if "failed" in e)
    order, unreadable = [], ""
    try:
        order = parts(await reader.call("load", thread))
    except Failed as error:
        unreadable = str(error)[:200]
    await stage.fleet.end(reader, *replicas)
    acknowledged = sorted({name for names in said for name in names})
    stage.record.turn_race = TurnRace(acknowledged, order, 2, unreadable, dict(failed))


def parts(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Of each message its turn, and which part of that it is."""
    return [(str(each.get("content")), each.get("part", 0)) for each in messages]


WORKLOAD = Workload("turns", "threads", "racing replicas on one conversation", conduct)


# --- in a replica -----------------------------------------------------------------------


async def append_all(
    memory: Memory, tell: Any, thread: str, who: int, count: int, begin: float
) -> list[str]:
    acknowledged = []
    await until(begin)
    for number in range(count):
        name = f"all/{number}" if number % EVERY == 0 else f"{who}/{number}"
        try:
            await memory.append(thread, turn(name), name)
            acknowledged.append(name)
        except Exception as error:
            tell(failed=name, error=type(error).__name__)
    return acknowledged
