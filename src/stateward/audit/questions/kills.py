"""22: processes that are killed while they write."""

from __future__ import annotations

from stateward.audit.differences import AGAIN, ERROR, MISSING
from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

ONE = (
    "Write a whole turn, with its key, in one transaction, and acknowledge it when that is "
    "committed. With files: write a new file, flush it, then rename it over the old one."
)
NO_KILL = "the same without a kill"
ANYWAY = "one writer, without any kill"
# Whether a kill meets a turn in progress is chance: mostly it does.
PROMISES = (
    Promise("acknowledged turns", "acknowledged turns are lost when the process dies",
            "Acknowledge only what the store has written: no buffer, no background write.",
            claims=(MISSING,)),
    Promise("whole turns", "a kill leaves parts of a turn", ONE, chance=True, claims=(MISSING,)),
    Promise("data stays readable", "a kill leaves data that can no longer be read", ONE,
            claims=(ERROR,)),
    Promise("redelivery after a kill", "a turn that a kill interrupted cannot be redelivered", ONE,
            "keys", chance=True, claims=(ERROR,)),
    Promise("acknowledged users' state", "acknowledged users' state is lost",
            "Acknowledge only what the store has written: no buffer, no background write.",
            "users", claims=(MISSING,)),
    Promise("completed tasks", "completed tasks are forgotten",
            "Record the result before it is returned.", "tasks", chance=True, claims=(AGAIN,)),
    Promise(ANYWAY, "the same happens without any kill", chance=True, claims=()),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    holds = "everything acknowledged was there, and the rest was whole or absent"
    for check in record.kill_checks or ():
        if check.promise == NO_KILL:
            holds += (
                "; one writer at a time was tried, because concurrent writers lose or split turns "
                "without any kill: see question 10"
            )
    return finding(record, record.kill_checks, PROMISES, holds)


QUESTION = Question(
    "kills",
    22,
    "Does a process that is killed while it writes leave only whole turns?",
    "Processes are killed at any time: out of memory, a deployment, a lost node. No model accepts "
    "a conversation with half a turn, and an acknowledged turn must not be lost.",
    ("threads",),
    ("kill_checks",),
    ONE,
    judge,
    ("kills",),
    by_chance=True,
    severity="critical",
    means="After a crash, a conversation is torn or unreadable, or lacks acknowledged turns.",
)
