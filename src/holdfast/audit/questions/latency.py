"""6: lookups under load."""

from __future__ import annotations

from holdfast.audit.history import Level, Record
from holdfast.audit.questions.asking import Finding, Limits, Question
from holdfast.audit.report import Evidence

SPARE = 3  # times its own lag, that a generator is given before a store is blamed


def judge(record: Record, limits: Limits) -> Finding:
    assert record.levels is not None
    if not record.levels:
        return Finding("unknown", "no load was made")
    level = max(record.levels, key=lambda each: each.intended)
    return judge_level(level, limits)


def judge_level(level: Level, limits: Limits) -> Finding:
    """One load. A store is blamed only for what its generator cannot have caused."""
    most, calls = limits["lookup_p95_ms"], level.lookups + level.failed
    facts = (
        Evidence("p50", level.p50, "ms"),
        Evidence("p95", level.p95, "ms", f"under {most:g} ms"),
        Evidence("p99", level.p99, "ms", f"warning from {limits['lookup_p99_ms']:g} ms"),
        Evidence("intended rate", level.intended, "calls/s"),
        Evidence("achieved rate", level.achieved, "calls/s"),
        Evidence("failed calls", level.failed, "", f"{limits['errors_percent']:g} %"),
        Evidence("the generator's own lag, p99", level.lag, "ms"),
    )
    at = f"at {level.intended:g} calls/s over {level.conversations} conversations"
    if level.lookups < limits["fewest_lookups"]:
        return Finding("unknown", f"only {level.lookups} lookups were made {at}", facts)
    failed = 100 * level.failed / calls
    if failed > limits["errors_percent"]:
        said = ", ".join(f"{count} × {name}" for name, count in level.errors.items())
        return Finding("fail", f"{failed:.1f} % of calls failed {at}: {said}", facts)
    over = [window for window in level.windows if window > most]
    excused = limits["generator_lag_ms"] < level.lag and level.p95 - SPARE * level.lag <= most
    p95 = f"p95 {level.p95:.1f} ms {at}, measured from the intended start"
    if level.p95 > most and excused:
        return Finding("unknown", f"{p95}; but the generator itself lagged {level.lag:g} ms", facts)
    if len(over) >= 2:
        return Finding("fail", f"{p95}: over {most:g} ms in {len(over)} of 3 windows", facts)
    achieved = 100 * level.achieved / level.intended if level.intended else 0.0
    if achieved < limits["achieved_percent"] and level.p95 <= most:
        return Finding("unknown", f"only {achieved:.0f} % of the intended rate was achieved", facts)
    if level.p95 > most:
        return Finding("warn", f"{p95}: a stall in one of 3 windows", facts)
    if level.p99 > limits["lookup_p99_ms"] and not excused:
        return Finding("warn", f"{p95}, but p99 {level.p99:.0f} ms", facts)
    return Finding("pass", p95, facts)


QUESTION = Question(
    "latency",
    6,
    "Can you achieve sub-100 ms state lookups under load?",
    "Every turn begins with a lookup, and the user waits for it. What is measured one call at a "
    "time hides every stall from itself.",
    ("threads",),
    ("levels",),
    "Read a window instead of the whole history, keep connections open, put an index on what is "
    "looked up, and move the store closer.",
    judge,
    ("load",),
)
