"""7: latency with many conversations, with long ones, and in replicas that have just started."""

from __future__ import annotations

from stateward.audit.questions.latency import AGAIN, doubtful, failed_percent, failing
from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Doubling, Length, Level, Record
from stateward.audit.report import Evidence, Verdict

FEWEST_COLD = 10  # lookups of replicas that have just started


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.levels is not None
    assert record.lengths is not None
    assert record.doubling is not None
    facts = _facts(record.levels, record.lengths, record.doubling, limits)
    if refused := [
        level for level in record.levels if failed_percent(level) > limits["errors_percent"]
    ]:
        summary = ", ".join(
            f"{failed_percent(level):.3g} % at {level.conversations}" for level in refused
        )
        errors = " and ".join(dict.fromkeys(name for level in refused for name in level.errors))
        most = max(map(failed_percent, refused))
        return failing(f"calls fail: {summary} conversations ({errors})", most, facts)
    enough = [level for level in record.levels if level.lookups >= limits["fewest_lookups"]]
    many = [level for level in enough if level.conversations >= 10]
    if not many:
        return Finding("unknown", "too few lookups with 10 or more conversations", facts)
    for level in many:
        if doubt := doubtful(level, limits):
            at = plural(level.conversations, "conversation")
            return Finding("unknown", f"{doubt}, with {at} at a time", facts, remedy=AGAIN)
    failed = [level for level in many if _windows_over(level, limits) >= 2]
    if failed:
        summary = ", ".join(f"{level.p95:.0f} ms at {level.conversations}" for level in failed)
        return Finding("fail", f"p95 of lookups does not hold: {summary} conversations", facts)
    stalled = [level for level in many if level.p95 > limits["lookup_p95_ms"]]
    if stalled:
        summary = f"p95 {stalled[0].p95:.0f} ms at {stalled[0].conversations} conversations"
        return Finding("warn", f"{summary}: a stall in one of 3 windows", facts)
    curve = ", ".join(f"{level.p95:.1f} ms at {level.conversations}" for level in record.levels)
    parts = [_history(record.lengths, limits), _cold(record.doubling, limits)]
    order: tuple[Verdict, ...] = ("fail", "unknown", "warn")
    for verdict in order:
        wrong = "; ".join(summary for judged, summary in parts if judged == verdict)
        if wrong:
            return Finding(verdict, f"p95 holds: {curve} conversations; but {wrong}", facts)
    return Finding("pass", f"p95 holds: {curve} conversations", facts)


def _facts(
    levels: list[Level], lengths: list[Length], doubling: Doubling, limits: Thresholds
) -> tuple[Evidence, ...]:
    most = f"under {limits['lookup_p95_ms']:g} ms"
    joined = f"replicas {doubling.before} → {doubling.after}"
    return (
        *(
            Evidence(f"p95 at {plural(each.conversations, 'conversation')}", each.p95, "ms", most)
            for each in levels
            if each.lookups
        ),
        *(
            Evidence(f"failed calls at {plural(each.conversations, 'conversation')}", each.failed)
            for each in levels
            if each.failed
        ),
        *(
            Evidence(f"p50 with {each.messages:,} messages", each.p50 or None, "ms")
            for each in lengths
        ),
        Evidence(f"{joined}: p50 of the first lookups", doubling.cold_p50 or None, "ms"),
        Evidence(f"{joined}: p95 of the first lookups", doubling.cold_p95 or None, "ms"),
        Evidence(f"{joined}: p50 of the warm ones", doubling.warm_p50 or None, "ms"),
    )


def _windows_over(level: Level, limits: Thresholds) -> int:
    return sum(window > limits["lookup_p95_ms"] for window in level.windows)


def _history(lengths: list[Length], limits: Thresholds) -> tuple[Verdict, str]:
    """Judge how the duration of a lookup follows the length of the history."""
    if len(lengths) < 2 or not all(each.p50 and each.messages for each in lengths):
        return "unknown", "long histories were not measured"
    short, long = lengths[0], lengths[-1]
    times = long.p50 / short.p50
    summary = f"a lookup takes {times:.1f} times as long with {long.messages:,} messages"
    summary += f" as with {short.messages}"
    if long.p50 - short.p50 <= limits["history_floor_ms"] or times <= limits["history_warn"]:
        return "pass", summary
    return "fail" if times > limits["history_fail"] else "warn", summary


def _cold(load: Doubling, limits: Thresholds) -> tuple[Verdict, str]:
    """Judge lookups in a replica that has just joined."""
    if load.lookups < FEWEST_COLD or not load.before < load.after:
        return "unknown", "replicas that join under load were not measured"
    if not (load.cold_p50 and load.warm_p50 and load.lag):
        return "unknown", "the first lookups of a joining replica were not measured"
    if load.lag > limits["generator_lag_ms"]:
        return "unknown", f"the generator lagged {load.lag:.1f} ms while replicas joined"
    times = load.cold_p50 / load.warm_p50
    summary = f"the first lookups of a new replica take {times:.1f} times as long as the others"
    slower = load.cold_p50 - load.warm_p50 > limits["cold_floor_ms"]
    return "warn" if slower and times > limits["cold_warn"] else "pass", summary


QUESTION = Question(
    "concurrency",
    7,
    "How does latency change with 10+ concurrent conversations?",
    "What is fast for one conversation may queue for a hundred, slow down as each of them grows, "
    "and be cold in every replica that auto-scaling adds.",
    ("threads",),
    ("levels", "lengths", "doubling"),
    "Store every conversation separately, append instead of rewriting, read only the last "
    "messages, size the pool for the replicas, and open the store before a replica gets its "
    "first conversation.",
    judge,
    ("load", "more-replicas", "history"),
    severity="medium",
    means="The agent gets slower as more people talk to it, and as conversations get longer.",
)
