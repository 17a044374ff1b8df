"""18: the last messages of a conversation."""

from __future__ import annotations

from stateward.audit.differences import ALTERED, MISSING, REORDERED, SURPLUS
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

LONG = "Read the newest messages by their order, and put no limit on them but the caller's own."
NEWEST = "Order by a number that increases with every append, take the newest K, and reverse them."
ALL = "Return all messages when no number is given: no limit of your own, no page of the driver's."
PROMISES = (
    Promise("newest message", "a window lacks the newest message", NEWEST, refusable=False,
            claims=(MISSING,)),
    Promise("last K messages", "load(last=K) does not return the last K messages", NEWEST,
            refusable=False, claims=(MISSING, SURPLUS)),
    Promise("all messages", "a conversation is not returned whole", ALL, refusable=False,
            claims=(MISSING,)),
    Promise("last K messages of a long conversation",
            "load(last=K) of a long conversation does not return the last K messages", LONG,
            refusable=False, claims=(MISSING, SURPLUS)),
    Promise("all messages of a long conversation", "a long conversation is not returned whole",
            LONG,
            refusable=False, claims=(MISSING,)),
    Promise("order of appends", "turns of two replicas are not in the order in which they "
            "were stored", "Order by a number that the store gives, not by the replicas' clocks.",
            refusable=False, claims=(REORDERED,)),
    Promise("load(last=0)", "load(last=0) returns messages",
            "Return nothing for last=0: in Python, messages[-0:] are all of them.", weak=True),
    Promise("unknown conversation", "a conversation that was never written to is not empty",
            "Return an empty list for an id that was never written to.",
            refusable=False),
    Promise("callers get their own copy",
            "the next caller reads what one caller changed in its result",
            "Give every caller a copy: neither a cached list nor a shared default.",
            refusable=False, claims=(ALTERED, SURPLUS)),
)  # fmt: skip
HOLDS = "every window has the newest messages, oldest first, and no others"

QUESTION = Question(
    "windows",
    18,
    "Does the agent see the newest messages, all of them, in order?",
    "A model is given the last messages of a conversation. If the newest is not among them, or one "
    "more or less than asked for, the agent answers yesterday's question.",
    ("threads",),
    ("windows",),
    NEWEST,
    judged_by("windows", PROMISES, HOLDS),
    ("windows",),
    severity="critical",
    means="The agent answers without the newest message, or to the wrong part of the conversation.",
)
