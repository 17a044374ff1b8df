"""Several targets side by side, measured on this machine, and which of them suits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from stateward.audit.config import Requirements
from stateward.audit.questions.question import plural
from stateward.audit.record import Record
from stateward.audit.report import BAD, Report

FORMAT = 1
QUESTIONS = ("sessions", "updates", "races", "latency", "settings", "growth", "costs")
DURABLE = ("sessions", "settings")
MOST = (  # requirements with an upper limit
    ("p95_ms", "p95", " ms"),
    ("mb_a_replica", "memory a replica", " MB"),
    ("connections", "connections", ""),
    ("gb_a_year", "growth a year", " GB"),
    ("money_a_month", "a month", ""),
)
ORDER = ("pass", "warn", "unknown", *BAD)


class ComparedRow(Struct, frozen=True):
    """One target in the table. A column that is None was not measured."""

    target: str
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    durability: str  # a verdict
    survives: str  # what survives which failure, in words
    races: str  # a verdict
    bytes_a_turn: float | None
    gb_a_year: float | None
    mb_a_replica: float | None
    connections: int | None  # for the number of agents in the table
    money_a_month: float | None
    money_without_persistence: float | None
    failing: tuple[str, ...]  # questions that fail
    lacks: tuple[str, ...]  # which requirements it does not meet, in words

    @property
    def suits(self) -> bool:
        return not self.lacks and not self.failing


class Table(Struct, frozen=True):
    """The whole comparison: what `--json` prints."""

    format: int
    agents: int
    currency: str
    requirements: Requirements
    targets: tuple[ComparedRow, ...]
    recommended: str | None
    recommendation: str


def compared(record: Record, report: Report, wanted: Requirements) -> ComparedRow:
    """Return the row of the table for one audit."""
    verdicts = {answer.id: answer.verdict for answer in report.answers}
    level = max(record.levels or [], key=lambda each: each.conversations, default=None)
    costs, growth, money = record.costs, report.growth, report.money
    memory = costs.memory_a_replica if costs is not None else None
    pool = costs.pool if costs is not None else None
    a_year = None if growth is None else growth.bytes_a_turn * growth.turns_a_day * 365 / 1e9
    row = ComparedRow(
        target=report.title,
        p50_ms=None if level is None else level.p50,
        p95_ms=None if level is None else level.p95,
        p99_ms=None if level is None else level.p99,
        durability=_worst([verdicts.get(id, "unknown") for id in DURABLE]),
        survives=_survives(record, report),
        races=_worst([verdicts.get(id, "unknown") for id in ("races", "updates")]),
        bytes_a_turn=None if growth is None else round(growth.bytes_a_turn),
        gb_a_year=None if a_year is None else round(a_year, 2),
        mb_a_replica=None if memory is None else round(memory / 1e6, 1),
        connections=None if pool is None else round(pool * report.thresholds["agents"]),
        money_a_month=None if money is None else money.on,
        money_without_persistence=None if money is None else money.off,
        failing=tuple(id for id in QUESTIONS if verdicts.get(id) in BAD),
        lacks=(),
    )
    return _held_against(row, wanted)


def _survives(record: Record, report: Report) -> str:
    """Return what survives a crash, in the store's own words or in those of the question."""
    if record.settings is not None and record.settings.durability:
        return record.settings.durability
    (finding,) = [a.summary for a in report.answers if a.id == "sessions"] or ["not known"]
    return finding


def _worst(verdicts: Sequence[str]) -> str:
    return max(verdicts, key=ORDER.index)


def _held_against(row: ComparedRow, wanted: Requirements) -> ComparedRow:
    lacks = []
    for name, what, unit in MOST:
        most, value = getattr(wanted, name), getattr(row, name)
        if most is not None and (value is None or value > most):
            there = "not known" if value is None else f"{value:,g}{unit}"
            lacks.append(f"{what}: {there}, wanted at most {most:,g}{unit}")
    for name in ("durability", "races"):
        enough, value = getattr(wanted, name), getattr(row, name)
        if enough != "any" and ORDER.index(value) > ORDER.index(enough):
            lacks.append(f"{name}: {value}")
    return replace(row, lacks=tuple(lacks))


def table(rows: Sequence[ComparedRow], wanted: Requirements, agents: int, currency: str) -> Table:
    """Return the table of all targets, with the one that suits best."""
    best = _best(rows, wanted)
    recommendation = _recommendation(rows, best, wanted, currency)
    name = None if best is None else best.target
    return Table(FORMAT, agents, currency, wanted, tuple(rows), name, recommendation)


def _best(rows: Sequence[ComparedRow], wanted: Requirements) -> ComparedRow | None:
    field = {"latency": "p95_ms", "money": "money_a_month", "memory": "mb_a_replica"}[wanted.prefer]
    good = [row for row in rows if row.suits and getattr(row, field) is not None]
    return min(good, key=lambda row: getattr(row, field), default=None)


def _recommendation(
    rows: Sequence[ComparedRow], best: ComparedRow | None, wanted: Requirements, currency: str
) -> str:
    """Recommend a target in a few sentences, by the user's own requirements."""
    wrong = [f"{row.target} ({'; '.join(_reasons(row))})" for row in rows if not row.suits]
    tail = [f"Not suited: {', '.join(wrong)}."] if wrong else []
    if best is None:
        none = "None of these meets all requirements."
        if len(wrong) < len(rows):
            none = f"None of those that meet the requirements reports the {wanted.prefer}."
        return " ".join([none, *tail])
    why = {
        "latency": f"the fastest here: p95 {best.p95_ms or 0:g} ms",
        "money": f"the cheapest: {best.money_a_month or 0:,.2f} {currency} a month",
        "memory": f"the smallest: {best.mb_a_replica or 0:g} MB a replica",
    }[wanted.prefer]
    others = [row.target for row in rows if row.suits and row is not best]
    sentences = [f"Of those that meet all requirements, {best.target} is {why}."]
    if others:
        does = "does as well" if len(others) == 1 else "do as well"
        sentences.append(f"{', '.join(others)} {does}: choose by what you already run.")
    return " ".join([*sentences, *tail])


def _reasons(row: ComparedRow) -> list[str]:
    failing = f"{plural(len(row.failing), 'question')} fail{'s' * (len(row.failing) == 1)}"
    return [*([f"{failing}: {', '.join(row.failing)}"] if row.failing else []), *row.lacks]
