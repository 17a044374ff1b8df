"""3: workflow progress."""

from __future__ import annotations

from stateward.audit.differences import AGAIN, MISSING, NEVER, REORDERED, SURPLUS, TOLD
from stateward.audit.questions.promise import Promise, with_promises
from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record, WorkflowRun

LEASE = "Let one replica at a time drive a workflow, under a lease that is renewed while it does."
STEPS = {
    AGAIN: "a finished step runs again",
    MISSING: "a step is left out",
    REORDERED: "steps run in another order",
    SURPLUS: "steps after one that failed run",
    TOLD: "a workflow whose step raises ends without an error",
}
PROMISES = (
    Promise("steps run in order", "steps do not run once each, in order"),
    Promise("finished workflows do not run again", "steps of a finished workflow run again",
            "Record that a step is done before the next begins, and keep that record."),
    Promise("concurrent drivers", "steps run more than once when two replicas drive a workflow",
            LEASE, claims=(AGAIN,), sentences=STEPS),
    Promise("long step", "a long step runs more than once", LEASE, claims=(AGAIN,)),
    Promise("failed step not recorded as done", "a failed step is recorded as done",
            "Record a step when its function has returned, and raise what it raised.",
            claims=(NEVER,), sentences=STEPS),
    Promise("takeover by another replica", "no replica resumes an interrupted workflow", LEASE,
            claims=(NEVER,), sentences=STEPS),
    Promise("results of steps", "results of steps are lost",
            # Not every memory gives them.
            "Store the result of each step with it.", chance=True, claims=()),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    return with_promises(interrupted(record), record, record.workflow_checks, PROMISES)


def interrupted(record: Record) -> Finding:
    """Judge the workflows whose driver was killed in the middle of a step."""
    assert record.workflows is not None
    runs = [run for run in record.workflows if run.steps]
    if not any(run.finished and run.under_way for run in runs):
        return Finding("unknown", "no replica was killed between two steps")
    again = [(run, step) for run in runs for step in run.finished if step in run.afterwards]
    skipped = [(run, step) for run in runs for step in run.steps if _never_ran(run, step)]
    unfinished = [run for run in runs if not run.completed]
    finished = sum(len(run.finished) for run in runs)
    facts = (
        zero("finished steps that ran again", len(again), finished, "steps"),
        zero("steps that were skipped", len(skipped), finished, "steps"),
        zero("workflows that were never finished", len(unfinished), len(runs), "workflows"),
    )
    if not again and not skipped and not unfinished:
        them = "it" if len(runs) == 1 else "them"
        summary = f"{plural(len(runs), 'workflow')} continued in another replica "
        summary += f"after kill -9 had ended {them}"
        return Finding("pass", summary, facts)
    run = (again or skipped or [(unfinished[0], "")])[0][0]
    example = (
        f"{run.id}\n  finished before the kill: {run.finished}\n  in progress: {run.under_way}\n"
        f"  ran afterwards: {run.afterwards}"
    )
    summary = (
        f"{plural(len(again), 'finished step')} ran again, {len(skipped)} skipped, "
        f"{plural(len(unfinished), 'workflow')} never finished"
    )
    return Finding("fail", summary, facts, example)


def _never_ran(run: WorkflowRun, step: str) -> bool:
    return step not in run.finished and step not in run.afterwards


QUESTION = Question(
    "workflows",
    3,
    "Can it track multi-step workflow progress?",
    "A process may die between charging a card and sending the goods. The process that takes over "
    "must neither charge again nor forget to send.",
    ("workflows",),
    ("workflows",),
    "Record every finished step before the next begins, under a lease that one replica holds at a "
    "time, and resume from that record.",
    judge,
    ("workflows", "workflow-faults"),
    severity="critical",
    means="After a crash, a step runs twice or never: a card is charged twice, an order not sent.",
)
