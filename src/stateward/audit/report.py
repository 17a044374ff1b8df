"""What an audit found, as data. Every form of the report derives from this alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct

FORMAT = 1

Verdict = Literal["pass", "warn", "fail", "unknown", "error", "absent"]
Severity = Literal["critical", "high", "medium", "low"]

# Worst first.
VERDICTS: Final[tuple[Verdict, ...]] = ("fail", "error", "absent", "unknown", "warn", "pass")
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low")


class Evidence(Struct, frozen=True):
    """One fact that an answer rests on.

    `power` says which rate a zero rules out: "a rate above 1 in 4,000 would have been detected".
    """

    what: str  # "lost turns", "p95 at 100 conversations"
    value: float | str | bool | None
    unit: str = ""
    limit: str = ""  # what it was held against: "at most 100 ms"
    power: str = ""


class Waiver(Struct, frozen=True):
    """Why a finding does not count, and until when."""

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
    remedy: str = ""  # what to do; "" if nothing need be done
    reproduce: str = ""  # the command, with its seed
    seconds: float = 0.0
    waived: Waiver | None = None
    severity: Severity | None = None  # of what fails or warns
    means: str = ""  # what users notice of it


class Span(Struct, frozen=True):
    """A stretch of time in which something was done to the target; seconds from the beginning."""

    start: float
    end: float
    label: str  # "the link is cut"


class Moment(Struct, frozen=True):
    """One second of a load: percentiles in ms from the intended start; rates in calls a second."""

    at: float
    p50: float
    p95: float
    p99: float
    intended: float
    achieved: float
    failed: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether there is any latency to show: not if all its calls failed."""
        return self.achieved > 0 and self.p99 > 0


class Timeline(Struct, frozen=True):
    """Latency over time, with what disturbed it."""

    title: str
    moments: tuple[Moment, ...]
    faults: tuple[Span, ...] = ()


class Point(Struct, frozen=True):
    x: float
    p50: float
    p95: float
    p99: float


class Curve(Struct, frozen=True):
    """How latency follows something: concurrent conversations, or the length of a history."""

    title: str
    x: str  # what the x axis counts
    points: tuple[Point, ...]


class Growth(Struct, frozen=True):
    """Bytes stored a turn, and what the user's own figures make of it."""

    bytes_a_turn: float
    turns_a_day: float
    capacity: float | None  # bytes; None: not known
    used: float | None
    days_to_full: float | None


class Price(Struct, frozen=True):
    """One line of the bill for a month; None: the amount was not measured."""

    what: str  # "state on disk"
    amount: float | None
    unit: str
    on: float | None  # what it costs with persistence
    off: float | None


class Money(Struct, frozen=True):
    """What a month costs by the user's own prices and figures."""

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
    """All of it. `verdict` is the worst answer that is not waived."""

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
    """What counts before what is waived, worse verdicts first, and of those the graver."""
    return sorted(
        answers,
        key=lambda answer: (
            answer.waived is not None,
            VERDICTS.index(answer.verdict),
            SEVERITIES.index(answer.severity or "low"),
        ),
    )
