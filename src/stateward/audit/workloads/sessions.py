"""Turns written in one process, read in a new one after the first was killed."""

from __future__ import annotations

from stateward.audit.record import Sessions
from stateward.audit.workloads.samples import contents, turn
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    threads = stage.names("session", stage.sizes.threads)
    written: dict[str, list[str]] = {}
    (writer,) = await stage.fleet.start(fresh=True)
    for number in range(stage.sizes.turns):
        for thread in threads:
            name = f"{thread}/{number}"
            await writer.call("append", thread, turn(name), name)
            written.setdefault(thread, []).extend([name, name])
    await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    read = {thread: contents(await reader.call("load", thread)) for thread in threads}
    await stage.fleet.end(reader)
    stage.record.sessions = Sessions(written, read)


WORKLOAD = Workload(
    "sessions", "threads", "killing a process, then reading its conversations", conduct
)
