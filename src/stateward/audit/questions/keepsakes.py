"""24: what was stored is still there later."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.differences import AGAIN, ALTERED, MISSING, STALE, SURPLUS
from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

TTL = "Set no expiry that was not asked for, and keep keys and results as long as turns."
AGAIN_LATER = "A message that is delivered again later is stored and answered twice."
PROMISES = (
    Promise("conversations", "a conversation is gone or changed later", TTL,
            claims=(MISSING, ALTERED, STALE)),
    Promise("users", "a user's state is gone or changed later", TTL, "users",
            claims=(MISSING, ALTERED, STALE)),
    Promise("keys", "a key is forgotten: a turn redelivered later is stored twice", TTL,
            "keys", claims=(SURPLUS,)),
    Promise("tasks", "a finished task runs again later", TTL, "tasks", claims=(AGAIN,)),
    Promise("workflows", "a finished workflow runs again later", TTL, "workflows"),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    answer = finding(record, record.lasting, PROMISES, "everything was unchanged later")
    broken = {check.promise for check in record.lasting or () if check.differing}
    # All that was stored is there, so the report must not say that it was forgotten.
    return replace(answer, severity="high", means=AGAIN_LATER) if broken == {"keys"} else answer


QUESTION = Question(
    "lasting",
    24,
    "Is stored state still there later?",
    "A cache with an expiry passes every short test. Users come back the next day, and queues "
    "redeliver after an hour.",
    ("threads",),
    ("lasting",),
    TTL,
    judge,
    ("keepsakes", "lasting"),
    severity="critical",
    means="The agent has forgotten by the time the user comes back.",
)
