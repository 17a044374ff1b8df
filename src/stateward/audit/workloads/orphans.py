"""Tool calls and their results: kept together by kills, and in every window."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from stateward.audit.differences import MISSING, REORDERED, classify
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import tool_turns
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import Trials, merged, message_difference, within, words
from stateward.audit.workloads.workload import Stage, Workload

KILLS = 2
WRITERS = 3  # concurrent ones in a process that is killed
LARGE = 20_000  # characters of a tool's result: enough to be torn
WINDOWED = 5  # turns of the conversation that windows are taken of
LAST = 20  # messages of the window after a kill
PATIENCE = 30.0  # seconds for the first turns to be acknowledged

WHOLE = "tool call and result after a kill"
KNOWN = "acknowledged tool calls"
LATER = "results added later"
TAKEN = "windows that models accept"
OWN = "windows that leave messages out"


async def conduct(stage: Stage) -> None:
    (torn,), cut = stage.names("torn", 1), stage.names("cut-off", 2)
    (windowed,) = stage.names("tools", 1)
    chance = random.Random(stage.record.seed)
    *dying, last = await stage.fleet.start(KILLS + 1, fresh=True)
    (reader,) = await stage.fleet.start()
    checks = []
    for number, writer in enumerate(dying):
        await _struck(writer, torn, number, chance)
        checks.append(await reader.ask("orphans:whole", thread=torn))
    for thread in cut:
        await last.ask("orphans:begin", thread=thread)
    await last.kill()
    checks.append(await reader.ask("orphans:go_on", added=cut[0], left=cut[1]))
    checks.append(await reader.ask("orphans:windows", thread=windowed, patience=120.0))
    await stage.fleet.end(reader)
    stage.record.orphans = merged(*checks)


async def _struck(writer: Replica, thread: str, number: int, chance: random.Random) -> None:
    writer.send("orphans:write", thread=thread, name=f"{number}")
    await writer.until(lambda events: len(events) >= 3 + number, PATIENCE)
    await asyncio.sleep(chance.uniform(0.0, 0.1))
    await writer.kill()


WORKLOAD = Workload("orphans", "threads", "killing processes during tool calls", conduct)


# --- in a replica -----------------------------------------------------------------------


async def write(memory: Memory, tell: Any, thread: str, name: str) -> None:
    """Write whole turns, each in one append, until killed."""

    async def one(who: int) -> None:
        number = 0
        while True:
            turn = f"{name}.{who}.{number}"
            messages = tool_turns.turn(turn, 2, "x" * LARGE)
            try:
                await memory.append(thread, messages, turn)
                tell(acknowledged=turn)
            except Exception as error:
                tell(failed=turn, error=words(error))
                await asyncio.sleep(0.02)
            number += 1

    await asyncio.gather(*(one(who) for who in range(WRITERS)))


async def whole(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    trials = Trials()
    case = "kill a process while it appends turns with tool calls, load the conversation"
    try:
        stored = await within(memory.load(thread), 60.0)
    except Exception as error:
        trials.differ(WHOLE, case, "the conversation", error)
        return trials.plain()
    refused = tool_turns.refusal(stored)
    if not refused and stored and stored[-1].get("role") != "assistant":
        refused = f"it ends with {str(stored[-1].get('content'))[:60]!r}"
    kind = REORDERED if tool_turns.is_complete(stored) else MISSING
    trials.hold(WHOLE, not refused, case, "every call with its results", refused, kind)
    return trials.plain()


async def begin(memory: Memory, tell: Any, thread: str) -> None:
    """Store each step as an agent does; the process is killed before the tool has answered."""
    await memory.append(thread, tool_turns.turn("first"), "first")
    await memory.append(thread, [message("user", "second question")], "second question")
    await memory.append(thread, [tool_turns.call("second")], "second call")


async def go_on(memory: Memory, tell: Any, added: str, left: str) -> list[dict[str, Any]]:
    """Add the result in another replica, or let the user speak again without one."""
    trials = Trials()
    begun = [*tool_turns.turn("first"), message("user", "second question")]
    begun.append(tool_turns.call("second"))
    answer = message("assistant", "second answer")
    killed = "append a tool call, acknowledged, and kill the process before its result"
    with trials.expecting(KNOWN, killed, "another replica continues"):
        stored = await within(memory.load(added))
        differs = message_difference(begun, stored)
        trials.hold(KNOWN, differs is None, f"{killed}; load in another replica",
                    "the call at the end", str(differs), classify(begun, stored))  # fmt: skip
        messages = [tool_turns.result("second.0"), answer]
        await within(memory.append(added, messages, "second result"))
        for last in (LAST, None):
            stored = await within(memory.load(added, last))
            case = f"{killed}; append its result in another replica, load(last={last})"
            differs = message_difference([*begun, *messages], stored)
            trials.hold(LATER, differs is None, case, "the call, and then its result",
                        str(differs), classify([*begun, *messages], stored))  # fmt: skip
        again = message("user", "third question")
        await within(memory.append(left, [again], "third question"))
        _windowed(trials, f"{killed}; the user speaks again, load(last={LAST})", [*begun, again],
                  await within(memory.load(left, LAST)), LAST)  # fmt: skip
    return trials.plain()


async def windows(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Check every window of a conversation with tools."""
    trials = Trials()
    stored: list[dict[str, Any]] = []
    for number in range(WINDOWED):
        stored += tool_turns.turn(f"turn {number}", 1 + number % 3)
        turn = stored[-(4 + number % 3) :]
        await within(memory.append(thread, turn, f"{number}"))
    for last in range(1, len(stored) + 2):
        try:
            window = await within(memory.load(thread, last))
        except Exception as error:
            trials.differ(OWN, f"load(last={last})", "messages", error)
            continue
        case = f"{WINDOWED} turns with tool calls ({len(stored)} messages), load(last={last})"
        _windowed(trials, case, stored, window, last)
    return trials.plain()


def _windowed(trials: Trials, case: str, stored: list[Any], window: list[Any], last: int) -> None:
    """Check a window; the plain last messages may need repair, any other window must not."""
    refused = tool_turns.refusal(window)
    plain = message_difference(stored[-last:], window) is None
    kind = REORDERED if window and tool_turns.is_complete(window) else MISSING
    trials.hold(TAKEN, not refused, case, "messages that model APIs accept", refused, kind)
    if not plain:
        empty = "" if window else "it is empty"
        kind = classify(stored[-last:], window, stored=stored)
        trials.hold(OWN, not refused and not empty, case, "messages that model APIs accept",
                    refused or empty, kind)  # fmt: skip
    else:
        trials.hold(OWN, True, "", "", "")
