"""9: monitoring of lookups."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Monitoring, Record
from stateward.audit.report import Evidence

PERCENTILES = ("p50", "p95", "p99")
UNTRUE_TIMES = 5  # a p95 that is so much less than the median is not one
UNTRUE_SECONDS = 0.005  # if it is by this much
IDLE_TIMES = 3  # what calls that do nothing take, taken off so many times


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
    if wrong := _untrue(seen):
        return Finding("fail", wrong, facts)
    if seen.early:
        return Finding("fail", f"the alarm {seen.early!r} fired before anything was wrong", facts)
    if not seen.outage:
        why = record.notes.get("monitoring", "so whether an alarm fires is unknown")
        said = f"the percentiles are there; no outage could be caused: {why}"
        return Finding("unknown", said, facts)
    if seen.suppressed < (10 if seen.alarm is None else 1):
        said = plural(seen.suppressed, "write was", "writes were")
        return Finding("unknown", f"only {said} suppressed: too few for an alarm", facts)
    if seen.alarm is None:
        return Finding("fail", "the store was down and no alarm fired", facts)
    if seen.alarm_after is None:
        return Finding("unknown", f"when the alarm {seen.alarm!r} fired is unknown", facts)
    if seen.alarm_after > limits["alarm_s"]:
        return Finding("fail", f"the alarm fired only after {seen.alarm_after:.0f} s", facts)
    said = f"the percentiles are there, and the alarm {seen.alarm!r} fired when the store was down"
    return Finding("pass", said, facts)


def _untrue(seen: Monitoring) -> str:
    """What the metrics say that is not so; "" if they may well be right."""
    if seen.made and seen.counted is not None and not 0.9 <= seen.counted / seen.made <= 1.2:
        lookups = plural(seen.made, "lookup was", "lookups were")
        return f"{seen.source} count {seen.counted} where {lookups} made"
    p95 = seen.percentiles.get("p95")
    if p95 is None:
        return ""
    for many, took, idle in (
        ("half of the lookups take", seen.median, seen.idle_median),
        ("one lookup in twelve takes", seen.slow, seen.idle),
    ):
        # What this machine takes for nothing at all is not the memory's.
        own = (took or 0.0) - IDLE_TIMES * (idle or 0.0)
        if own > UNTRUE_TIMES * p95 and own - p95 > UNTRUE_SECONDS:
            return (
                f"{seen.source} show a p95 of {p95 * 1000:.1f} ms where {many} more than "
                f"{1000 * (took or 0.0):.0f} ms"
            )
    return ""


QUESTION = Question(
    "monitoring",
    9,
    "Do you have monitoring for state lookup performance?",
    "CPU and memory look normal while agents lose their context. Only metrics of the state itself "
    "show it, and only an alert that really fires gets someone to act.",
    ("metrics",),
    ("monitoring",),
    "Measure every lookup, export p50, p95 and p99, and alert on suppressed writes. To test your "
    "own monitoring, pass --metrics-url and --alerts-url.",
    judge,
    ("monitoring",),
    severity="medium",
    means="No alert fires: users are the first to notice that the agent has lost its memory.",
)
