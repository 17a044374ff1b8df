"""Workflows whose driver is killed while a step is in progress; another replica continues."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import WorkflowRun
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.workload import Stage, Workload

STEPS = ["reserve", "charge", "ship", "notify", "close"]
PATIENCE = 25.0  # seconds for all of them to come to the step in which they are interrupted


async def conduct(stage: Stage) -> None:
    ids = stage.names("workflow", stage.sizes.workflows)
    stops = {id: STEPS[1 + number % (len(STEPS) - 1)] for number, id in enumerate(ids)}
    (first,) = await stage.fleet.start(fresh=True)
    for id in ids:
        first.send("workflows:drive", id=id, stop=stops[id])
    try:
        await first.until(
            lambda events: {(e["workflow"], e["begun"]) for e in events} >= set(stops.items()),
            PATIENCE,
        )
    except TimeoutError:
        stage.say("not all of them have begun")  # the steps that ran will show it
    before = list(first.events)
    await first.kill()
    (second,) = await stage.fleet.start()
    answers = await asyncio.gather(
        *(second.ask("workflows:drive", id=id, stop=None) for id in ids), return_exceptions=True
    )
    begun = {id: [e["begun"] for e in before if e["workflow"] == id] for id in ids}
    last = {id: stops[id] if stops[id] in begun[id] else "".join(begun[id][-1:]) for id in ids}
    stage.record.workflows = [
        WorkflowRun(
            id,
            STEPS,
            [step for step in begun[id] if step != last[id]],
            last[id],
            [e["begun"] for e in second.events if e["workflow"] == id],
            not isinstance(answer, BaseException),
        )
        for id, answer in zip(ids, answers, strict=True)
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
