"""Replicas change one user's state concurrently."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Updates
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.workload import Stage, Workload, until


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    (user,), count = stage.names("counted", 1), stage.sizes.updates
    answers = await stage.at_once(
        replicas, "updates:increment", user=user, count=count, patience=300.0
    )
    (reader,) = await stage.fleet.start()
    final, _ = await reader.call("get_user", user)
    await stage.fleet.end(reader, *replicas)
    stage.record.updates = Updates(
        sum(each["acknowledged"] for each in answers),
        sum(each["failed"] for each in answers),
        int(final.get("count", 0)),
        len(replicas),
    )


WORKLOAD = Workload("updates", "users", "updating one user concurrently", conduct)


# --- in a replica -----------------------------------------------------------------------


async def increment(
    memory: Memory, tell: Any, user: str, who: int, count: int, begin: float
) -> dict[str, int]:
    done = failed = 0
    await until(begin)

    def change(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "count": value.get("count", 0) + 1}

    for _ in range(count):
        try:
            await memory.call("update_user", user, change)
            done += 1
        except Exception as error:
            tell(failed=type(error).__name__)
            failed += 1
    return {"acknowledged": done, "failed": failed}
