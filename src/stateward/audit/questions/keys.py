"""19: a turn that is delivered again is stored once."""

from __future__ import annotations

from stateward.audit.differences import ERROR, LATE, MISSING, REORDERED, SURPLUS
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

UNIQUE = "Store the key with the turn, in one transaction, unique by conversation and key."
PROMISES = (
    Promise("redelivered immediately", "a turn delivered twice is stored more than once", UNIQUE,
            claims=(SURPLUS,)),
    Promise("same key in another conversation",
            "a key blocks a turn of another conversation, which is lost",
            "Make keys unique by conversation and key together.", claims=(MISSING,)),
    Promise("same text with another key", "the same text with another key is not stored again",
            "Identify turns by their key alone, not by their text.", claims=(MISSING,)),
    Promise("order kept", "a redelivered turn changes its place in the order",
            "Leave a turn whose key is known as it is: neither delete nor rewrite it.",
            claims=(REORDERED,)),
    Promise("redelivery raises no error", "redelivering a turn raises an error",
            "Answer a known key as if its turn had just been stored.", claims=(ERROR, LATE)),
    Promise("similar keys", "a turn is mistaken for another whose key is similar",
            "Compare full keys byte for byte.", claims=(MISSING,)),
    Promise("redelivered later", "a turn redelivered later is stored again",
            "Keep a key for as long as the turn itself.", claims=(SURPLUS,)),
    Promise("delivered concurrently",
            "a turn delivered by two replicas concurrently is not stored exactly once", UNIQUE,
            claims=(MISSING, SURPLUS)),
    Promise("redelivered after a restart", "a turn redelivered after a restart is stored again",
            UNIQUE, claims=(SURPLUS,)),
)  # fmt: skip
HOLDS = "each turn is stored once, no matter how often, when and where it was delivered"

QUESTION = Question(
    "keys",
    19,
    "Is a redelivered turn stored only once?",
    "Networks fail after the store has answered, queues deliver twice, users click the button "
    "again. Without a key the agent answers twice; with a wrong one it drops a turn.",
    ("threads", "keys"),
    ("keys",),
    UNIQUE,
    judged_by("keys", PROMISES, HOLDS),
    ("keys",),
    severity="high",
    means="The agent answers twice, or a turn that the user sent is not there.",
)
