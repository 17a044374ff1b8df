"""Judgement of how long the store lasts."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Record
from stateward.audit.report import Evidence, Growth

KEPT = 0.8  # of what an update writes; more is never removed


def projection(record: Record, limits: Thresholds) -> Growth | None:
    """Project the growth of the store; None if the store does not report its size."""
    growing = record.growing
    if (
        growing is None
        or growing.bytes_before is None
        or growing.bytes_after is None
        or not growing.turns
    ):
        return None
    a_turn = max(0.0, (growing.bytes_after - growing.bytes_before) / growing.turns)
    a_day = limits["turns_a_day"]
    days = None
    if growing.capacity is not None and a_turn > 0:
        days = max(0.0, growing.capacity - growing.bytes_after) / (a_turn * a_day)
    return Growth(a_turn, a_day, growing.capacity, growing.bytes_after, days)


def judge(record: Record, limits: Thresholds) -> Finding:
    lasting, lengthening = capacity(record, limits), history(record, limits)
    if lasting.verdict == "unknown" or (lengthening is None and lasting.verdict == "fail"):
        return lasting
    if lengthening is None:
        unseen = "the size of a turn in a long conversation was not measured"
        return Finding("unknown", unseen, lasting.evidence)
    order = ("fail", "warn", "pass")
    findings = (updates(record, limits), lengthening, lasting)
    worst = min(findings, key=lambda each: order.index(each.verdict))
    summary = [each.summary for each in findings if each.summary]
    facts = tuple(fact for each in reversed(findings) for fact in each.evidence)
    return Finding(worst.verdict, "; ".join(summary), facts, "", worst.remedy)


def updates(record: Record, limits: Thresholds) -> Finding:
    """Judge whether updates make a user's state take more room although its size stays the same."""
    growing = record.growing
    if (
        growing is None
        or growing.bytes_long is None
        or growing.bytes_updated is None
        or not growing.updates
    ):
        return Finding("pass", "")
    grown = growing.bytes_updated - growing.bytes_long
    each = grown / growing.updates
    facts: tuple[Evidence, ...] = (
        Evidence(f"bytes per update of {growing.document:,} bytes", round(each)),
    )
    if each < KEPT * growing.document or grown < limits["history_floor_bytes"]:
        return Finding("pass", "", facts)
    if growing.bytes_more is not None and growing.more_updates:
        each = (growing.bytes_more - growing.bytes_updated) / growing.more_updates
        facts = (*facts, Evidence(f"… after {growing.updates:,} of them", round(each)))
        if each < KEPT * growing.document:
            after = f"{grown:,} bytes after {growing.updates:,}"
            summary = f"old versions of a user's state are kept: {after}"
            return Finding("pass", summary, facts)
    summary = (
        f"every update of a user's state adds {each:,.0f} bytes, though its size stays at "
        f"{growing.document:,} bytes"
    )
    remedy = "Overwrite a user's state, or delete versions that are no longer needed."
    return Finding("fail", summary, facts, remedy=remedy)


def history(record: Record, limits: Thresholds) -> Finding | None:
    """Judge whether a turn takes more room in a longer conversation; None if not measured."""
    growing, grown = record.growing, projection(record, limits)
    if growing is None or grown is None or not grown.bytes_a_turn:
        return None
    if growing.bytes_after is None or growing.bytes_long is None or not growing.long_turns:
        return None
    long = (growing.bytes_long - growing.bytes_after) / growing.long_turns
    times = long / grown.bytes_a_turn
    facts = (
        Evidence(f"bytes a turn at about {growing.usual:,} messages", round(grown.bytes_a_turn)),
        Evidence(f"bytes a turn at {growing.long:,} messages", round(long)),
        Evidence("more with a long history", round(times, 1), "times"),
    )
    summary = (
        f"a turn takes {times:.1f} times the space with {growing.long:,} messages "
        f"({long:,.0f} bytes) as with about {growing.usual:,}"
    )
    remedy = "Store each message once, not the whole conversation again with every turn."
    if long - grown.bytes_a_turn > limits["history_floor_bytes"]:
        if times > limits["history_fail"]:
            return Finding("fail", summary, facts, remedy=remedy)
        if times > limits["history_warn"]:
            return Finding("warn", summary, facts, remedy=remedy)
    return Finding("pass", "", facts)


def capacity(record: Record, limits: Thresholds) -> Finding:
    """Judge how long the store lasts."""
    grown = projection(record, limits)
    if grown is None:
        return Finding("unknown", "the store does not report its size")
    a_day = grown.bytes_a_turn * grown.turns_a_day
    year, fits = a_day * 365, limits["state_fits_gb"]
    in_memory = fits * 1e9 / a_day if a_day else None
    facts = (
        Evidence("bytes a turn", round(grown.bytes_a_turn)),
        Evidence("turns a day", grown.turns_a_day, limit="your figure: turns_a_day"),
        Evidence("a year of turns", round(year / 1e9, 2), "GB"),
        Evidence("days to full", None if grown.days_to_full is None else round(grown.days_to_full)),
        Evidence(
            f"days until the state outgrows {fits:g} GB of memory",
            None if in_memory is None else round(in_memory),
            limit="your figure: state_fits_gb",
        ),
    )
    summary = f"{grown.bytes_a_turn:,.0f} bytes a turn; a year is {year / 1e9:.1f} GB"
    if grown.bytes_a_turn == 0:
        return Finding("unknown", "the store did not grow, so nothing can be projected", facts)
    days = grown.days_to_full
    if days is not None:
        summary += f"; full in {_days(days)}"
        if days < limits["days_fail"]:
            return Finding("fail", summary, facts)
        if days < limits["days_warn"]:
            return Finding("warn", summary, facts)
    else:
        summary += "; the store reports no limit"
    if in_memory is None:
        return Finding("unknown", f"{summary}, and turns_a_day is 0", facts)
    summary += f"; {fits:g} GB of memory would hold {_days(in_memory)} of turns"
    if days is None and in_memory < limits["days_warn"]:
        return Finding("warn", summary, facts)
    return Finding("pass", summary, facts)


def _days(days: float) -> str:
    return plural(round(days), "day")


QUESTION = Question(
    "growth",
    14,
    "Can state storage handle your growth projections?",
    "Conversations only ever grow. A store that is full refuses every turn, or, "
    "worse, evicts some.",
    ("sizes",),
    ("growing",),
    "Let conversations expire, sweep expired ones, and set turns_a_day under [thresholds] to your "
    "own figure before you decide.",
    judge,
    ("growth",),
    severity="medium",
    means="At some point every turn is refused, or old conversations disappear.",
)
