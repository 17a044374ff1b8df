"""The questions, in their order. Each is a file: what it asks, why, and a function that judges."""

from __future__ import annotations

from stateward.audit.questions import (
    alarms,
    backup,
    concurrency,
    conflicts,
    consistency,
    costs,
    fidelity,
    growth,
    isolation,
    keepsakes,
    keys,
    kills,
    latency,
    locks,
    outage,
    preferences,
    races,
    retention,
    sessions,
    settings,
    shared_state,
    slowdown,
    tasks,
    updates,
    windows,
    workflows,
)
from stateward.audit.questions.question import Question

QUESTIONS: tuple[Question, ...] = tuple(
    module.QUESTION
    for module in (
        sessions,
        preferences,
        workflows,
        shared_state,
        backup,
        latency,
        concurrency,
        outage,
        alarms,
        races,
        updates,
        conflicts,
        consistency,
        growth,
        costs,
        settings,
        fidelity,
        windows,
        keys,
        locks,
        tasks,
        kills,
        isolation,
        keepsakes,
        slowdown,
        retention,
    )
)
