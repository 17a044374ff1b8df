"""Transactions that a call leaves open, as a server of the audit's own tells of them."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.replicas.fleet import Replica
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import Trials
from stateward.audit.workloads.workload import Stage

ENDED = "transactions end with their call"
WAIT = 2.0  # seconds in which what a call has begun beside its answer must end


async def conduct(stage: Stage, replica: Replica) -> list[dict[str, Any]]:
    """Call one method after the other, and ask the server what each has left open."""
    trials, (id,) = Trials(), stage.names("leftovers", 1)
    calls: list[tuple[Any, ...]] = [
        ("append", id, [message("user", "a message")], "key"),
        ("load", id, None),
    ]
    if stage.provides("users"):
        calls += [("put_user", id, {"name": id}), ("get_user", id)]
    for method, *arguments in calls:
        before = await _open(stage)
        if before is None:
            return []
        await replica.call(method, *arguments)
        left = await _left(stage, before)
        left_open = "; ".join(f"idle in transaction after {each!r}" for each in left.values())
        case = f"call {method}, wait {WAIT:g} s, ask the server"
        trials.hold(ENDED, not left, case, "no open transaction", left_open, method)
    return trials.plain()


async def _open(stage: Stage) -> dict[int, str] | None:
    return None if stage.open_transactions is None else await stage.open_transactions()


async def _left(stage: Stage, before: dict[int, str]) -> dict[int, str]:
    """Return the sessions whose transaction is still open after a while."""
    left: dict[int, str] = {}
    async with asyncio.timeout(WAIT + 60.0):
        for _ in range(10):
            now = await _open(stage) or {}
            left = {pid: query for pid, query in now.items() if pid not in before}
            if not left:
                break
            await asyncio.sleep(WAIT / 10)
    return left
