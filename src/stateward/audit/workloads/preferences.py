"""Preferences written in one process, read in a new one after the first was killed."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Preferences
from stateward.audit.stage import Stage
from stateward.audit.targets import Target

Seen = dict[str, tuple[Any, int | None]]


async def conduct(stage: Stage) -> Preferences:
    users = stage.names("user", stage.sizes.threads)
    (writer,) = await stage.fleet.start(fresh=True)
    written = await writer.ask("preferences:write", users=users)
    await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    read = await reader.ask("preferences:read", users=users)
    await stage.fleet.end(reader)
    return Preferences(written, read)


async def write(target: Target, tell: Any, users: list[str]) -> Seen:
    for number, user in enumerate(users):
        await target.put_user(user, {"language": "nl", "number": number, "tags": ["a", "é", "🚀"]})

        def change(value: dict[str, Any], number: int = number) -> dict[str, Any]:
            return {**value, "theme": "dark", "changed": number}

        await target.call("update_user", user, change)
    # What was written, not what is read back from a cache: only the version is asked for.
    return {
        user: (
            {
                "language": "nl",
                "number": number,
                "tags": ["a", "é", "🚀"],
                "theme": "dark",
                "changed": number,
            },
            (await target.get_user(user))[1],
        )
        for number, user in enumerate(users)
    }


async def read(target: Target, tell: Any, users: list[str]) -> Seen:
    return {user: await target.get_user(user) for user in users}
