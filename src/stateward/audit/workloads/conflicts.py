"""Replicas write for versions of a user's state that are no longer current."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Conflicts
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory, VersionConflict
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    one, other = await stage.fleet.start(2)
    detected = both = overwritten = resolved = 0
    example = ""
    for user in stage.names("contested", stage.sizes.conflicts):
        version = await one.call("put_user", user, {"by": "base"})
        await other.call("put_user", user, {"by": "theirs"})
        answer = await one.ask("conflicts:try_put", user=user, by="mine", expect=version)
        overwritten += await _by(other, user) == "mine"
        if answer["conflict"]:
            detected += 1
            both += answer["expected"] is not None and answer["current"] is not None
            example = answer["message"]
            await one.ask("conflicts:merge", user=user, by="mine")
            resolved += await _by(other, user) == "theirs+mine"
    await stage.fleet.end(one, other)
    forced = stage.sizes.conflicts
    stage.record.conflicts = Conflicts(forced, detected, both, overwritten, resolved, example)


async def _by(replica: Replica, user: str) -> Any:
    """Return the last writer of a user's state."""
    value, _ = await replica.call("get_user", user)
    return value.get("by")


WORKLOAD = Workload("conflicts", "versions", "forcing conflicts", conduct)


# --- in a replica -----------------------------------------------------------------------


async def try_put(memory: Memory, tell: Any, user: str, by: str, expect: int) -> dict[str, Any]:
    try:
        await memory.put_user(user, {"by": by}, expect)
    except VersionConflict as error:
        return {
            "conflict": True,
            "message": str(error),
            "expected": error.expected,
            "current": error.current,
        }
    return {"conflict": False, "message": "", "expected": None, "current": None}


async def merge(memory: Memory, tell: Any, user: str, by: str) -> None:
    await memory.call("update_user", user, lambda value: {"by": f"{value.get('by')}+{by}"})
