"""Small audits for tests: real processes, few of everything."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

from stateward.audit.conductor import Audit
from stateward.audit.config import THRESHOLDS
from stateward.audit.options import AuditOptions
from stateward.audit.profiles import sizes_of
from stateward.audit.questions import QUESTIONS
from stateward.audit.record import Record
from stateward.audit.report import Answer, Report
from stateward.audit.verdict import report

TODAY = date(2026, 1, 1)
SMALL: dict[str, Any] = {
    "replicas": 2,
    "conversations": (10,),
    "rate": 60.0,
    "duration": 1.5,
    "repeats": 0,
    "threads": 5,
    "turns": 4,
    "race_turns": 25,
    "tasks": 10,
    "lock_rounds": 1,
    "updates": 20,
    "conflicts": 5,
    "looks": 6,
    "steps": 100,
    "workflows": 2,
    "history": (10, 100),
    "outage": 1.0,
    "recovery": 4.0,
    "growth_turns": 50,
    "long_task": 4.5,
    "long_step": 3.0,
    "version_races": 15,
    "kills": 3,
    "race_history": 200,
    "lasting": 1.0,
    "curve": (20, 60, 120),
    "fillings": 2,
    "filling": 500,
}


def small(target: str | None, *only: str, **changed: Any) -> AuditOptions:
    """The options of a small audit of these questions; of all without any."""
    sizes = {name: changed.pop(name) for name in list(changed) if name in SMALL}
    wanted = [w for q in QUESTIONS if q.id in only for w in q.workloads]
    return AuditOptions(
        target=target,
        sizes=sizes_of("quick", SMALL, sizes),
        seed=7,
        workloads=tuple(dict.fromkeys(wanted)),
        **changed,
    )


def recorded(options: AuditOptions) -> Record:
    return asyncio.run(Audit(options, lambda _: None).run())


def audited(target: str | None, *only: str, **changed: Any) -> Report:
    return judged(recorded(small(target, *only, **changed)))


def judged(record: Record, **thresholds: float) -> Report:
    return report(record, THRESHOLDS | thresholds, {}, TODAY)


def answer(report: Report, id: str) -> Answer:
    (found,) = [each for each in report.answers if each.id == id]
    return found
