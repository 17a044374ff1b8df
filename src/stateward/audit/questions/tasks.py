"""21: tasks that run once, whatever happens to their worker."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

LEASE = (
    "Claim a task for a limited time, renew the claim while its function runs, and record the "
    "result together with the end of the claim."
)
PROMISES = (
    Promise("the worker is killed", "a task whose worker was killed is lost", LEASE),
    Promise("a task that takes long", "a long task runs more than once", LEASE),
    Promise("a failure", "a task that failed is recorded as done", "Record only results, not "
            "errors, and release the claim when the function raises."),
    Promise("a failure can be tried again", "a task that failed once cannot be tried again",
            "Release the claim when the function raises, and do not record a failure as final."),
    Promise("others are given the result",
            "a caller that asks for a task which runs elsewhere gets an error, not its result",
            "Wait for the result of the other worker.", weak=True),
    Promise("results", "a recorded result is not returned unchanged",
            "Record separately from its result that a task is done: a result may be null."),
    Promise("another task", "a task is blocked by another, or mistaken for it"),
    Promise("once in one process", "a task started twice concurrently in one process runs twice",
            LEASE),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.task_checks or ()}
    again = "a failure can be tried again"  # recorded only if it could not
    promises = [each for each in PROMISES if each.name != again or each.name in tried]
    holds = "tasks of killed workers run again, all others once, and failures can be tried again"
    return finding(record, record.task_checks, promises, holds)


QUESTION = Question(
    "tasks",
    21,
    "Does a task run once, and again if its worker dies?",
    "An email that is sent twice is annoying; one that is never sent because its worker died after "
    "claiming the task goes unnoticed.",
    ("tasks",),
    ("task_checks",),
    LEASE,
    judge,
    ("task-faults",),
    severity="critical",
    means="An email is sent twice, or never, and no error says so.",
    since=2,
)
