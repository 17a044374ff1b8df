"""7: latency with many conversations, and with long ones."""

from __future__ import annotations

from holdfast.audit.history import Length, Level, Record
from holdfast.audit.questions.asking import Finding, Limits, Question
from holdfast.audit.report import Evidence

SPARE = 3  # times its own lag, that a generator is given before a store is blamed


def judge(record: Record, limits: Limits) -> Finding:
    assert record.levels is not None
    enough = [level for level in record.levels if level.lookups >= limits["fewest_lookups"]]
    facts = [
        Evidence(f"p95 at {level.conversations} conversations", level.p95, "ms", _limit(limits))
        for level in record.levels
    ]
    lengths = record.lengths or []
    facts += [Evidence(f"p50 with {each.messages:,} messages", each.p50, "ms") for each in lengths]
    many = [level for level in enough if level.conversations >= 10]
    if not many:
        return Finding("unknown", "too few lookups with 10 or more conversations", tuple(facts))
    failed = [level for level in many if _over(level, limits)]
    if failed:
        said = ", ".join(f"{level.p95:.0f} ms at {level.conversations}" for level in failed)
        return Finding("fail", f"p95 of lookups does not hold: {said} conversations", tuple(facts))
    doubtful = [level for level in many if level.p95 > limits["lookup_p95_ms"]]
    if doubtful:
        said = f"p95 {doubtful[0].p95:.0f} ms, but in one window or with a lagging generator"
        return Finding("unknown", said, tuple(facts))
    curve = ", ".join(f"{level.p95:.1f} ms at {level.conversations}" for level in record.levels)
    return _history(f"p95 holds: {curve} conversations", lengths, limits, tuple(facts))


def _limit(limits: Limits) -> str:
    return f"under {limits['lookup_p95_ms']:g} ms"


def _over(level: Level, limits: Limits) -> bool:
    most = limits["lookup_p95_ms"]
    windows = sum(window > most for window in level.windows)
    lagged = level.lag > limits["generator_lag_ms"]
    return windows >= 2 and not (lagged and level.p95 - SPARE * level.lag <= most)


def _history(
    said: str, lengths: list[Length], limits: Limits, facts: tuple[Evidence, ...]
) -> Finding:
    if len(lengths) < 2:
        return Finding("pass", said, facts)
    short, long = lengths[0], lengths[-1]
    times = long.p50 / max(short.p50, 1e-6)
    more = long.p50 - short.p50
    facts = (*facts, Evidence("slower with a long history", round(times, 1), "times"))
    grown = f"a lookup takes {times:.1f} times as long with {long.messages:,} messages"
    if more > limits["history_floor_ms"]:
        if times > limits["history_fail"]:
            return Finding("fail", f"{said}; but {grown} as with {short.messages}", facts)
        if times > limits["history_warn"]:
            return Finding("warn", f"{said}; but {grown} as with {short.messages}", facts)
    return Finding("pass", said, facts)


QUESTION = Question(
    "concurrency",
    7,
    "How does latency change with 10+ concurrent conversations?",
    "What is fast for one conversation may queue for a hundred, and slow down as "
    "each of them grows.",
    ("threads",),
    ("levels",),
    "Give every conversation a record of its own, append instead of rewriting, read the last "
    "messages only, and size the pool for the replicas.",
    judge,
    ("load", "history"),
)
