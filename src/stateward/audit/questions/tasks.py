"""21: tasks that run once, whatever happens to whoever runs them."""

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
    Promise("a task that takes long", "a task that takes long runs more than once", LEASE),
    Promise("a failure", "a task that failed is recorded as done", "Record results alone, not "
            "errors, and let go of the claim when the function raises."),
    Promise("a failure can be tried again", "a task that failed once cannot be tried again",
            "Let go of the claim when the function raises, and record no failure as an end."),
    Promise("others are given the result", "who asks for a task that runs elsewhere is told an "
            "error, and not its result", "Wait for the result of whoever runs it.", weak=True),
    Promise("results", "a result is not given again as it was",
            "Record that a task is done apart from its result, which may be null."),
    Promise("another task", "a task is held up by another, or taken for it"),
    Promise("once in one process", "a task asked for twice at once in one process runs twice",
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
    "A mail that is sent twice annoys; one that is never sent because its worker died after "
    "claiming it is noticed by nobody.",
    ("tasks",),
    ("task_checks",),
    LEASE,
    judge,
    ("task-faults",),
    severity="critical",
    means="A mail is sent twice, or never, and nobody notices.",
    since=2,
)
