"""23: nobody gets another's state."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

TENANT = "one's own tenant"
WHOLE = "all of one's own"
OWN_LOST = "While many people write at once, some of what they wrote is missing or not the newest."
PROMISES = (
    Promise("one's own state", "a user is given another user's state",
            "Keep nothing of a call in an attribute that all calls share."),
    Promise("one's own conversation", "a conversation is given messages of another",
            "Keep nothing of a call in an attribute that all calls share."),
    Promise(WHOLE, "what one has just written is missing or changed while others write theirs",
            "Write each person's state by itself: no file or record of all of them that is read, "
            "changed and written back."),
    Promise("what is not there yet", "what one caller does to a default, all others see",
            "Make a new object for every caller: no mutable default, no shared empty one."),
    Promise("after an error", "a call that failed leaves something, or spoils the next",
            "Serialise before anything is written, write in one transaction, and roll back."),
    Promise("one id for several kinds", "a user, a task or a lock with the id of a conversation "
            "is mixed up with it", "Put the kind before the id, or into a table of its own."),
    Promise(TENANT, "one tenant is given what is another's, or removes it",
            "Put the tenant, whole and with an end of its own, before every id that is stored, "
            "looked up, locked, counted and removed."),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.isolation or ()}
    promises = [
        each
        for each in PROMISES
        if (each.name != "one's own state" or "users" in record.provides)
        and (each.name != TENANT or each.name in tried)  # not every target has tenants
        and (each.name != WHOLE or record.format >= 4)
    ]
    holds = "everybody got their own, many at once and after errors"
    found = finding(record, record.isolation, promises, holds)
    broken = {check.promise for check in record.isolation or () if check.differing}
    # Nobody was given what is another's: that must not be said.
    return replace(found, means=OWN_LOST) if broken == {WHOLE} else found


QUESTION = Question(
    "isolation",
    23,
    "Does nobody ever get another's state?",
    "One process serves many people at once. What leaks from one conversation into another is the "
    "one mistake that users never forgive.",
    ("threads",),
    ("isolation",),
    "Keep nothing of a call in what calls share, bind every query to its id, and copy defaults.",
    judge,
    ("isolation",),
    severity="critical",
    means="A user is shown what belongs to another.",
    since=2,
)
