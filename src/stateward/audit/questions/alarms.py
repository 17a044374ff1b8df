"""9: monitoring of lookups."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Record
from stateward.audit.report import Evidence

PERCENTILES = ("p50", "p95", "p99")


def judge(record: Record, limits: Thresholds) -> Finding:
    seen = record.monitoring
    assert seen is not None
    there = [name for name in PERCENTILES if seen.percentiles.get(name) is not None]
    facts = (
        Evidence("lookups counted", seen.lookups),
        Evidence("percentiles shown", ", ".join(there) or "none", limit="p50, p95, p99"),
        Evidence("alarm", seen.alarm or "none"),
        Evidence(
            "after the tenth suppressed write", seen.alarm_after, "s", f"{limits['alarm_s']:g} s"
        ),
    )
    if not seen.lookups or len(there) < len(PERCENTILES):
        return Finding("fail", f"{seen.source} do not show the percentiles of lookups", facts)
    if not seen.outage:
        why = record.notes.get("monitoring", "so the alarm is not known")
        said = f"the percentiles are there; no outage could be made: {why}"
        return Finding("unknown", said, facts)
    if seen.suppressed < (10 if seen.alarm is None else 1):
        said = plural(seen.suppressed, "write was", "writes were")
        return Finding("unknown", f"only {said} suppressed: too few for an alarm", facts)
    if seen.alarm is None:
        return Finding("fail", "an outage was made and no alarm came", facts)
    if seen.alarm_after is None:
        return Finding("unknown", f"when the alarm {seen.alarm!r} came is not known", facts)
    if seen.alarm_after > limits["alarm_s"]:
        return Finding("fail", f"the alarm came only after {seen.alarm_after:.0f} s", facts)
    said = f"the percentiles are there, and the alarm {seen.alarm!r} came when the store was down"
    return Finding("pass", said, facts)


QUESTION = Question(
    "monitoring",
    9,
    "Do you have monitoring for state lookup performance?",
    "CPU and memory look normal while agents lose their context. Only the state's own figures show "
    "it, and only an alarm that really fires wakes somebody.",
    ("metrics",),
    ("monitoring",),
    "Measure every lookup, export p50, p95 and p99, and alert on suppressed writes. To drill your "
    "own monitoring pass --metrics-url and --alerts-url.",
    judge,
    ("monitoring",),
    severity="medium",
    means="Nobody is woken: users are the first to learn that the agent has lost its memory.",
)
