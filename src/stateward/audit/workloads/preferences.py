"""Preferences written in one process, read in a new one after the first was killed."""

from __future__ import annotations

from typing import Any

from stateward.audit.record import Preferences
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.workload import Stage, Workload

Seen = dict[str, tuple[Any, int | None]]


async def conduct(stage: Stage) -> None:
    users = stage.names("user", stage.sizes.threads)
    (writer,) = await stage.fleet.start(fresh=True)
    written = await writer.ask("preferences:write", users=users)
    await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    read = {user: await reader.call("get_user", user) for user in users}
    await stage.fleet.end(reader)
    stage.record.preferences = Preferences(written, read)


WORKLOAD = Workload("preferences", "users", "killing a process, then reading its users", conduct)


# --- in a replica -----------------------------------------------------------------------


async def write(memory: Memory, tell: Any, users: list[str]) -> Seen:
    written: Seen = {}
    for number, user in enumerate(users):
        value = {"language": "nl", "number": number, "tags": ["a", "é", "🚀"]}
        more = {"theme": "dark", "changed": number}
        await memory.put_user(user, value)
        await memory.call("update_user", user, lambda found, more=more: {**found, **more})
        # What was written, not what is read back from a cache: only the version is asked for.
        written[user] = ({**value, **more}, (await memory.get_user(user))[1])
    return written
