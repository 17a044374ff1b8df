"""The wording of verdicts and findings, the same in every form of the report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from stateward.audit.report import VERDICTS, Answer, Evidence, Money, Report, Setting, Verdict
from stateward.pages.words import amount, figure, line, number, plain, sentence, size

MEANINGS: Final[dict[Verdict, str]] = {
    "pass": "shown by evidence",
    "warn": "holds, with a weakness",
    "fail": "shown to be broken",
    "unknown": "no evidence either way, which never counts as a pass",
    "error": "the check itself could not run",
    "absent": "the target does not provide this",
}


def measured(evidence: Evidence) -> str:
    """A fact's value with its unit."""
    value = figure(evidence.value)
    return (
        f"{value} {plain(evidence.unit)}" if evidence.unit and evidence.value is not None else value
    )


def counts(report: Report) -> list[tuple[Verdict, int]]:
    """Count the answers of each verdict, worst first; verdicts without an answer are left out."""
    counted = [(verdict, _how_many(report, verdict)) for verdict in VERDICTS]
    return [(verdict, many) for verdict, many in counted if many]


def _how_many(report: Report, verdict: Verdict) -> int:
    return sum(answer.verdict == verdict for answer in report.answers)


def waived(report: Report) -> int:
    return sum(answer.waived is not None for answer in report.answers)


def needs_work(answer: Answer) -> bool:
    return answer.verdict != "pass"


def graded(answer: Answer) -> str:
    """A finding with its severity, if it is a failure."""
    if answer.verdict != "fail" or answer.severity is None:
        return answer.summary
    return f"{answer.severity}: {answer.summary}"


def waiver(answer: Answer) -> str:
    """Say why a finding does not count; empty if it does."""
    if answer.waived is None:
        return ""
    return line(f"waived until {answer.waived.until}: {answer.waived.reason}")


def source(setting: Setting) -> str:
    """Say where the value of a setting comes from."""
    return {
        "read": "read from the store",
        "declared": "declared, not verified",
        "blocked": "the store does not allow reading it",
    }[setting.source]


def growth(report: Report) -> str:
    """The projection in one sentence, or nothing."""
    projection = report.growth
    if projection is None:
        return ""
    a_day = projection.bytes_a_turn * projection.turns_a_day
    text = (
        f"{size(projection.bytes_a_turn)} a turn × {number(projection.turns_a_day)} turns a day "
        f"= {size(a_day)} a day"
    )
    if projection.used is not None and projection.capacity is not None:
        text += f"; {size(projection.used)} of {size(projection.capacity)} are used"
    elif projection.capacity is not None:
        text += f"; there is room for {size(projection.capacity)}"
    days = projection.days_to_full
    if days is None or not math.isfinite(days):
        return f"{text}. When it will be full is unknown."
    return f"{text}. Full in {number(round(days))} days." if days > 0 else f"{text}. It is full."


def money(report: Report) -> str:
    """The bill in one sentence, or nothing."""
    bill = report.money
    if bill is None:
        return ""
    at = f"{number(bill.agents)} agents cost"
    return (
        f"{at} {amount(bill.on, bill.currency)} a month with persistence, "
        f"{amount(bill.off, bill.currency)} without."
    )


def bill(money: Money) -> Iterator[tuple[str, str, str, str]]:
    """The lines of a bill: what, how much of it, with persistence, without."""
    for part in money.parts:
        much = "not measured" if part.amount is None else number(float(f"{part.amount:.3g}"))
        unit = f" {part.unit}" if part.unit and part.amount is not None else ""
        on, off = amount(part.on, money.currency), amount(part.off, money.currency)
        yield part.what, f"{much}{unit}", on, off
    yield "total", "", amount(money.on, money.currency), amount(money.off, money.currency)


def interruption(report: Report) -> str:
    """Say why the audit is not complete; empty if it is."""
    if report.aborted:
        return f"The audit stopped: {line(report.aborted)}. What it did not reach is unknown."
    if report.interrupted:
        return "The audit was interrupted: what it did not reach is unknown."
    return ""


def left(report: Report) -> str:
    """Return what the audit could not remove, or nothing."""
    return sentence(line(report.left)) + "." if report.left else ""


def attempts(answer: Answer) -> str:
    """Say how often to run the command of a failure that is a matter of chance, or nothing."""
    if not answer.reproduce or answer.attempts < 2:
        return ""
    return f"A race does not show in every run: try it up to {answer.attempts} times."
