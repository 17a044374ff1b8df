"""Visibility: one replica writes, and all others look once the write is acknowledged."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import Look
from stateward.audit.replicas.fleet import Replica
from stateward.audit.workloads.samples import contents, turn
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    threads = stage.names("shared", 3)
    users = stage.names("shared-user", 3) if stage.provides("users") else []
    for replica in replicas:  # fills caches, which might then serve stale state
        for thread in threads:
            await replica.call("load", thread, 10)
        for user in users:
            await replica.call("get_user", user)
    looks: list[Look] = []
    for number in range(stage.sizes.looks):
        writer = replicas[number % len(replicas)]
        others = [replica for replica in replicas if replica is not writer]
        thread, mark = threads[number % 3], f"look-{number}"
        await _all(others, "load", thread, 10)
        await writer.call("append", thread, turn(mark), mark)
        for reader, messages in await _all(others, "load", thread, 10):
            marks = contents(messages)
            last = marks[-1] if marks else "nothing"
            looks.append(Look("turn", writer.number, reader.number, mark in marks, last))
        if users:
            user = users[number % 3]
            await _all(others, "get_user", user)
            await writer.call("put_user", user, {"mark": mark})
            for reader, (value, _) in await _all(others, "get_user", user):
                mark_read = value.get("mark")
                looks.append(
                    Look(
                        "preference",
                        writer.number,
                        reader.number,
                        mark_read == mark,
                        str(mark_read),
                    )
                )
    await stage.fleet.end(*replicas)
    stage.record.sharing = looks


async def _all(replicas: list[Replica], method: str, *args: Any) -> list[tuple[Replica, Any]]:
    """Call a method in several replicas concurrently."""
    answers = await asyncio.gather(*(replica.call(method, *args) for replica in replicas))
    return list(zip(replicas, answers, strict=True))


WORKLOAD = Workload("sharing", "threads", "writing in one replica, reading in another", conduct)
