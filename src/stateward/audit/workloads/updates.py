"""Replicas change one user's state at once, and write for versions that are no longer current."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.record import Conflicts, Updates
from stateward.audit.stage import Stage
from stateward.audit.targets import Target, VersionConflict


async def updates(stage: Stage) -> Updates:
    count = max(2, stage.sizes.replicas)
    replicas = await stage.fleet.start(count)
    (user,) = stage.names("counted", 1)
    begin = time.monotonic() + 0.2
    said = await asyncio.gather(
        *(
            replica.ask(
                "updates:increment",
                user=user,
                count=stage.sizes.updates,
                begin=begin,
                patience=300.0,
            )
            for replica in replicas
        )
    )
    (reader,) = await stage.fleet.start()
    final = await reader.ask("updates:counter", user=user)
    await stage.fleet.end(reader, *replicas)
    return Updates(
        sum(each["acknowledged"] for each in said),
        sum(each["failed"] for each in said),
        int(final),
        count,
    )


async def increment(
    target: Target, tell: Any, user: str, count: int, begin: float
) -> dict[str, int]:
    done = failed = 0
    await asyncio.sleep(max(0.0, begin - time.monotonic()))

    def change(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "count": value.get("count", 0) + 1}

    for _ in range(count):
        try:
            await target.call("update_user", user, change)
            done += 1
        except Exception as error:
            tell(failed=type(error).__name__)
            failed += 1
    return {"acknowledged": done, "failed": failed}


async def counter(target: Target, tell: Any, user: str) -> int:
    return int((await target.get_user(user))[0].get("count", 0))


async def conflicts(stage: Stage) -> Conflicts:
    one, other = await stage.fleet.start(2)
    detected = both = overwritten = resolved = 0
    example = ""
    for user in stage.names("contested", stage.sizes.conflicts):
        version = await one.ask("updates:put", user=user, by="base", expect=None)
        await other.ask("updates:put", user=user, by="theirs", expect=None)
        said = await one.ask("updates:try_put", user=user, by="mine", expect=version)
        now = await other.ask("updates:who", user=user)
        overwritten += now == "mine"
        if said["conflict"]:
            detected += 1
            both += said["expected"] is not None and said["current"] is not None
            example = said["message"]
            await one.ask("updates:merge", user=user, by="mine")
            resolved += await other.ask("updates:who", user=user) == "theirs+mine"
    await stage.fleet.end(one, other)
    return Conflicts(stage.sizes.conflicts, detected, both, overwritten, resolved, example)


async def put(target: Target, tell: Any, user: str, by: str, expect: int | None) -> int | None:
    return await target.put_user(user, {"by": by}, expect)


async def try_put(target: Target, tell: Any, user: str, by: str, expect: int) -> dict[str, Any]:
    try:
        await target.put_user(user, {"by": by}, expect)
    except VersionConflict as error:
        return {
            "conflict": True,
            "message": str(error),
            "expected": error.expected,
            "current": error.current,
        }
    return {"conflict": False, "message": "", "expected": None, "current": None}


async def merge(target: Target, tell: Any, user: str, by: str) -> None:
    await target.call("update_user", user, lambda value: {"by": f"{value.get('by')}+{by}"})


async def who(target: Target, tell: Any, user: str) -> Any:
    return (await target.get_user(user))[0].get("by")
