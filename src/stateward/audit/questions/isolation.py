"""23: each caller gets their own state, and no one else's."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.differences import ALTERED, ERROR, FOREIGN, MISSING, STALE, SURPLUS
from stateward.audit.questions.promise import ENDED, Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

TENANT = "separate tenants"
WHOLE = "own writes complete"
OWN_LOST = "While many people write, some of what they wrote is missing or out of date."
PROMISES = (
    Promise("a user's own state", "a user gets another user's state",
            "Keep nothing that belongs to one call in an attribute that all calls share.",
            "users"),
    Promise("a conversation's own messages", "a conversation contains messages of another",
            "Keep nothing that belongs to one call in an attribute that all calls share."),
    Promise(WHOLE, "what was just written is missing or changed while others write",
            "Write each person's state separately, not in one file or record of all people that "
            "is read, changed and written back.", claims=(MISSING, ALTERED, STALE)),
    Promise("default values",
            "a change that one caller makes to a default value is visible to all others",
            "Make a new object for every caller: no mutable default, no shared empty one."),
    Promise("after an error", "a failed call leaves data behind, or breaks the next call",
            "Serialise before anything is written, write in one transaction, and roll back.",
            claims=(SURPLUS, ERROR)),
    Promise("same id for several kinds", "a user, a task or a lock with the id of a conversation "
            "is mixed up with it", "Put the kind before the id, or use a table for each kind.",
            claims=(ALTERED, SURPLUS, FOREIGN)),
    Promise(TENANT, "one tenant reads or deletes what belongs to another",
            "Put the full tenant name and a separator before every id that is stored, looked up, "
            "locked, counted or deleted.", chance=True,
            claims=(MISSING, SURPLUS, ALTERED, FOREIGN)),  # not every target has tenants
    ENDED,
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = "each caller got their own state, under concurrency and after errors"
    answer = finding(record, record.isolation, PROMISES, holds)
    broken = {check.promise for check in record.isolation or () if check.differing}
    # No caller was given another's state, so the report must not say that.
    return replace(answer, means=OWN_LOST) if broken == {WHOLE} else answer


QUESTION = Question(
    "isolation",
    23,
    "Does each user get only their own state?",
    "One process serves many people concurrently. A leak from one conversation into another is a "
    "mistake that users do not forgive.",
    ("threads",),
    ("isolation",),
    "Keep nothing of one call in shared objects, bind every query to its id, and copy defaults.",
    judge,
    ("isolation",),
    by_chance=True,
    severity="critical",
    means="A user is shown what belongs to another.",
)
