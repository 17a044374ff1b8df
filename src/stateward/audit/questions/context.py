"""29: what the model is given has what it needs."""

from __future__ import annotations

from stateward.audit.differences import MISSING
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

TURNS = "Cut a conversation between turns, and keep a tool call and its results together."
PROMISES = (
    Promise("system instruction", "the instruction at the beginning is not in the context",
            "Put the system messages before every window, whatever its length."),
    Promise("newest message", "the newest message is not in the context",
            "Take a window from the end of the conversation, and read it from the store."),
    Promise("current question", "the current question is not in the context",
            "Keep the last question in front of the newest steps, however many there are."),
    Promise("tool calls with their results", "the context is one that models refuse", TURNS),
    Promise("no more messages than requested", "the context has more messages than were asked for"),
    Promise("messages as stored",
            "the context has messages that were never stored, or in another order",
            "Leave messages out, but do not change, duplicate or reorder them."),
    Promise("everything that fits", "messages are left out though there is room for all",
            "Leave out only what does not fit.", claims=(MISSING,)),
)  # fmt: skip
HOLDS = "the context had what the model needs, in windows of every length"

QUESTION = Question(
    "context",
    29,
    "Does the context have what the model needs?",
    "An agent knows only what is in its window. One that has lost its instructions, or the "
    "question it works on, continues regardless.",
    ("threads", "context"),
    ("context",),
    TURNS,
    judged_by("context", PROMISES, HOLDS),
    ("context",),
    severity="high",
    means="The agent forgets its instructions or the question while it is working.",
    optional=True,
)
