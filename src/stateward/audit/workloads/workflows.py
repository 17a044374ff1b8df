"""Workflows whose driver is killed while a step is under way; another replica goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import WorkflowRun
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.workload import Stage, Workload

STEPS = ["reserve", "charge", "ship", "notify", "close"]


async def conduct(stage: Stage) -> None:
    ids = stage.names("workflow", stage.sizes.workflows)
    stops = {id: STEPS[1 + number % (len(STEPS) - 1)] for number, id in enumerate(ids)}
    (first,) = await stage.fleet.start(fresh=True)
    for id in ids:
        first.send("workflows:drive", id=id, stop=stops[id])
    await first.until(
        lambda events: {(e["workflow"], e["begun"]) for e in events} >= set(stops.items())
    )
    before = list(first.events)
    await first.kill()
    (second,) = await stage.fleet.start()
    said = await asyncio.gather(
        *(second.ask("workflows:drive", id=id, stop=None) for id in ids), return_exceptions=True
    )
    stage.record.workflows = [
        WorkflowRun(
            id,
            STEPS,
            [e["begun"] for e in before if e["workflow"] == id and e["begun"] != stops[id]],
            stops[id],
            [e["begun"] for e in second.events if e["workflow"] == id],
            not isinstance(answer, BaseException),
        )
        for id, answer in zip(ids, said, strict=True)
    ]
    await stage.fleet.end(second)


WORKLOAD = Workload(
    "workflows", "workflows", "killing replicas in the middle of workflows", conduct
)


# --- in a replica -----------------------------------------------------------------------


async def drive(memory: Memory, tell: Any, id: str, stop: str | None) -> None:
    def step(name: str) -> Any:
        async def effect() -> str:
            tell(begun=name, workflow=id)
            if name == stop:
                await asyncio.Event().wait()  # until it is killed
            return name

        return effect

    await memory.call("run_workflow", id, [(name, step(name)) for name in STEPS])
