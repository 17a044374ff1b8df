"""What a question is, and words that several of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from stateward.audit.plurals import plural as plural
from stateward.audit.record import Record
from stateward.audit.report import SEVERITIES, Evidence, Severity, Verdict

Thresholds = Mapping[str, float]


class Finding(Struct, frozen=True):
    """How one question was answered."""

    verdict: Verdict
    summary: str
    evidence: tuple[Evidence, ...] = ()
    counter_example: str = ""
    remedy: str = ""  # instead of the question's own
    severity: Severity | None = None  # and this
    means: str = ""  # and this


class PartialFinding(NamedTuple):
    """One of several things that are wrong: what is empty is as its question says."""

    said: str
    remedy: str = ""
    severity: Severity | None = None
    means: str = ""


def failed(
    problems: Sequence[PartialFinding], facts: tuple[Evidence, ...] = (), example: str = ""
) -> Finding:
    """As grave as the gravest of them, and what that means for users."""
    grave = [each for each in problems if each.severity is None]  # as grave as its question
    if not grave:
        worst = min(problems, key=lambda each: SEVERITIES.index(each.severity or "low")).severity
        grave = [each for each in problems if each.severity == worst]
    return Finding(
        "fail",
        "; ".join(each.said for each in problems),
        facts,
        example,
        _each_once(each.remedy for each in problems),
        grave[0].severity,
        _each_once(each.means for each in grave),
    )


def _each_once(sentences: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(each for each in sentences if each))


class Question(Struct, frozen=True):
    """One question: what it asks, what it needs to be answered, and how to fix what it finds.

    `judge` is a function of what was recorded, and of nothing else.
    """

    id: str
    number: int | None
    question: str
    why: str
    needs: tuple[str, ...]  # parts of the target; without one of them the answer is "absent"
    evidence: tuple[str, ...]  # fields of the record; without one of them it is "unknown"
    remedy: str
    judge: Callable[[Record, Thresholds], Finding]
    workloads: tuple[str, ...]
    severity: Severity = "high"  # of a failure: "critical" if what was accepted is lost or changed
    means: str = ""  # what users notice of a failure
    since: int = 1  # the format of the first records that have evidence for it
    optional: bool = False  # not asked of a target that lacks what it needs


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
