"""The questions, in their order. Each is a file: what it asks, why, and a function that judges."""

from __future__ import annotations

from stateward.audit.questions import (
    backup,
    concurrency,
    conflicts,
    consistency,
    costs,
    growth,
    latency,
    monitoring,
    outage,
    preferences,
    races,
    sessions,
    settings,
    sharing,
    updates,
    workflows,
)
from stateward.audit.questions.question import Question

QUESTIONS: tuple[Question, ...] = tuple(
    module.QUESTION
    for module in (
        sessions,
        preferences,
        workflows,
        sharing,
        backup,
        latency,
        concurrency,
        outage,
        monitoring,
        races,
        updates,
        conflicts,
        consistency,
        growth,
        costs,
        settings,
    )
)
