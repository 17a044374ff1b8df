"""19: a turn that is delivered again is stored once."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

UNIQUE = "Store the key with the turn, in one transaction, unique by conversation and key."
PROMISES = (
    Promise("once at once", "a turn delivered twice is stored more than once", UNIQUE),
    Promise("another conversation", "a key counts in another conversation, whose turn is lost",
            "Make keys unique by conversation and key together."),
    Promise("the same words", "the same words with another key are not stored again",
            "Identify turns by their key alone, not by their text."),
    Promise("the place", "a turn that is delivered again changes its place"),
    Promise("no error", "a turn that is delivered again raises an error",
            "Answer a known key as if its turn had just been stored."),
    Promise("keys that look alike", "a turn is mistaken for another whose key is similar",
            "Compare full keys byte for byte."),
    Promise("once later", "a turn delivered again later is stored once more",
            "Keep a key for as long as the turn itself."),
    Promise("once in flight",
            "a turn delivered by two replicas concurrently is not stored exactly once", UNIQUE),
    Promise("once after a restart", "a turn delivered again after a restart is stored once more",
            UNIQUE),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = "each turn is there once, however often, when and where it was delivered"
    return finding(record, record.keys, PROMISES, holds)


QUESTION = Question(
    "keys",
    19,
    "Is a turn that is delivered again stored once?",
    "Networks fail after the store has answered, queues deliver twice, users press the button "
    "again. Without a key the agent answers twice; with a wrong one it drops a turn.",
    ("threads", "keys"),
    ("keys",),
    UNIQUE,
    judge,
    ("keys",),
    severity="high",
    means="The agent answers twice, or a turn that the user sent is not there.",
    since=2,
)
