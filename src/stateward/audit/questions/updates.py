"""11: one user's state changed by several agents concurrently."""

from __future__ import annotations

from stateward.audit.differences import ALTERED, FOREIGN, MISSING, SURPLUS, TOLD
from stateward.audit.questions.engines import UPDATE, on
from stateward.audit.questions.promise import Promise, with_promises
from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record
from stateward.audit.report import Evidence

COUNTED = {
    SURPLUS: "updates are counted twice",
    FOREIGN: "fields that no one updated are lost or changed",
}
PROMISES = (
    Promise("a put replaces the document", "a put merges with what was there",
            "Write the document as it was given.", claims=()),
    Promise("an update can remove fields", "an update keeps what its function removed", claims=()),
    Promise("an update gets the stored value",
            "an update's function does not get the stored value", claims=()),
    Promise("a failed update changes nothing",
            "an update whose function raises still changes the document",
            "Give the function a copy, and write only what it returns.", claims=(ALTERED, SURPLUS),
            sentences={TOLD: "an update whose function raises ends without an error"}),
    Promise("callers get their own copy",
            "the next caller reads what one caller changed in its result",
            "Give every caller a copy: neither a cached object nor a shared default.",
            claims=(ALTERED, SURPLUS)),
    Promise("no partial updates", "other callers see a partial update"),
    Promise("no update of a document is lost", "concurrent updates of several fields are lost",
            claims=(MISSING,), sentences=COUNTED),
    Promise("no update of a large document is lost", "updates of a large document are lost",
            claims=(MISSING,), sentences=COUNTED),
)  # fmt: skip
# What they need differs by engine.
RACES = {each.name for each in PROMISES[-3:]}


def judge(record: Record, limits: Thresholds) -> Finding:
    one = on(record, UPDATE)
    promises = [each._replace(remedy=one) if each.name in RACES else each for each in PROMISES]
    return with_promises(counted(record, limits), record, record.update_checks, promises)


def counted(record: Record, limits: Thresholds) -> Finding:
    """Judge whether the counter at the end matches the acknowledged updates."""
    updates = record.updates
    assert updates is not None
    if updates.acknowledged < limits["fewest_turns"]:
        summary = plural(updates.acknowledged, "update")
        return Finding("unknown", f"only {summary} succeeded: too few")
    if updates.replicas < 2:
        return Finding("unknown", "no two replicas made updates concurrently")
    lost = max(0, updates.acknowledged - updates.final)
    surplus = max(0, updates.final - updates.acknowledged - updates.unknown)
    facts = (
        zero("lost updates", lost, updates.acknowledged, "updates"),
        zero("surplus updates", surplus, updates.acknowledged, "updates"),
        Evidence("acknowledged", updates.acknowledged, "updates"),
        Evidence("failed", updates.unknown, "updates"),
        Evidence("counter at the end", updates.final),
    )
    if lost or surplus:
        summary = f"{lost} of {updates.acknowledged:,} acknowledged updates lost"
        if surplus:
            summary = f"{plural(surplus, 'update')} counted twice"
        adding = f"{updates.replicas} replicas: {updates.acknowledged} × +1"
        example = f"{adding}, and the counter is {updates.final}"
        return Finding("fail", summary, facts, example, on(record, UPDATE))
    made = f"{updates.acknowledged} updates by {updates.replicas} concurrent replicas"
    summary = f"{made}, and the sum is right"
    if updates.unknown > updates.acknowledged * 0.01:
        return Finding("warn", f"{summary}; {updates.unknown} were refused", facts)
    return Finding("pass", summary, facts)


QUESTION = Question(
    "updates",
    11,
    "Can multiple agents modify the same user state simultaneously?",
    "Several agents learn about one user at the same time. Reading, changing and writing back "
    "loses what the other has learned.",
    ("users",),
    ("updates",),
    "Change state by a function that runs again on a conflict (compare and swap), or inside one "
    "transaction that locks the row.",
    judge,
    ("updates", "document-updates"),
    by_chance=True,
    severity="critical",
    means="What one agent learned about a user is overwritten by another.",
)
