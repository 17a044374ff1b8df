"""9: monitoring of lookups."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Monitoring, Record
from stateward.audit.report import Evidence

PERCENTILES = ("p50", "p95", "p99")
DUE = 10  # suppressed writes, for which an alarm is due
UNTRUE_TIMES = 5  # a p95 that is so much less than the median is not one
UNTRUE_SECONDS = 0.005  # if it is by this much
IDLE_TIMES = 3  # times that the duration of empty calls is subtracted


def judge(record: Record, limits: Thresholds) -> Finding:
    monitoring = record.monitoring
    assert monitoring is not None
    measured = [name for name in PERCENTILES if monitoring.percentiles.get(name) is not None]
    facts = (
        Evidence("lookups counted", monitoring.lookups),
        Evidence("percentiles shown", ", ".join(measured) or "none", limit="p50, p95, p99"),
        Evidence("alarm", monitoring.alarm or "none"),
        Evidence(
            "after the tenth suppressed write",
            monitoring.alarm_after,
            "s",
            f"{limits['alarm_s']:g} s",
        ),
    )
    if len(measured) < len(PERCENTILES):
        return Finding("fail", f"{monitoring.source} do not show the percentiles of lookups", facts)
    if not monitoring.lookups:
        return Finding("fail", f"{monitoring.source} do not count lookups", facts)
    if wrong := _untrue(monitoring):
        return Finding("fail", wrong, facts)
    if monitoring.early:
        return Finding(
            "fail", f"the alarm {monitoring.early!r} fired before anything was wrong", facts
        )
    silent = "the percentiles are there"
    if "alarm" not in record.provides and not record.expects("alarm") and monitoring.alarm is None:
        return Finding("pass", f"{silent}; no alarm is expected", facts)
    if monitoring.refused >= DUE and not monitoring.suppressed and monitoring.alarm is None:
        summary = f"{silent}; while the store is down writes raise, so none is suppressed"
        return Finding("pass", summary, facts)
    if not monitoring.outage:
        why = record.notes.get("monitoring", "so whether an alarm fires is unknown")
        summary = f"the percentiles are there; no outage could be caused: {why}"
        return Finding("unknown", summary, facts)
    if monitoring.suppressed < (DUE if monitoring.alarm is None else 1):
        summary = plural(monitoring.suppressed, "write was", "writes were")
        return Finding("unknown", f"only {summary} suppressed: too few for an alarm", facts)
    if monitoring.alarm is None:
        return Finding("fail", "the store was down and no alarm fired", facts)
    if monitoring.alarm_after is None:
        return Finding("unknown", f"when the alarm {monitoring.alarm!r} fired is unknown", facts)
    if monitoring.alarm_after > limits["alarm_s"]:
        return Finding("fail", f"the alarm fired only after {monitoring.alarm_after:.0f} s", facts)
    fired = f"the alarm {monitoring.alarm!r} fired when the store was down"
    summary = f"the percentiles are there, and {fired}"
    return Finding("pass", summary, facts)


def _untrue(monitoring: Monitoring) -> str:
    """Return what the metrics report wrongly; "" if they may well be right."""
    if (
        monitoring.made
        and monitoring.counted is not None
        and not 0.9 <= monitoring.counted / monitoring.made <= 1.2
    ):
        lookups = plural(monitoring.made, "lookup was", "lookups were")
        return f"{monitoring.source} count {monitoring.counted} where {lookups} made"
    p95 = monitoring.percentiles.get("p95")
    if p95 is None:
        return ""
    for many, took, idle in (
        ("half of the lookups take", monitoring.median, monitoring.idle_median),
        ("one lookup in twelve takes", monitoring.slow, monitoring.idle),
    ):
        # What this machine takes for nothing at all is not the memory's.
        own = (took or 0.0) - IDLE_TIMES * (idle or 0.0)
        if own > UNTRUE_TIMES * p95 and own - p95 > UNTRUE_SECONDS:
            return (
                f"{monitoring.source} show a p95 of {p95 * 1000:.1f} ms where {many} more than "
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
