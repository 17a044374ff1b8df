"""13: the level of consistency."""

from __future__ import annotations

from collections import Counter

from stateward.audit.checkers.histories import Status
from stateward.audit.checkers.list_append import ListAppend, ListRead, Transaction, check
from stateward.audit.questions.engines import APPEND, on
from stateward.audit.questions.question import (
    Finding,
    PartialFinding,
    Question,
    Thresholds,
    failed,
    plural,
    zero,
)
from stateward.audit.record import Record, Step
from stateward.audit.report import Evidence

FEWEST = 100
BROKEN = {"lost append", "duplicate", "garbage read", "incompatible order", "aborted read"}
DAMAGED = "Turns that were stored are missing, doubled or in another order when they are read."


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.steps is not None
    steps = [step for step in record.steps if _is_usable(step)]
    appends = [s for s in steps if s.what == "append" and s.status == "ok"]
    reads = [s for s in steps if s.what == "read" and s.status == "ok"]
    if min(len(appends), len(reads)) < limits["fewest_turns"] or len(steps) < FEWEST:
        summary = f"{plural(len(appends), 'append')} and {plural(len(reads), 'read')}"
        return Finding("unknown", f"only {summary} succeeded: too few")
    if len({s.process for s in appends}) < 2:
        return Finding("unknown", "only one replica appended, so there was no race")
    anomalies = check([_transaction(step) for step in steps])
    names = Counter(anomaly.name for anomaly in anomalies)
    total = len(appends) + len(reads)
    facts = (
        zero("anomalies", len(anomalies), total, "operations"),
        Evidence("appends", len(appends)),
        Evidence("reads", len(reads)),
        *(Evidence(name, count) for name, count in names.items()),
    )
    if not anomalies:
        summary = "immediately: each conversation is strictly serializable"
        return Finding("pass", f"{summary} ({total:,} operations checked)", facts)
    counts = ", ".join(f"{count} × {name}" for name, count in names.items())
    worst = next((a for a in anomalies if a.name in BROKEN), anomalies[0])
    level = "not even eventually" if names.keys() & BROKEN else "eventually"
    summary = f"{level} consistent: {counts}"
    if names.keys() & BROKEN:
        problem = PartialFinding(summary, on(record, APPEND), "critical", DAMAGED)
        return failed([problem], facts, str(worst))
    return Finding("fail", summary, facts, str(worst))


def _is_usable(step: Step) -> bool:
    """Return True if the checker can use the step: it has both times, and an append has values."""
    return step.completed > step.invoked and bool(step.values or step.what == "read")


def _transaction(step: Step) -> Transaction:
    statuses: dict[str, Status] = {"ok": "ok", "fail": "fail"}
    status = statuses.get(step.status, "unknown")
    op: ListAppend | ListRead
    if step.what == "append":
        op = ListAppend(step.key, step.values[0])
    else:
        op = ListRead(step.key, tuple(step.values))
    return Transaction(step.process, step.invoked, step.completed, status, (op,))


QUESTION = Question(
    "consistency",
    13,
    "Is state eventually consistent or immediately consistent?",
    "An agent that reads stale state answers a question that was already settled. Which "
    "consistency a store offers must be known, not assumed.",
    ("threads",),
    ("steps",),
    "Read from the primary, revalidate caches at every read, and let one place decide the order of "
    "a conversation.",
    judge,
    ("consistency",),
    by_chance=True,
    severity="high",
    means="The agent answers from stale state.",
)
