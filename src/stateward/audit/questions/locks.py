"""20: locks exclude, expire, and stay with their holder."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

OWNED = "Let go of a lock only if its token is still one's own, in one statement or script."
PROMISES = (
    Promise("one at a time", "two hold one lock at the same time",
            "Take a lock by one atomic write that fails if it is held (SET NX PX, a unique row)."),
    Promise("as long as asked", "a lock ends before its ttl does",
            "Set the expiry to the ttl that was asked for."),
    Promise("let go", "a lock is not free when its holder has left",
            "Let go of the lock when its block ends, also by an error."),
    Promise("another conversation", "the lock of one conversation holds up another",
            "Make a lock of its own for each conversation, by its whole id."),
    Promise("the holder is killed", "the lock of a killed holder is never free again",
            "Give every lock an expiry that the store itself keeps."),
    Promise("a former holder frees nothing", "a former holder frees the lock of the next", OWNED),
    Promise("a former holder writes nothing", "a former holder's write is taken after the next's",
            "Check the fence in the transaction that writes, not before it.", "fences"),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = "one holder at a time; free when he leaves, or some time after he is killed"
    found = finding(record, record.lock_checks, PROMISES, holds)
    if found.verdict == "pass" and "fences" not in record.provides:
        said = f"{holds}; but append takes no fence, so that a holder who was paused writes on"
        return Finding("warn", said, found.evidence)
    return found


QUESTION = Question(
    "locks",
    20,
    "Does a lock exclude others, and end with its holder?",
    "Whoever holds the lock of a conversation believes to be alone. A lock that two can hold is "
    "worse than none, and one that nobody lets go of stops the conversation for good.",
    ("threads", "locks"),
    ("lock_checks",),
    "Take locks with one atomic write that carries an owner and an expiry, and give each holder a "
    "token that rises, which every write is checked against.",
    judge,
    ("exclusion",),
    severity="high",
    means="Two agents work on one conversation at once, or nobody can any more.",
    since=2,
)
