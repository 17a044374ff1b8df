"""6: lookups under load."""

from __future__ import annotations

from stateward.audit.questions.question import (
    Finding,
    PartialFinding,
    Question,
    Thresholds,
    failed,
    plural,
)
from stateward.audit.record import Level, Record
from stateward.audit.report import Evidence, Severity

WINDOWS = 3
AGAIN = (
    "Run it again on a less busy machine, with a lower --rate or a longer --duration: this run "
    "says nothing about the store."
)


FAILING = (
    "First find out why calls fail: writes that overlap and damage what is read, a pool that is "
    "too small, a limit of the server, or a call that never ends."
)
MANY = 5.0  # per cent of calls that fail: few users are spared


def failing(summary: str, percent: float, facts: tuple[Evidence, ...]) -> Finding:
    """Return a failure for failing calls, which have their own remedy and consequence."""
    means = "Calls fail: users get an error, or the agent answers without its memory."
    severity: Severity = "critical" if percent > MANY else "high"
    return failed([PartialFinding(summary, FAILING, severity, means)], facts)


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.levels is not None
    if not record.levels:
        return Finding("unknown", "no load was applied")
    busiest = max(record.levels, key=lambda each: each.intended)
    finding = judge_level(busiest, limits)
    # What is slow or fails at one load is known, whatever is known of another.
    for verdict in ("fail", "warn"):
        if verdict == "warn" and finding.verdict != "pass":
            break
        tried = [(failed_percent(at), at.p95, judge_level(at, limits)) for at in record.levels]
        if hit := [each for each in tried if each[2].verdict == verdict]:
            return max(hit, key=lambda each: each[:2])[2]
    return finding


def failed_percent(level: Level) -> float:
    """Return the failed share of all calls, appends included."""
    calls = max(round(level.intended * level.seconds), level.lookups + level.failed)
    return 100 * level.failed / calls if calls else 0.0


def judge_level(level: Level, limits: Thresholds) -> Finding:
    """Judge one load. A generator that lagged proves nothing about latency, neither good nor bad.

    Calls that failed did, however they were made.
    """
    most = limits["lookup_p95_ms"]
    facts = (
        # None: no lookup was answered, so nothing was measured.
        Evidence("p50", level.p50 or None, "ms"),
        Evidence("p95", level.p95 or None, "ms", f"under {most:g} ms"),
        Evidence("p99", level.p99 or None, "ms", f"warning from {limits['lookup_p99_ms']:g} ms"),
        Evidence("intended rate", level.intended, "calls/s"),
        Evidence("achieved rate", level.achieved, "calls/s"),
        Evidence("failed calls", level.failed, "", f"{limits['errors_percent']:g} %"),
        Evidence("the generator's own lag, p99", level.lag, "ms"),
    )
    at = f"at {level.intended:g} calls/s over {plural(level.conversations, 'conversation')}"
    percent = failed_percent(level)
    if percent > limits["errors_percent"]:
        summary = ", ".join(f"{count} × {name}" for name, count in level.errors.items())
        return failing(f"{percent:.3g} % of calls failed {at}: {summary}", percent, facts)
    if level.lookups < limits["fewest_lookups"]:
        summary = plural(level.lookups, "lookup was", "lookups were")
        return Finding("unknown", f"only {summary} made {at}", facts)
    if doubt := doubtful(level, limits):
        return Finding("unknown", f"{doubt}, {at}", facts, remedy=AGAIN)
    over = [window for window in level.windows if window > most]
    p95 = f"p95 {level.p95:.1f} ms {at}, measured from the intended start"
    if len(over) >= 2:
        return Finding("fail", f"{p95}: over {most:g} ms in {len(over)} of 3 windows", facts)
    if level.p95 > most:
        return Finding("warn", f"{p95}: a stall in one of 3 windows", facts)
    if level.p99 > limits["lookup_p99_ms"]:
        return Finding("warn", f"{p95}, but p99 {level.p99:.0f} ms", facts)
    return Finding("pass", p95, facts)


def doubtful(level: Level, limits: Thresholds) -> str:
    """Say why this load tells nothing about the store's latency; "" if it does."""
    if not (level.p50 and level.p95 and level.p99 and level.conversations):
        return "no latency was measured"
    if len(level.windows) < WINDOWS:
        return f"lookups in only {len(level.windows)} of {WINDOWS} windows"
    if not level.lag:
        return "the generator's own lag was not measured"
    if level.lag > limits["generator_lag_ms"]:
        return f"the generator itself lagged {level.lag:.1f} ms, so its figures say nothing"
    achieved = 100 * level.achieved / level.intended if level.intended else 0.0
    # A generator that kept time and still was held up was held up by the store.
    held_up = level.p95 > limits["lookup_p95_ms"] and level.achieved > 0
    if achieved < limits["achieved_percent"] and not held_up:
        return f"only {achieved:.0f} % of the intended rate was achieved"
    return ""


QUESTION = Question(
    "latency",
    6,
    "Can you achieve sub-100 ms state lookups under load?",
    "Every turn begins with a lookup, and the user waits for it. A benchmark that makes "
    "one call at a time hides stalls.",
    ("threads",),
    ("levels",),
    "Read a window instead of the whole history, keep connections open, put an index on what is "
    "looked up, and move the store closer.",
    judge,
    ("load",),
    severity="medium",
    means="Every answer waits for the memory before the model starts.",
)
