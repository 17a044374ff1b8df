"""Replicas run the same tasks at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import TaskRace
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.workload import Stage, Workload, until


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    names = stage.names("task", stage.sizes.tasks)
    answers = await stage.at_once(replicas, "task_races:run_all", tasks=names)
    runs = dict.fromkeys(names, 0)
    for replica in replicas:
        for event in replica.events:
            if "ran" in event:
                runs[event["ran"]] += 1
    results = {name: [str(each[name]) for each in answers if name in each] for name in names}
    missing = sum(name not in each for each in answers for name in names)
    await stage.fleet.end(*replicas)
    stage.record.task_race = TaskRace(len(names), runs, results, missing)


WORKLOAD = Workload("task-races", "tasks", "racing replicas on the same tasks", conduct)


# --- in a replica -----------------------------------------------------------------------


async def run_all(
    memory: Memory, tell: Any, tasks: list[str], who: int, begin: float
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    await until(begin)
    for task in tasks:

        async def effect(task: str = task) -> str:
            tell(ran=task)
            await asyncio.sleep(0.002)
            return f"by {who}"

        try:
            results[task] = await memory.call("run_once", task, effect)
        except Exception as error:
            tell(failed=task, error=type(error).__name__)
    return results
