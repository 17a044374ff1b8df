"""27: tool calls and their results stay together."""

from __future__ import annotations

from stateward.audit.differences import MISSING
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

REPAIR = (
    "Start a window at a user's message, and leave out tool calls without a result, before a "
    "model gets it."
)
PROMISES = (
    Promise("tool call and result after a kill",
            "after a kill, a tool call is stored without its result",
            "Write a turn in one transaction or one file operation: all of it or none.",
            claims=(MISSING,)),
    Promise("acknowledged tool calls", "an acknowledged tool call is gone after a kill",
            "Acknowledge an append only when it is stored, whatever its messages are.",
            claims=(MISSING,)),
    Promise("results added later", "a result added by another replica is not stored after its call",
            "Keep messages in the order of appends; a call may still get its result later.",
            claims=(MISSING,)),
    Promise("windows that leave messages out",
            "a window leaves out messages, and models refuse what remains", REPAIR,
            claims=(MISSING,)),
    Promise("windows that models accept",
            "a window has a tool's result without its call, or a call without its result", REPAIR,
            weak=True, claims=(MISSING,)),
)  # fmt: skip
HOLDS = "calls and results stayed together, after kills and in every window"

QUESTION = Question(
    "orphans",
    27,
    "Do tool calls and their results stay together?",
    "Models refuse a conversation in which a tool call has no result, or a result no call. If one "
    "process dies at the wrong moment, that conversation never gets an answer again.",
    ("threads",),
    ("orphans",),
    REPAIR,
    judged_by("orphans", PROMISES, HOLDS),
    ("orphans",),
    severity="high",
    means="After a crash, every further question in that conversation ends in an error.",
)
