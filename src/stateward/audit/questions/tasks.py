"""21: tasks that run once, whatever happens to their worker."""

from __future__ import annotations

from stateward.audit.differences import AGAIN, ERROR, NEVER, RESULT, SURPLUS
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

LEASE = (
    "Claim a task for a limited time, renew the claim while its function runs, and record the "
    "result together with the end of the claim."
)
PROMISES = (
    Promise("killed worker", "a task whose worker was killed is lost", LEASE, claims=(NEVER,)),
    Promise("long task", "a long task runs more than once", LEASE, claims=(AGAIN, SURPLUS)),
    Promise("failed task not recorded as done", "a failed task is recorded as done",
            "Record only results, not "
            "errors, and release the claim when the function raises.", claims=(NEVER,)),
    Promise("failed task can be retried", "a failed task cannot be retried",
            "Release the claim when the function raises, and do not record a failure as final.",
            chance=True),  # recorded only if it could not
    Promise("waiting callers get the result",
            "a caller gets an error instead of the result while a task runs elsewhere",
            "Wait for the result of the other worker.", weak=True, claims=(ERROR,)),
    Promise("results unchanged", "a recorded result is not returned unchanged",
            "Record separately from its result that a task is done: a result may be null.",
            claims=(RESULT,)),
    Promise("independent tasks", "a task is blocked by another, or mistaken for it",
            "Record and lock each task by its whole id, and nothing wider.", claims=(NEVER,)),
    Promise("concurrent calls in one process",
            "a task started twice concurrently in one process runs twice",
            LEASE, claims=(AGAIN,)),
)  # fmt: skip
HOLDS = "tasks of killed workers run again, all others once, and failed tasks can be retried"

QUESTION = Question(
    "tasks",
    21,
    "Does a task run once, and again if its worker dies?",
    "An email that is sent twice is annoying; one that is never sent because its worker died after "
    "claiming the task goes unnoticed.",
    ("tasks",),
    ("task_checks",),
    LEASE,
    judged_by("task_checks", PROMISES, HOLDS),
    ("tasks",),
    severity="critical",
    means="An email is sent twice, or never, and no error says so.",
)
