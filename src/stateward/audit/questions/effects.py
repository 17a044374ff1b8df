"""28: what tools do in the world when processes die."""

from __future__ import annotations

from stateward.audit.differences import AGAIN, MISSING, SURPLUS
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

KEY = (
    "Give every task and step an idempotency key made of its full id and name, the same for every "
    "attempt in every replica, and pass it to the system that the tool calls."
)
# Whether anything is repeated depends on the memory, and a memory without keys has none.
PROMISES = (
    Promise("every tool acts", "a tool whose process was killed never acts, and no error says so",
            "Mark work as done when its function has returned, not when it starts.",
            claims=(MISSING,), sentences={SURPLUS: "a tool acts more than once"}),
    Promise("completed work is not repeated", "a tool acts again after its task was completed",
            "Store the result of a task before it is acknowledged.", claims=(AGAIN,)),
    Promise("same key for every attempt", "a tool acts again under another key", KEY,
            "effects", chance=True),
    Promise("different keys for different actions", "two different actions have the same key", KEY,
            "effects"),
    Promise("repeated actions can be detected",
            "a tool that acted before a kill acts again, undetectably", KEY, weak=True,
            chance=True),
)  # fmt: skip
HOLDS = "every tool acted, and repeated calls could be detected by their key"

QUESTION = Question(
    "effects",
    28,
    "Does a tool act once, even if a process dies?",
    "A process can die between charging a card and recording that. The process that takes over "
    "must neither forget the charge nor repeat it, and no store can ensure that alone.",
    ("tasks",),
    ("effects",),
    KEY,
    judged_by("effects", PROMISES, HOLDS),
    ("effects",),
    severity="critical",
    means="A card is charged twice, or an order is never sent, and no error says so.",
    optional=True,
)
