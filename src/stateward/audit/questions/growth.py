"""How long the store lasts."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural
from stateward.audit.record import Record
from stateward.audit.report import Evidence, Growth

KEPT = 0.8  # of what an update writes; more is never removed


def projection(record: Record, limits: Thresholds) -> Growth | None:
    """None if the store does not report its size."""
    seen = record.growing
    if seen is None or seen.bytes_before is None or seen.bytes_after is None or not seen.turns:
        return None
    a_turn = max(0.0, (seen.bytes_after - seen.bytes_before) / seen.turns)
    a_day = limits["turns_a_day"]
    days = None
    if seen.capacity is not None and a_turn > 0:
        days = max(0.0, seen.capacity - seen.bytes_after) / (a_turn * a_day)
    return Growth(a_turn, a_day, seen.capacity, seen.bytes_after, days)


def judge(record: Record, limits: Thresholds) -> Finding:
    lasting, lengthening = capacity(record, limits), history(record, limits)
    if lasting.verdict == "unknown" or (lengthening is None and lasting.verdict == "fail"):
        return lasting
    if lengthening is None:
        unseen = "the size of a turn in a long conversation was not measured"
        return Finding("unknown", unseen, lasting.evidence)
    order = ("fail", "warn", "pass")
    found = (updates(record, limits), lengthening, lasting)
    worst = min(found, key=lambda each: order.index(each.verdict))
    said = [each.summary for each in found if each.summary]
    facts = tuple(fact for each in reversed(found) for fact in each.evidence)
    return Finding(worst.verdict, "; ".join(said), facts, "", worst.remedy)


def updates(record: Record, limits: Thresholds) -> Finding:
    """Whether a user's state takes more room with every update, though it stays as large."""
    seen = record.growing
    if seen is None or seen.bytes_long is None or seen.bytes_updated is None or not seen.updates:
        return Finding("pass", "")
    grown = seen.bytes_updated - seen.bytes_long
    each = grown / seen.updates
    facts: tuple[Evidence, ...] = (
        Evidence(f"bytes per update of {seen.document:,} bytes", round(each)),
    )
    if each < KEPT * seen.document or grown < limits["history_floor_bytes"]:
        return Finding("pass", "", facts)
    if seen.bytes_more is not None and seen.more_updates:
        each = (seen.bytes_more - seen.bytes_updated) / seen.more_updates
        facts = (*facts, Evidence(f"… after {seen.updates:,} of them", round(each)))
        if each < KEPT * seen.document:
            said = (
                f"old versions of a user's state are kept: {grown:,} bytes after {seen.updates:,}"
            )
            return Finding("pass", said, facts)
    said = (
        f"every update of a user's state adds {each:,.0f} bytes, though its size stays at "
        f"{seen.document:,} bytes"
    )
    remedy = "Overwrite a user's state, or delete versions that are no longer needed."
    return Finding("fail", said, facts, remedy=remedy)


def history(record: Record, limits: Thresholds) -> Finding | None:
    """Whether a turn takes more room in a longer conversation; None if not measured."""
    seen, grown = record.growing, projection(record, limits)
    if seen is None or grown is None or not grown.bytes_a_turn:
        return None
    if seen.bytes_after is None or seen.bytes_long is None or not seen.long_turns:
        return None
    long = (seen.bytes_long - seen.bytes_after) / seen.long_turns
    times = long / grown.bytes_a_turn
    facts = (
        Evidence(f"bytes a turn at about {seen.usual:,} messages", round(grown.bytes_a_turn)),
        Evidence(f"bytes a turn at {seen.long:,} messages", round(long)),
        Evidence("more with a long history", round(times, 1), "times"),
    )
    said = (
        f"a turn takes {times:.1f} times the space with {seen.long:,} messages "
        f"({long:,.0f} bytes) as with about {seen.usual:,}"
    )
    remedy = "Store each message once, not the whole conversation again with every turn."
    if long - grown.bytes_a_turn > limits["history_floor_bytes"]:
        if times > limits["history_fail"]:
            return Finding("fail", said, facts, remedy=remedy)
        if times > limits["history_warn"]:
            return Finding("warn", said, facts, remedy=remedy)
    return Finding("pass", "", facts)


def capacity(record: Record, limits: Thresholds) -> Finding:
    """How long the store lasts."""
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
    said = f"{grown.bytes_a_turn:,.0f} bytes a turn; a year is {year / 1e9:.1f} GB"
    if grown.bytes_a_turn == 0:
        return Finding("unknown", "the store did not grow, so nothing can be projected", facts)
    days = grown.days_to_full
    if days is not None:
        said += f"; full in {_days(days)}"
        if days < limits["days_fail"]:
            return Finding("fail", said, facts)
        if days < limits["days_warn"]:
            return Finding("warn", said, facts)
    else:
        said += "; the store reports no limit"
    if in_memory is None:
        return Finding("unknown", f"{said}, and turns_a_day is 0", facts)
    said += f"; {fits:g} GB of memory would hold {_days(in_memory)} of turns"
    if days is None and in_memory < limits["days_warn"]:
        return Finding("warn", said, facts)
    return Finding("pass", said, facts)


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
