"""The model's context: the instruction, the question, and the turns that belong to it."""

from __future__ import annotations

from typing import Any

from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import tool_turns
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import Trials, merged, message_difference, within
from stateward.audit.workloads.workload import Stage, Workload

TURNS = 6
STEPS = 9  # tool calls of the last turn: more than most windows hold
LASTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40)
SYSTEM = message("system", "Answer in French. Never mention prices.")

INSTRUCTION = "system instruction"
NEWEST = "newest message"
QUESTION = "current question"
PAIRS = "tool calls with their results"
BOUND = "no more messages than requested"
AS_STORED = "messages as stored"
ALL = "everything that fits"


async def conduct(stage: Stage) -> None:
    one, other = await stage.fleet.start(2)
    thread, plain = stage.names("context", 2)
    checks = [
        await one.ask("context:talk", thread=thread),
        await other.ask("context:looks", thread=thread, long=False),
        await one.ask("context:work", thread=thread),
        await other.ask("context:looks", thread=thread, long=True),
        await other.ask("context:without_instruction", thread=plain),
    ]
    await stage.fleet.end(one, other)
    stage.record.context = merged(*checks)


WORKLOAD = Workload("context", "context", "reading the model's context", conduct)


# --- in a replica -----------------------------------------------------------------------


def _turns() -> list[list[dict[str, Any]]]:
    return [tool_turns.turn(f"turn {number}", 1 + number % 2) for number in range(TURNS)]


def _steps() -> list[list[dict[str, Any]]]:
    """Return the question of a turn that takes long, with its steps so far."""
    steps = [[tool_turns.call(f"step {n}"), *_results(f"step {n}")] for n in range(STEPS)]
    return [[message("user", "the long question")], *steps]


def _results(name: str) -> list[dict[str, Any]]:
    return [tool_turns.result(id) for id in tool_turns.ids(name)]


def _stored(long: bool) -> list[dict[str, Any]]:
    parts = [[SYSTEM], *_turns(), *(_steps() if long else [])]
    return [each for part in parts for each in part]


async def talk(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Append one turn after the other; each must be in the context immediately."""
    trials = Trials()
    await within(memory.append(thread, [SYSTEM], "system"))
    for number, turn in enumerate(_turns()):
        await within(memory.append(thread, turn, f"turn {number}"))
        await _looked(memory, trials, thread, _stored(False)[: 1 + _length(number + 1)], 8)
    return trials.plain()


def _length(turns: int) -> int:
    return sum(len(turn) for turn in _turns()[:turns])


async def work(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    trials, stored = Trials(), _stored(False)
    for number, step in enumerate(_steps()):
        await within(memory.append(thread, step, f"step {number}"))
        stored = [*stored, *step]
        await _looked(memory, trials, thread, stored, 8)
    return trials.plain()


async def looks(memory: Memory, tell: Any, thread: str, long: bool) -> list[dict[str, Any]]:
    trials, stored = Trials(), _stored(long)
    for last in (*LASTS, len(stored) - 1, len(stored), 10 * len(stored)):
        await _looked(memory, trials, thread, stored, last)
    return trials.plain()


async def without_instruction(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    trials, turns = Trials(), _turns()
    for number, turn in enumerate(turns):
        await within(memory.append(thread, turn, f"turn {number}"))
    stored = [each for turn in turns for each in turn]
    for last in LASTS:
        await _looked(memory, trials, thread, stored, last)
    return trials.plain()


async def _looked(
    memory: Memory, trials: Trials, thread: str, stored: list[dict[str, Any]], last: int
) -> None:
    case = f"{len(stored)} messages with tool calls, context(last={last})"
    try:
        context = list(await within(memory.call("context", thread, last)))
    except Exception as error:
        trials.differ(NEWEST, case, "messages", error)
        return
    names = [each.get("content") for each in context]
    if stored[0] == SYSTEM:
        first = message_difference([SYSTEM], context[:1])
        trials.hold(INSTRUCTION, first is None, case, repr(SYSTEM["content"]), f"{names[:2]}")
    spoken = [each for each in context if each.get("role") != "system"]
    written = [each for each in stored if each != SYSTEM]
    newest = message_difference(written[-1:], spoken[-1:])
    trials.hold(NEWEST, newest is None, case, repr(written[-1]["content"]), f"{names[-2:]}")
    refused = tool_turns.refusal(context)
    trials.hold(PAIRS, not refused, case, "messages that model APIs accept", refused)
    trials.hold(BOUND, len(spoken) <= last, case, f"{last} messages at most", f"{len(spoken)}")
    question = [each for each in written if each["role"] == "user"][-1]
    if last >= 4:  # room for it, and a step
        trials.hold(QUESTION, question["content"] in names, case, repr(question["content"]),
                    f"{names}")  # fmt: skip
    trials.hold(AS_STORED, _within(spoken, written), case, "messages as they are stored, in order",
                f"{names}")  # fmt: skip
    if len(written) <= last:
        trials.compare(ALL, case, len(written), len(spoken))


def _within(found: list[dict[str, Any]], stored: list[dict[str, Any]]) -> bool:
    """Return True if every message is stored, in this order."""
    rest = iter(stored)
    return all(any(message_difference([one], [each]) is None for one in rest) for each in found)
