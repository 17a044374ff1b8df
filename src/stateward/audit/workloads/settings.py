"""What the store says of its settings."""

from __future__ import annotations

from stateward.audit.record import Read
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    (replica,) = await stage.fleet.start()
    said = await replica.call("describe")
    await stage.fleet.end(replica)
    values = said.get("settings", {})
    blocked = [name for name, value in values.items() if value == "unknown"]
    stage.record.settings = Read(
        said.get("engine", ""), said.get("version", ""), said.get("durability", ""), values, blocked
    )


WORKLOAD = Workload("settings", "sizes", "reading the settings", conduct)
