"""Report of an audit, as data. Every form of the report derives from this alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct

from stateward.pages.series import Curve, Moment

FORMAT = 1

Verdict = Literal["pass", "warn", "fail", "unknown", "error", "absent"]
Severity = Literal["critical", "high", "medium", "low"]

# Worst first.
VERDICTS: Final[tuple[Verdict, ...]] = ("fail", "error", "absent", "unknown", "warn", "pass")
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low")
BAD: tuple[Verdict, ...] = ("fail", "error", "absent")  # verdicts that count as a failure


class Evidence(Struct, frozen=True):
    """One fact that supports an answer.

    `power` says which rate a zero rules out: "a rate above 1 in 4,000 would have been detected".
    """

    what: str  # "lost turns", "p95 at 100 conversations"
    value: float | str | bool | None
    unit: str = ""
    limit: str = ""  # limit of the value: "at most 100 ms"
    power: str = ""


class Waiver(Struct, frozen=True):
    """Waiver of a finding: its reason, and the date until which it holds."""

    reason: str
    until: str  # a date, YYYY-MM-DD


class Answer(Struct, frozen=True):
    """The answer to one question, on one card."""

    id: str  # "sessions", "races" …: stable, in the order of the questions
    number: int | None
    question: str
    why: str  # why it matters, in two sentences
    verdict: Verdict
    summary: str  # the finding in one sentence
    evidence: tuple[Evidence, ...] = ()
    counter_example: str = ""  # the smallest history that shows a failure, as text
    remedy: str = ""  # "" if nothing need be done
    reproduce: str = ""  # the command, with its seed
    attempts: int = 1  # runs of it in which a failure should show again
    seconds: float = 0.0
    waived: Waiver | None = None
    severity: Severity | None = None  # of a failure or warning
    means: str = ""  # effect that users notice


class Span(Struct, frozen=True):
    """A stretch of time in which something was done to the target; seconds from the beginning."""

    start: float
    end: float
    label: str  # "the link is cut"


class Timeline(Struct, frozen=True):
    """Latency over time, with what disturbed it."""

    title: str
    moments: tuple[Moment, ...]
    faults: tuple[Span, ...] = ()


class Growth(Struct, frozen=True):
    """Bytes stored a turn, and what the user's own figures make of it."""

    bytes_a_turn: float
    turns_a_day: float
    capacity: float | None  # bytes; None: not known
    used: float | None
    days_to_full: float | None


class Price(Struct, frozen=True):
    """One line of the bill for a month; an amount of None was not measured."""

    what: str  # "state on disk"
    amount: float | None
    unit: str
    on: float | None  # cost with persistence
    off: float | None


class Money(Struct, frozen=True):
    """Cost of a month by the user's own prices and figures."""

    currency: str
    agents: int
    parts: tuple[Price, ...]
    on: float | None  # in all, with persistence
    off: float | None


class Setting(Struct, frozen=True):
    """One durability setting of the store, read or declared."""

    name: str
    value: str
    verdict: Verdict
    meaning: str
    source: Literal["read", "declared", "blocked"] = "read"


class Report(Struct, frozen=True):
    """A complete report. `verdict` is the worst answer that is not waived."""

    format: int
    target: str  # without credentials
    title: str  # the target in words: "SQLite (embedded)", "LangGraph on PostgreSQL"
    verdict: Verdict
    sentence: str  # the verdict in one sentence, for the top of the page
    profile: str
    seed: int
    command: str
    started: str  # ISO 8601, UTC
    seconds: float
    interrupted: bool
    answers: tuple[Answer, ...]
    timelines: tuple[Timeline, ...] = ()
    curves: tuple[Curve, ...] = ()
    growth: Growth | None = None
    money: Money | None = None
    settings: tuple[Setting, ...] = ()
    environment: dict[str, Any] = {}  # machine, versions, replicas, rates
    thresholds: dict[str, float] = {}
    aborted: str = ""  # why the audit ended itself: it was about to do harm
    left: str = ""  # what it could not remove from the store, and what does


def worst_first(answers: Iterable[Answer]) -> list[Answer]:
    """Sort answers: waived ones last, worse verdicts first, and graver ones before milder."""
    return sorted(
        answers,
        key=lambda answer: (
            answer.waived is not None,
            VERDICTS.index(answer.verdict),
            SEVERITIES.index(answer.severity or "low"),
        ),
    )
