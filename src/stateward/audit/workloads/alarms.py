"""What the target's own metrics say of lookups, and whether its alarm comes in an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from stateward.audit.record import Monitoring
from stateward.audit.replicas.fleet import Replica
from stateward.audit.stage import Stage, message
from stateward.audit.targets import Target

WRITES = 15  # suppressed: the alarm is due at the tenth
LOOKUPS = 60

Looked = Callable[[], Awaitable[dict[str, Any]]]


class Fault(Protocol):
    """Something that can be done to a store, and undone."""

    changed: dict[str, Any]

    async def begin(self, replica: Replica) -> None: ...
    async def end(self, replica: Replica) -> None: ...


async def conduct(
    stage: Stage, fault: Fault | None, scrape: Looked | None, alerts: Looked | None, limit: float
) -> Monitoring:
    """`scrape` and `alerts` ask the buyer's own monitoring instead of the target."""
    changed = fault.changed if fault is not None else {}
    (replica,) = await stage.fleet.start(fresh=True, **changed)
    (thread,) = stage.names("watched", 1)
    await replica.ask("alarms:look_up", thread=thread)
    said: dict[str, Any] = {"lookups": None, "percentiles": {}}
    if scrape is not None:
        said = await scrape()
    elif "metrics" in stage.provides:
        said = await replica.ask("alarms:metrics")
    alarm: dict[str, Any] = {"kept": 0, "fired": []}
    if fault is not None and (alerts is not None or "alarm" in stage.provides):
        await fault.begin(replica)
        try:
            await replica.ask("alarms:write_all", thread=thread)
            if alerts is None:
                alarm = await replica.ask("alarms:alarms", seconds=15.0)
            else:
                alarm = await _poll(alerts, limit)
        finally:
            await fault.end(replica)
    await stage.fleet.end(replica)
    first = alarm["fired"][0] if alarm["fired"] else {"name": None, "after": None}
    return Monitoring(
        "the metrics page" if scrape else "the store's own metrics",
        said["lookups"],
        said["percentiles"],
        fault is not None,
        alarm["kept"],
        first["name"],
        first["after"],
    )


async def _poll(alerts: Looked, limit: float) -> dict[str, Any]:
    """Ask the buyer's alert manager until something fires."""
    waited = 0.0
    while waited < limit:
        said = await alerts()
        if said["fired"]:
            name = said["fired"][0]
            return {"kept": WRITES, "fired": [{"name": name, "after": waited}]}
        await asyncio.sleep(1.0)
        waited += 1.0
    return {"kept": WRITES, "fired": []}


async def look_up(target: Target, tell: Any, thread: str) -> None:
    await target.append(thread, [message("user", "before")], "before")
    for _ in range(LOOKUPS):
        await target.load(thread, 20)


async def metrics(target: Target, tell: Any) -> Any:
    return await target.call("metrics")


async def write_all(target: Target, tell: Any, thread: str) -> None:
    async def one(number: int) -> None:
        try:
            await target.append(thread, [message("user", f"{number}")], f"{number}")
        except Exception as error:
            tell(failed=type(error).__name__)

    await asyncio.wait([asyncio.create_task(one(n)) for n in range(WRITES)], timeout=15.0)


async def alarms(target: Target, tell: Any, seconds: float) -> Any:
    said: Any = None
    for _ in range(int(seconds * 10)):
        said = await target.call("alarms")
        if said["fired"]:
            return said
        await asyncio.sleep(0.1)
    return said
