"""One replica writes; as soon as that is acknowledged, every other looks."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.record import Look
from stateward.audit.stage import Stage, turn
from stateward.audit.targets import Target


async def conduct(stage: Stage) -> list[Look]:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    threads = stage.names("shared", 3)
    users = stage.names("shared-user", 3)
    with_users = "users" in stage.provides
    for replica in replicas:  # whoever caches has something to serve stale
        await replica.ask("sharing:look", threads=threads, users=users if with_users else [])
    looks: list[Look] = []
    for number in range(stage.sizes.looks):
        writer = replicas[number % len(replicas)]
        others = [replica for replica in replicas if replica is not writer]
        thread, user, mark = threads[number % 3], users[number % 3], f"look-{number}"
        await writer.ask("sharing:write", thread=thread, mark=mark)
        seen = await asyncio.gather(*(o.ask("sharing:turns", thread=thread) for o in others))
        for reader, marks in zip(others, seen, strict=True):
            last = marks[-1] if marks else "nothing"
            looks.append(Look("turn", writer.number, reader.number, mark in marks, last))
        if with_users:
            await writer.ask("sharing:put", user=user, mark=mark)
            got = await asyncio.gather(*(o.ask("sharing:preference", user=user) for o in others))
            for reader, value in zip(others, got, strict=True):
                looks.append(
                    Look("preference", writer.number, reader.number, value == mark, str(value))
                )
    await stage.fleet.end(*replicas)
    return looks


async def look(target: Target, tell: Any, threads: list[str], users: list[str]) -> None:
    for thread in threads:
        await target.load(thread, 10)
    for user in users:
        await target.get_user(user)


async def write(target: Target, tell: Any, thread: str, mark: str) -> None:
    await target.append(thread, turn(mark), mark)


async def turns(target: Target, tell: Any, thread: str) -> list[str]:
    return [str(m.get("content")) for m in await target.load(thread, 10)]


async def put(target: Target, tell: Any, user: str, mark: str) -> None:
    await target.put_user(user, {"mark": mark})


async def preference(target: Target, tell: Any, user: str) -> Any:
    return (await target.get_user(user))[0].get("mark")
