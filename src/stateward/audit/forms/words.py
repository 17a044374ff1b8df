"""The wording of verdicts, figures and times, the same in every form of the report."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from stateward.audit.report import VERDICTS, Answer, Evidence, Money, Report, Setting, Verdict

MEANINGS: Final[dict[Verdict, str]] = {
    "pass": "shown by evidence",
    "warn": "holds, with a weakness",
    "fail": "shown to be broken",
    "unknown": "no evidence either way, which never counts as a pass",
    "error": "the check itself could not run",
    "absent": "the target does not provide this",
}

# What steers a terminal, no parser of XML takes, or reorders and hides the text around it.
_HARMFUL: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters but tab and newline
    "\\ud800-\\udfff\\ufffe\\uffff"
    "\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)
_SIZES: Final = ("bytes", "KB", "MB", "GB", "TB", "PB")


def plain(text: str) -> str:
    """The text with everything that would steer a terminal, a parser or the eye made visible."""
    return _HARMFUL.sub("\ufffd", text)


def line(text: str) -> str:
    """`plain`, on one line."""
    return " ".join(plain(text).split())


def sentence(text: str) -> str:
    """A finding that stands alone begins with a capital; "p95" and the like stay as they are."""
    word = text.split(" ", 1)[0].rstrip(",:;.")
    return text[0].upper() + text[1:] if word.isalpha() and word.islower() else text


def cells(text: str) -> int:
    """How many columns a text takes in type of one width."""
    return sum(cells_of(character) for character in text)


def cells_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def figure(value: float | str | bool | None) -> str:
    """A value as people read it: 12,000 · 3.42 · yes · not measured."""
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return plain(value)
    return number(value)


def number(value: float) -> str:
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15 or abs(value) < 0.001:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def measured(evidence: Evidence) -> str:
    """A fact's value with its unit."""
    value = figure(evidence.value)
    return (
        f"{value} {plain(evidence.unit)}" if evidence.unit and evidence.value is not None else value
    )


def size(count: float) -> str:
    """Bytes in words: 1.2 GB."""
    step = 0
    while abs(count) >= 1000 and step < len(_SIZES) - 1:
        count /= 1000
        step += 1
    return f"{number(float(f'{count:.3g}'))} {_SIZES[step]}"


def duration(seconds: float) -> str:
    """58 s, 12 min 5 s, 2 h 3 min."""
    if not math.isfinite(seconds) or seconds < 120:
        return f"{number(round(seconds, 1) if math.isfinite(seconds) else seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def moment(started: str) -> str:
    """An ISO 8601 time in UTC without its fractions; what is no such time stays as it is."""
    day, mark, clock = started.partition("T")
    if not mark or not (clock.endswith("Z") or clock.endswith("+00:00")):
        return line(started)
    return line(f"{day} {clock[:5]} UTC")


def counts(report: Report) -> list[tuple[Verdict, int]]:
    """How many answers have each verdict, worst first, without those that none has."""
    found = [(verdict, _how_many(report, verdict)) for verdict in VERDICTS]
    return [(verdict, many) for verdict, many in found if many]


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
    """Why a finding does not count, or nothing."""
    if answer.waived is None:
        return ""
    return line(f"waived until {answer.waived.until}: {answer.waived.reason}")


def source(setting: Setting) -> str:
    """Where a setting's value comes from."""
    return {
        "read": "read from the store",
        "declared": "declared, not verified",
        "blocked": "the store does not allow reading it",
    }[setting.source]


def growth(report: Report) -> str:
    """The projection in one sentence, or nothing."""
    found = report.growth
    if found is None:
        return ""
    a_day = found.bytes_a_turn * found.turns_a_day
    said = (
        f"{size(found.bytes_a_turn)} a turn × {number(found.turns_a_day)} turns a day "
        f"= {size(a_day)} a day"
    )
    if found.used is not None and found.capacity is not None:
        said += f"; {size(found.used)} of {size(found.capacity)} are used"
    elif found.capacity is not None:
        said += f"; there is room for {size(found.capacity)}"
    days = found.days_to_full
    if days is None or not math.isfinite(days):
        return f"{said}. When it will be full is unknown."
    return f"{said}. Full in {number(round(days))} days." if days > 0 else f"{said}. It is full."


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


def amount(value: float | None, currency: str) -> str:
    """Money: 1,234.50 USD."""
    return "an unknown amount" if value is None else f"{value:,.2f} {line(currency)}"


def bill(money: Money) -> Iterator[tuple[str, str, str, str]]:
    """The lines of a bill: what, how much of it, with persistence, without."""
    for part in money.parts:
        much = "not measured" if part.amount is None else number(float(f"{part.amount:.3g}"))
        unit = f" {part.unit}" if part.unit and part.amount is not None else ""
        on, off = amount(part.on, money.currency), amount(part.off, money.currency)
        yield part.what, f"{much}{unit}", on, off
    yield "total", "", amount(money.on, money.currency), amount(money.off, money.currency)


def interruption(report: Report) -> str:
    """Why the audit is not complete, or nothing."""
    if report.aborted:
        return f"The audit stopped: {line(report.aborted)}. What it did not reach is unknown."
    if report.interrupted:
        return "The audit was interrupted: what it did not reach is unknown."
    return ""


def left(report: Report) -> str:
    """What the audit could not remove, or nothing."""
    return sentence(line(report.left)) + "." if report.left else ""


def rows(values: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """What is nested as flat rows of a name and a text."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from rows(value, f"{path} · {name}" if path else str(name))
    elif isinstance(values, list | tuple) and all(isinstance(v, str | int | float) for v in values):
        yield line(path), ", ".join(figure(value) for value in values) or "none"
    elif isinstance(values, list | tuple):
        for at, value in enumerate(values, 1):
            yield from rows(value, f"{path} · {at}")
    elif isinstance(values, str | int | float | None):
        yield line(path), figure(values)
    else:
        yield line(path), plain(str(values))
