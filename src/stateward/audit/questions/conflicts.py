"""12: conflict resolution."""

from __future__ import annotations

from stateward.audit.differences import ALTERED, TOLD
from stateward.audit.questions.promise import Promise, with_promises
from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record
from stateward.audit.report import Evidence

COMPARED = (
    "Compare versions in the statement that writes, and refuse every version but the current."
)
ONLY_TOLD = {TOLD: "a put that must be refused is acknowledged, though nothing is stored"}
PROMISES = (
    Promise("current version accepted", "a put with the current version is refused", COMPARED,
            claims=()),
    Promise("old version refused", "a put with an old version is accepted", COMPARED,
            claims=(), sentences=ONLY_TOLD),
    Promise("future version refused", "a put with a version that never existed is accepted",
            COMPARED, claims=(), sentences=ONLY_TOLD),
    Promise("expect=0 only creates", "a put with expect=0 overwrites an existing document",
            COMPARED, claims=(), sentences=ONLY_TOLD),
    Promise("a refused put changes nothing", "a refused put has changed something", COMPARED),
    Promise("versions are reported", "versions are not reported, or are wrong"),
    Promise("a put increments the version", "a put does not increment the version"),
    Promise("an update increments the version", "an update does not increment the version"),
    Promise("another replica's change is detected", "another replica's change is overwritten",
            COMPARED, claims=(), sentences=ONLY_TOLD),
    Promise("one of several concurrent puts wins",
            "several puts for one version were all acknowledged",
            COMPARED, claims=(), sentences={ALTERED: "an acknowledged put is not what is stored"}),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    return with_promises(forced(record), record, record.version_checks, PROMISES)


def forced(record: Record) -> Finding:
    """Judge the conflicts that were forced."""
    conflicts = record.conflicts
    assert conflicts is not None
    if not conflicts.forced:
        return Finding("unknown", "no conflict was forced")
    missed = conflicts.forced - conflicts.detected
    facts = (
        zero("conflicts not detected", missed, conflicts.forced, "conflicts"),
        zero("states overwritten", conflicts.overwritten, conflicts.forced, "conflicts"),
        Evidence("reported with both versions", conflicts.both_versions, "", f"{conflicts.forced}"),
        Evidence("resolved by reading again", conflicts.resolved, "", f"{conflicts.forced}"),
    )
    if missed or conflicts.overwritten:
        summary = f"{plural(missed, 'conflict')} of {conflicts.forced} not detected"
        return Finding(
            "fail",
            f"{summary}; {plural(conflicts.overwritten, 'state')} overwritten",
            facts,
            conflicts.example,
        )
    if conflicts.resolved < conflicts.forced:
        summary = plural(conflicts.forced - conflicts.resolved, "conflict")
        summary = f"{summary} could not be resolved by reading again"
        return Finding("fail", summary, facts, conflicts.example)
    if conflicts.both_versions < conflicts.forced:
        summary = "every conflict was detected, but not reported with both versions"
        return Finding("warn", summary, facts, conflicts.example)
    all_of = plural(conflicts.forced, "conflict was", "conflicts were")
    summary = f"{all_of} detected, reported with both versions, and resolved"
    return Finding("pass", summary, facts)


QUESTION = Question(
    "conflicts",
    12,
    "Do you have mechanisms for state conflict resolution?",
    "Sooner or later an agent writes based on a state that is no longer current. A store that does "
    "not notice keeps the last write, and the other is lost silently.",
    ("users", "versions"),
    ("conflicts",),
    "Give every document a version, write with the version that was read, and raise an error that "
    "names both.",
    judge,
    ("conflicts", "version-conflicts"),
    severity="high",
    means="One agent's change silently overwrites another's.",
)
