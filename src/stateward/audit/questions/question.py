"""A question of the audit, its finding, and phrases that several questions use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from stateward.audit.record import Record
from stateward.audit.report import SEVERITIES, Evidence, Severity, Verdict
from stateward.pages.words import plural as plural

Thresholds = Mapping[str, float]


class Finding(Struct, frozen=True):
    """Answer to one question."""

    verdict: Verdict
    summary: str
    evidence: tuple[Evidence, ...] = ()
    counter_example: str = ""
    remedy: str = ""  # instead of the question's own
    severity: Severity | None = None  # and this
    means: str = ""  # and this


class PartialFinding(NamedTuple):
    """One of several defects of a question; an empty field takes the value of the question."""

    summary: str
    remedy: str = ""
    severity: Severity | None = None
    means: str = ""


def failed(
    problems: Sequence[PartialFinding], facts: tuple[Evidence, ...] = (), example: str = ""
) -> Finding:
    """Return a failure as grave as its gravest problems, with what those mean for users."""
    grave = [each for each in problems if each.severity is None]  # takes the question's severity
    if not grave:
        worst = min(problems, key=lambda each: SEVERITIES.index(each.severity or "low")).severity
        grave = [each for each in problems if each.severity == worst]
    return Finding(
        "fail",
        "; ".join(each.summary for each in problems),
        facts,
        example,
        each_once(each.remedy for each in problems),
        grave[0].severity,
        each_once(each.means for each in grave),
    )


def each_once(sentences: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(each for each in sentences if each))


Judge = Callable[[Record, Thresholds], Finding]


class Question(Struct, frozen=True):
    """One question of the audit: its text, what its answer requires, and the remedy for a failure.

    `judge` is a function of what was recorded, and of nothing else.
    """

    id: str
    number: int | None
    question: str
    why: str
    needs: tuple[str, ...]  # parts of the target; without one of them the answer is "absent"
    evidence: tuple[str, ...]  # fields of the record; without one of them it is "unknown"
    remedy: str
    judge: Judge
    workloads: tuple[str, ...]
    severity: Severity = "high"  # of a failure; "critical": accepted data is lost or changed
    means: str = ""  # effect of a failure that users notice
    optional: bool = False  # skipped for a target without the needed part
    by_chance: bool = False  # a failure is a race, which does not show in every run
    beside: str = ""  # a part beside the target, without which there is no evidence


def power(of: int) -> str:
    """The failure rate that a count of zero rules out: the rule of three.

    Few trials rule out no rate; that they were made says enough of what is no matter of chance.
    """
    if of <= 3:
        return ("not tried", "tried once: it held")[of] if of < 2 else f"tried {of} times: all held"
    rate = f"1 in {of // 3:,}" if of >= 30 else f"{100 * 3 / of:.0f} %"
    return f"0 of {of:,}: a rate above {rate} would have been detected (95 % confidence)"


def zero(what: str, count: int, of: int, unit: str = "turns") -> Evidence:
    """A count that must be zero."""
    return Evidence(what, count, unit, "0", power(of) if count == 0 else f"of {of:,}")
