"""Several targets side by side, measured on this machine, and which of them suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.audit.history import Record
from holdfast.audit.judging import BAD
from holdfast.audit.report import Report

QUESTIONS = ("sessions", "updates", "races", "latency", "settings", "growth", "costs")
DURABLE = ("sessions", "settings")
COLUMNS = (
    "target",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "durability",
    "races",
    "bytes_a_turn",
    "mb_a_replica",
    "connections",
)


class Compared(Struct, frozen=True):
    """One target in the table. `holds`: none of the questions fails."""

    row: dict[str, Any]
    holds: bool
    p95: float | None


def compared(record: Record, report: Report, limits: Mapping[str, float]) -> Compared:
    """What one audit says for the table."""
    verdicts = {answer.id: answer.verdict for answer in report.answers}
    level = max(record.levels or [], key=lambda each: each.conversations, default=None)
    costs, growth = record.costs, report.growth
    memory = costs.memory_a_replica if costs is not None else None
    pool = costs.pool if costs is not None else None
    row = {
        "target": report.title,
        "p50_ms": None if level is None else level.p50,
        "p95_ms": None if level is None else level.p95,
        "p99_ms": None if level is None else level.p99,
        "durability": _worst([verdicts.get(id, "unknown") for id in DURABLE]),
        "races": _worst([verdicts.get(id, "unknown") for id in ("races", "updates")]),
        "bytes_a_turn": None if growth is None else round(growth.bytes_a_turn),
        "mb_a_replica": None if memory is None else round(memory / 1e6, 1),
        "connections": None if pool is None else round(pool * limits["agents"]),
    }
    holds = not any(verdicts.get(id) in BAD for id in QUESTIONS)
    return Compared(row, holds, None if level is None else level.p95)


def _worst(verdicts: Sequence[str]) -> str:
    for verdict in (*BAD, "unknown", "warn"):
        if verdict in verdicts:
            return verdict
    return "pass"


def recommendation(found: Sequence[Compared], limits: Mapping[str, float]) -> str:
    """In one sentence, by the user's own thresholds."""
    most = limits["lookup_p95_ms"]
    good = [each for each in found if each.holds and each.p95 is not None and each.p95 <= most]
    if not good:
        return "None of these holds: see what fails with holdfast audit TARGET."
    best = min(good, key=lambda each: each.p95 or 0.0)
    said = f"Of those that lose nothing and answer within {most:g} ms (p95), "
    said += f"{best.row['target']} is the fastest here: {best.p95:g} ms."
    others = [each for each in good if each is not best]
    if others:
        names = ", ".join(str(each.row["target"]) for each in others)
        said += f" {names} would do as well: choose by what you already run."
    failed = [str(each.row["target"]) for each in found if each not in good]
    if failed:
        said += f" Not to be used as they are: {', '.join(failed)}."
    return said
