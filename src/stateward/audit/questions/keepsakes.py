"""24: what was stored is still there some time later."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

TTL = "Give nothing an expiry that nobody asked for, and keep keys and results as long as turns."
PROMISES = (
    Promise("conversations", "a conversation is gone, or changed, some time later", TTL),
    Promise("users", "a user's state is gone, or changed, some time later", TTL, "users"),
    Promise("keys", "a key is forgotten: a turn delivered again later is stored twice", TTL,
            "keys"),
    Promise("tasks", "a task that is done runs again some time later", TTL, "tasks"),
    Promise("workflows", "a workflow that is done runs again some time later", TTL, "workflows"),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    return finding(record, record.lasting, PROMISES, "all was as it had been put away")


QUESTION = Question(
    "lasting",
    24,
    "Is it still there some time later?",
    "A cache with an expiry looks like a memory for as long as a test lasts. Users come back "
    "tomorrow, and queues deliver again after an hour.",
    ("threads",),
    ("lasting",),
    TTL,
    judge,
    ("keepsakes", "lasting"),
    severity="critical",
    means="The agent has forgotten by the time the user comes back.",
    since=2,
)
