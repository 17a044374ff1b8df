"""The questions, in their order. Each is a module: what it asks, why, and how it is judged."""

from __future__ import annotations

from importlib import import_module

from stateward.audit.questions.question import Question

_ORDER = (
    "sessions",
    "preferences",
    "workflows",
    "shared_state",
    "backup",
    "latency",
    "concurrency",
    "outage",
    "alarms",
    "races",
    "updates",
    "conflicts",
    "consistency",
    "growth",
    "costs",
    "settings",
    "fidelity",
    "windows",
    "keys",
    "locks",
    "tasks",
    "kills",
    "isolation",
    "keepsakes",
    "slowdown",
    "retention",
    "orphans",
    "effects",
    "context",
    "erasure",
)
QUESTIONS: tuple[Question, ...] = tuple(
    import_module(f"{__name__}.{name}").QUESTION for name in _ORDER
)
