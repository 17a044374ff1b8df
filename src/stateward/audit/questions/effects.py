"""28: what tools do in the world, when processes die around it."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

KEY = (
    "Give every task and step a key made of its whole id and name, which is the same at every try "
    "in every replica, and pass it to the system that is acted on (an idempotency key)."
)
PROMISES = (
    Promise("it acts", "a tool never acts whose process was killed before, and nobody is told",
            "Mark work as done when its function has returned, not when it begins."),
    Promise("what is recorded is not done again", "a tool acts again though its task was done",
            "Store the result of a task before it is acknowledged."),
    Promise("the key is the same at every try", "a tool acts again under another key", KEY,
            "effects"),
    Promise("another act has another key", "two different acts have the same key", KEY, "effects"),
    Promise("an act that is repeated is told apart",
            "a tool that had acted before a kill acts again, and nothing tells", KEY, weak=True),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.effects or ()}
    # Whether anything is repeated depends on the memory, and a memory without keys has none.
    chance = {"the key is the same at every try", "an act that is repeated is told apart"}
    promises = [each for each in PROMISES if each.name not in chance or each.name in tried]
    holds = "every tool acted, and what was repeated could be told by its key"
    return finding(record, record.effects, promises, holds)


QUESTION = Question(
    "effects",
    28,
    "Does a tool act once, also when processes die around it?",
    "Between charging a card and writing that down, a process can die. Whoever goes on must "
    "neither forget the charge nor make it twice, and no store alone can see to that.",
    ("tasks",),
    ("effects",),
    KEY,
    judge,
    ("effects",),
    severity="critical",
    means="A card is charged twice, or an order is never sent, and nobody knows.",
    since=3,
    optional=True,
)
