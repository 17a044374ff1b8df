"""Keepsakes: written when the audit begins, looked for in a new process when it ends."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from stateward.audit.differences import MISSING, SURPLUS, class_of_work
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import Trials, merged, within
from stateward.audit.workloads.workload import Stage, Workload

TURNS = 4
OTHERS = 120  # conversations, users and tasks after them
BUDGET = 6.0  # seconds for these
PARTS = ("users", "tasks", "workflows", "keys")


async def put_away(stage: Stage) -> None:
    (base,) = stage.names("keepsake", 1)
    parts = [part for part in PARTS if stage.provides(part)]
    (writer,) = await stage.fleet.start()
    await writer.ask("keepsakes:write", base=base, parts=parts)
    stage.keepsakes = time.monotonic()
    await writer.ask("keepsakes:crowd", base=base, parts=parts)
    await stage.fleet.end(writer)


async def look_again(stage: Stage) -> None:
    if stage.keepsakes is None:
        return
    (base,) = stage.names("keepsake", 1)
    parts = [part for part in PARTS if stage.provides(part)]
    begun, lasting = stage.keepsakes, stage.sizes.lasting
    if stage.provides("retention"):
        # Not for ever, but so long that half the time is nothing.
        base += "-again"
        (writer,) = await stage.fleet.start()
        lasting = min(lasting, float(await writer.ask("retention:kept_for")) / 2)
        await writer.ask("keepsakes:write", base=base, parts=parts)
        await stage.fleet.end(writer)
        begun = time.monotonic()
    left = begun + lasting - time.monotonic()
    if left > 0:
        stage.say(f"waiting {left:.0f} s")
        await asyncio.sleep(left)
    age = time.monotonic() - begun
    (reader,) = await stage.fleet.start(fresh=True)
    checks = await reader.ask("keepsakes:read", base=base, parts=parts, age=round(age))
    await stage.fleet.end(reader)
    stage.record.lasting = merged(checks)


BEGIN = Workload("keepsakes", "threads", "storing state to check later", put_away)
WORKLOAD = Workload(
    "lasting", "threads", "checking the state stored earlier", look_again, after=BEGIN.name
)


# --- in a replica -----------------------------------------------------------------------


def _turn(number: int) -> list[dict[str, Any]]:
    return [message("user", f"kept {number}"), message("assistant", f"answer {number}")]


async def write(memory: Memory, tell: Any, base: str, parts: list[str]) -> None:
    for number in range(TURNS):
        await within(memory.append(base, _turn(number), f"kept/{number}"))
    if "users" in parts:
        await within(memory.put_user(base, {"kept": True, "words": "for later"}))
    if "tasks" in parts:
        await within(memory.call("run_once", base, _Counted("kept").run))
    if "workflows" in parts:
        steps = [(name, _Counted(name).run) for name in ("first", "second")]
        await within(memory.call("run_workflow", base, steps), 30.0)


async def crowd(memory: Memory, tell: Any, base: str, parts: list[str]) -> None:
    """Write for many others, which a memory that keeps only the newest does not survive."""
    end = time.monotonic() + BUDGET
    for number in range(OTHERS):
        other = f"{base}-{number}"
        await within(memory.append(other, [message("user", other)], other))
        if "users" in parts:
            await within(memory.put_user(other, {"name": other}))
        if "tasks" in parts:
            await within(memory.call("run_once", other, _Counted(other).run))
        if time.monotonic() > end:
            return


class _Counted:
    """A function that knows how often it ran."""

    def __init__(self, result: str) -> None:
        self.result = result
        self.ran = 0

    async def run(self) -> str:
        self.ran += 1
        return self.result


async def read(
    memory: Memory, tell: Any, base: str, parts: list[str], age: int
) -> list[dict[str, Any]]:
    trials = Trials()
    after = f"after {age} s"

    async def conversation() -> None:
        texts = contents(await within(memory.load(base)))
        expected = [each["content"] for number in range(TURNS) for each in _turn(number)]
        trials.compare("conversations", f"load a conversation {after}", expected, texts)

    async def user() -> None:
        value, _ = await within(memory.get_user(base))
        expected = {"kept": True, "words": "for later"}
        trials.compare("users", f"get a user's state {after}", expected, value)

    async def task() -> None:
        counted = _Counted("again")
        result = await within(memory.call("run_once", base, counted.run), 30.0)
        case = f"run a finished task again {after}"
        kind = class_of_work(None, counted.ran, 0)
        trials.compare("tasks", case, ["kept", 0], [result, counted.ran], kind=kind)

    async def workflow() -> None:
        steps = {name: _Counted(name) for name in ("first", "second")}
        functions = [(name, counted.run) for name, counted in steps.items()]
        await within(memory.call("run_workflow", base, functions), 30.0)
        ran = [name for name, counted in steps.items() if counted.ran]
        trials.compare("workflows", f"drive a finished workflow {after}", [], ran)

    async def key() -> None:
        for number in range(TURNS):
            await within(memory.append(base, _turn(number), f"kept/{number}"))
        texts = Counter(contents(await within(memory.load(base))))
        counts = [texts[f"kept {number}"] for number in range(TURNS)]
        kind = SURPLUS if max(counts) > 1 else MISSING
        case = f"deliver turns again {after}: copies of each"
        trials.compare("keys", case, [1] * TURNS, counts, kind=kind)

    looks = {"users": user, "tasks": task, "workflows": workflow, "keys": key}
    for name, look in {"conversations": conversation, **looks}.items():
        if name != "conversations" and name not in parts:
            continue
        with trials.expecting(name, f"read {after}", "what was stored"):
            await look()
    return trials.plain()
