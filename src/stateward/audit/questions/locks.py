"""20: locks exclude, expire, and stay with their holder."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

OWNED = "Release a lock only if its token still matches, in one statement or script."
PROMISES = (
    Promise("one holder at a time", "two holders have one lock at the same time",
            "Take a lock by one atomic write that fails if it is held (SET NX PX, a unique row)."),
    Promise("held for its ttl", "a lock ends before its ttl does",
            "Set the expiry to the ttl that was asked for."),
    Promise("free after release", "a lock is not free after its holder released it",
            "Release the lock when its block ends, also by an error."),
    Promise("other conversations not blocked", "the lock of one conversation blocks another",
            "Use a separate lock for each conversation, named by its full id."),
    Promise("free after its holder is killed", "the lock of a killed holder is never free again",
            "Give every lock an expiry that the store enforces."),
    Promise("a former holder cannot release it", "a former holder releases the next holder's lock",
            OWNED),
    Promise("a former holder's writes are refused",
            "a former holder's write is accepted after the next holder's",
            "Check the fence in the transaction that writes, not before it.", "fences"),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = (
        "one holder at a time; free when it is released, or some time after its holder is killed"
    )
    answer = finding(record, record.lock_checks, PROMISES, holds)
    if answer.verdict == "pass" and "fences" not in record.provides:
        summary = f"{holds}; but append takes no fence, so a paused holder can still write"
        return Finding("warn", summary, answer.evidence)
    return answer


QUESTION = Question(
    "locks",
    20,
    "Does a lock exclude others, and end with its holder?",
    "The holder of a lock relies on being alone. A lock that two can hold is worse than none, and "
    "one that is never released blocks the conversation permanently.",
    ("threads", "locks"),
    ("lock_checks",),
    "Take locks with one atomic write that carries an owner and an expiry, and give each holder an "
    "increasing token that every write is checked against.",
    judge,
    ("locks",),
    severity="high",
    means="Two agents work on one conversation concurrently, or none can any more.",
)
