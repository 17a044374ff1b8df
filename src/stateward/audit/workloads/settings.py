"""Settings, as the store reports them."""

from __future__ import annotations

from stateward.audit.record import Read
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    (replica,) = await stage.fleet.start()
    described = await replica.call("describe")
    await stage.fleet.end(replica)
    values = described.get("settings", {})
    blocked = [name for name, value in values.items() if value == "unknown"]
    stage.record.settings = Read(
        described.get("engine", ""),
        described.get("version", ""),
        described.get("durability", ""),
        values,
        blocked,
    )


WORKLOAD = Workload("settings", "sizes", "reading the settings", conduct)
