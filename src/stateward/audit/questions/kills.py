"""22: processes that are killed while they write."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

ONE = (
    "Write all of a turn, with its key, in one transaction, and acknowledge it when that is "
    "committed. Files: write beside the old one, flush, then rename."
)
NO_KILL = "the same without a kill"
PROMISES = (
    Promise("what was acknowledged", "turns that were acknowledged are lost when the process dies",
            "Answer only when the store has it: no buffer, no background write."),
    Promise("all or none", "a kill leaves parts of a turn", ONE),
    Promise("readable", "a kill leaves what cannot be read any more", ONE),
    Promise("delivered again after a kill", "a turn that a kill interrupted cannot be delivered "
            "again", ONE, "keys"),
    Promise("users' state that was acknowledged", "users' state that was acknowledged is lost",
            "Answer only when the store has it: no buffer, no background write.", "users"),
    Promise("tasks that were acknowledged", "tasks that were done are forgotten",
            "Record the result before it is returned.", "tasks"),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.kill_checks or ()}
    # Whether a kill meets a turn under way is chance: mostly it does.
    chance = ("all or none", "delivered again after a kill", "tasks that were acknowledged")
    promises = [each for each in PROMISES if each.name not in chance or each.name in tried]
    holds = "what was acknowledged was there, and the rest was whole or absent"
    for check in record.kill_checks or ():
        if check.promise == NO_KILL:
            holds += (
                "; only with one writer at a time: several at once lose or split turns without "
                f"any kill ({check.differing} of {check.tried:,}, see races)"
            )
    return finding(record, record.kill_checks, promises, holds)


QUESTION = Question(
    "kills",
    22,
    "Does a process that is killed while it writes leave whole turns only?",
    "Processes are killed at any moment: out of memory, a deployment, a lost node. Half a turn "
    "is a conversation that no model accepts, and one that was confirmed must not be gone.",
    ("threads",),
    ("kill_checks",),
    ONE,
    judge,
    ("kills",),
    severity="critical",
    means="After a crash a conversation is torn or unreadable, or lacks what was confirmed.",
    since=2,
)
