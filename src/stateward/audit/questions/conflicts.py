"""12: conflict resolution."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, with_promises
from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record
from stateward.audit.report import Evidence

COMPARED = "Compare the version in the very statement that writes, and refuse all but the same one."
PROMISES = (
    Promise("the right version", "a put with the right version is refused", COMPARED),
    Promise("too old", "a put with a version that is too old is taken", COMPARED),
    Promise("too new", "a put with a version that never was is taken", COMPARED),
    Promise("nought", "a put with expect=0 overwrites what is there", COMPARED),
    Promise("refused changes nothing", "a put that was refused has changed something", COMPARED),
    Promise("told", "versions are not told, or not the right ones"),
    Promise("raised by a put", "a put does not raise the version"),
    Promise("raised by an update", "an update does not raise the version"),
    Promise("a version that another changed", "another replica's change is overwritten", COMPARED),
    Promise("one of many wins", "several puts for one version were all told they were stored",
            COMPARED),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    return with_promises(forced(record), record, record.version_checks, PROMISES)


def forced(record: Record) -> Finding:
    """What came of conflicts that were forced."""
    seen = record.conflicts
    assert seen is not None
    if not seen.forced:
        return Finding("unknown", "no conflict was forced")
    missed = seen.forced - seen.detected
    facts = (
        zero("conflicts not noticed", missed, seen.forced, "conflicts"),
        zero("states overwritten", seen.overwritten, seen.forced, "conflicts"),
        Evidence("told with both versions", seen.both_versions, "", f"{seen.forced}"),
        Evidence("resolved by reading again", seen.resolved, "", f"{seen.forced}"),
    )
    if missed or seen.overwritten:
        said = f"{plural(missed, 'conflict')} of {seen.forced} not noticed"
        return Finding(
            "fail",
            f"{said}; {plural(seen.overwritten, 'state')} overwritten",
            facts,
            seen.example,
        )
    if seen.resolved < seen.forced:
        said = plural(seen.forced - seen.resolved, "conflict")
        said = f"{said} could not be resolved by reading again"
        return Finding("fail", said, facts, seen.example)
    if seen.both_versions < seen.forced:
        said = "every conflict was noticed, but not told with both versions"
        return Finding("warn", said, facts, seen.example)
    all_of = plural(seen.forced, "conflict was", "conflicts were")
    said = f"{all_of} noticed, told with both versions, and resolved"
    return Finding("pass", said, facts)


QUESTION = Question(
    "conflicts",
    12,
    "Do you have mechanisms for state conflict resolution?",
    "Somebody will write for a state that is no longer current. A store that does not notice keeps "
    "whoever came last, and nobody learns of the loss.",
    ("users", "versions"),
    ("conflicts",),
    "Give every document a version, write with the version that was read, and raise an error that "
    "tells both.",
    judge,
    ("conflicts", "versions"),
    severity="high",
    means="One agent's change silently undoes another's, and neither is told.",
)
