"""Monitoring of lookups: the target's own metrics, and its alarm in an outage."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from stateward.audit.record import Monitoring
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.workload import Looked, Stage, Workload

WRITES = 15  # suppressed: the alarm is due at the tenth
LOOKUPS = 60
SLOW = 5  # slowest lookups, of which the fastest is compared
SECONDS = 60.0  # for the buyer's own alarm to come


async def conduct(stage: Stage) -> None:
    """Ask the buyer's own monitoring, if there is any, instead of the target."""
    fault = await stage.disturbances.alarming()
    if fault is None and stage.disturbances.why_none:
        stage.record.notes["monitoring"] = stage.disturbances.why_none
    changed = fault.changed if fault is not None else {}
    (replica,) = await stage.fleet.start(fresh=True, **changed)
    (thread,) = stage.names("watched", 1)
    await replica.call("append", thread, [message("user", "before")], "before")
    own = stage.scrape is None and stage.provides("metrics")
    before = (await replica.call("metrics"))["lookups"] if own else None
    took = await replica.ask("alarms:look_up", thread=thread, count=LOOKUPS)
    metrics: dict[str, Any] = {"lookups": None, "percentiles": {}}
    if stage.scrape is not None:
        metrics = await stage.scrape()
    elif own:
        metrics = await replica.call("metrics")
    counted = None
    if isinstance(before, int) and isinstance(metrics["lookups"], int):
        counted = metrics["lookups"] - before
    early = ""
    if stage.alerts is None and stage.provides("alarm"):
        fired = (await replica.call("alarms"))["fired"]
        early = fired[0]["name"] if fired else ""
    alarm: dict[str, Any] = {"kept": 0, "fired": []}
    if fault is not None and (stage.alerts is not None or stage.provides("alarm")):
        await fault.begin(replica)
        try:
            await replica.ask("alarms:write_all", thread=thread)
            if stage.alerts is None:
                alarm = await replica.ask("alarms:alarms", seconds=15.0)
            else:
                alarm = await _poll(stage.alerts)
        finally:
            await fault.end(replica)
    refused = sum("failed" in each for each in replica.events)
    await stage.fleet.end(replica)
    first = alarm["fired"][0] if alarm["fired"] else {"name": None, "after": None}
    stage.record.monitoring = Monitoring(
        "the metrics page" if stage.scrape else "the store's own metrics",
        metrics["lookups"],
        metrics["percentiles"],
        fault is not None,
        alarm["kept"],
        first["name"],
        first["after"],
        LOOKUPS,
        counted,
        took["median"],
        early,
        took["slow"],
        took["idle"],
        took["idle_median"],
        refused,
    )


async def _poll(alerts: Looked) -> dict[str, Any]:
    """Ask the buyer's alert manager until something fires."""
    waited = 0.0
    while waited < SECONDS:
        alerts_now = await alerts()
        if alerts_now["fired"]:
            name = alerts_now["fired"][0]
            return {"kept": WRITES, "fired": [{"name": name, "after": waited}]}
        await asyncio.sleep(1.0)
        waited += 1.0
    return {"kept": WRITES, "fired": []}


WORKLOAD = Workload(
    "monitoring", "metrics", "reading the metrics, waiting for the alarm", conduct, unwatched=True
)


# --- in a replica -----------------------------------------------------------------------


async def look_up(memory: Memory, tell: Any, thread: str, count: int) -> dict[str, float]:
    """Time lookups, and calls that do nothing: both by their median and their slowest."""
    took, idle = [], []
    for _ in range(count):
        start = time.perf_counter()
        await memory.load(thread, 20)
        middle = time.perf_counter()
        await asyncio.to_thread(int)
        took.append(middle - start)
        idle.append(time.perf_counter() - middle)
    return {
        "median": statistics.median(took),
        "slow": sorted(took)[-SLOW],
        "idle": sorted(idle)[-SLOW],
        "idle_median": statistics.median(idle),
    }


async def write_all(memory: Memory, tell: Any, thread: str) -> None:
    async def one(number: int) -> None:
        try:
            await memory.append(thread, [message("user", f"{number}")], f"{number}")
        except Exception as error:
            tell(failed=type(error).__name__)

    await asyncio.wait([asyncio.create_task(one(n)) for n in range(WRITES)], timeout=15.0)


async def alarms(memory: Memory, tell: Any, seconds: float) -> Any:
    alarms: Any = None
    for _ in range(int(seconds * 10)):
        alarms = await memory.call("alarms")
        if alarms["fired"]:
            return alarms
        await asyncio.sleep(0.1)
    return alarms
