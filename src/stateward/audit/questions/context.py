"""29: what the model is given has what it needs."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

TURNS = "Cut a conversation between turns, and keep a call and its results in one piece."
PROMISES = (
    Promise("the instruction", "the instruction at the beginning is not in the context",
            "Put the system messages before every window, whatever its length."),
    Promise("the newest message", "the newest message is not in the context",
            "Take a window from the end of the conversation, and read it from the store."),
    Promise("the question that is worked on", "the question that is worked on is not there",
            "Keep the last question in front of the newest steps, however many there are."),
    Promise("calls with their results", "the context is one that no model takes", TURNS),
    Promise("no more than asked for", "the context has more messages than were asked for"),
    Promise("as it was stored", "the context has what was never said, or in another order",
            "Leave messages out, but do not change, double or move them."),
    Promise("all that there is room for", "messages are left out though there is room for all",
            "Leave out only what does not fit."),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = "what was said was there when it was needed, in windows of every length"
    return finding(record, record.context, PROMISES, holds)


QUESTION = Question(
    "context",
    29,
    "Is what was said in the context when it is needed?",
    "An agent knows what is in its window and nothing else. One that has lost its instruction, or "
    "the question it works on, goes on all the same.",
    ("threads", "context"),
    ("context",),
    TURNS,
    judge,
    ("context",),
    severity="high",
    means="The agent forgets its instructions or the question in the middle of the work.",
    since=3,
    optional=True,
)
