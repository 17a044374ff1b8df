"""One replica writes; as soon as that is acknowledged, every other looks."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import Look
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, turn
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    threads = stage.names("shared", 3)
    users = stage.names("shared-user", 3)
    with_users = stage.provides("users")
    for replica in replicas:  # whoever caches has something to serve stale
        await replica.ask("shared_state:look", threads=threads, users=users if with_users else [])
    looks: list[Look] = []
    for number in range(stage.sizes.looks):
        writer = replicas[number % len(replicas)]
        others = [replica for replica in replicas if replica is not writer]
        thread, user, mark = threads[number % 3], users[number % 3], f"look-{number}"
        await writer.ask("shared_state:write", thread=thread, mark=mark)
        seen = await asyncio.gather(*(o.ask("shared_state:turns", thread=thread) for o in others))
        for reader, marks in zip(others, seen, strict=True):
            last = marks[-1] if marks else "nothing"
            looks.append(Look("turn", writer.number, reader.number, mark in marks, last))
        if with_users:
            await writer.ask("shared_state:put", user=user, mark=mark)
            got = await asyncio.gather(
                *(o.ask("shared_state:preference", user=user) for o in others)
            )
            for reader, value in zip(others, got, strict=True):
                looks.append(
                    Look("preference", writer.number, reader.number, value == mark, str(value))
                )
    await stage.fleet.end(*replicas)
    stage.record.sharing = looks


WORKLOAD = Workload("sharing", "threads", "writing here, reading there", conduct)


# --- in a replica -----------------------------------------------------------------------


async def look(memory: Memory, tell: Any, threads: list[str], users: list[str]) -> None:
    for thread in threads:
        await memory.load(thread, 10)
    for user in users:
        await memory.get_user(user)


async def write(memory: Memory, tell: Any, thread: str, mark: str) -> None:
    await memory.append(thread, turn(mark), mark)


async def turns(memory: Memory, tell: Any, thread: str) -> list[str]:
    return await contents(memory, thread, 10)


async def put(memory: Memory, tell: Any, user: str, mark: str) -> None:
    await memory.put_user(user, {"mark": mark})


async def preference(memory: Memory, tell: Any, user: str) -> Any:
    return (await memory.get_user(user))[0].get("mark")
