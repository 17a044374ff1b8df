"""26: what a memory says that it keeps for some time only."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

EXPIRY = "Set the expiry anew with every turn, and with nothing else."
PROMISES = (
    Promise("kept so long", "a conversation is gone before its time", EXPIRY),
    Promise("prolonged by a turn", "a conversation that goes on is gone before its time", EXPIRY),
    Promise("gone afterwards", "a conversation is there after its time",
            "Sweep what has expired, and do not give it to anybody before it is swept."),
    Promise("not prolonged by a read", "reading a conversation prolongs it", EXPIRY),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    return finding(record, record.retention, PROMISES, "kept for as long as it says, and no longer")


QUESTION = Question(
    "retention",
    26,
    "Is it kept for as long as was said, and no longer?",
    "What is promised to be deleted must be gone, whoever looked at it meanwhile, and what is "
    "promised to be kept must be there.",
    ("threads", "retention"),
    ("retention",),
    EXPIRY,
    judge,
    ("retention",),
    severity="high",
    means="What was promised to be deleted is still there, or is gone too early.",
    since=2,
    optional=True,
)
