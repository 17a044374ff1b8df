"""All mutants, and which questions should find them."""

from __future__ import annotations

from audit.mutations import (
    appends,
    attacks,
    backups,
    ids,
    keys,
    slowness,
    staleness,
    trouble,
    users,
    values,
    windows,
    work,
)
from audit.mutations.mutant import Mutant
from stateward.audit.questions import QUESTIONS

PARTS = (
    appends,
    keys,
    windows,
    staleness,
    ids,
    slowness,
    values,
    users,
    work,
    trouble,
    backups,
    attacks,
)
MUTANTS: dict[str, Mutant] = {mutant.id: mutant for part in PARTS for mutant in part.MUTANTS}
# Not broken at all: what mutants are made of must itself be sound.
CONTROLS: dict[str, Mutant] = {mutant.id: mutant for mutant in (*work.CONTROLS, *windows.CONTROLS)}
EVERY = MUTANTS | CONTROLS

# Topic → the questions of the audit that ask about it, the likeliest first; after a colon, those of
# its workloads that have to do with the topic. What an audit does not ask is left out.
TOPICS: dict[str, tuple[str, ...]] = {
    "turns kept": ("sessions", "races:turn-races", "windows", "kills", "fidelity"),
    "messages kept": ("fidelity", "sessions"),
    "keys": ("keys", "races:turn-races", "lasting"),
    "windows": ("windows", "sessions"),
    "threads apart": ("fidelity", "isolation", "sessions"),
    "order": ("sessions", "races:turn-races", "sharing", "consistency", "windows", "fidelity"),
    "torn": ("kills", "sessions"),
    "acknowledged": ("kills", "sessions"),
    "users acknowledged": ("kills", "preferences"),
    "fresh": ("sharing", "consistency", "windows"),
    "speed": ("latency", "slowdown", "concurrency"),
    "growth": ("slowdown", "growth", "concurrency"),
    "retention": (
        "retention",
        "lasting",
        "sessions",
        "lasting:keepsakes+fidelity+isolation+task-races+tasks+lasting",
    ),
    "users kept": ("fidelity", "preferences", "conflicts", "updates"),
    "users fresh": ("sharing", "preferences", "isolation"),
    "users apart": ("fidelity", "isolation", "preferences"),
    "results kept": ("tasks", "fidelity", "races:turn-races+task-races"),
    "updates": ("updates", "conflicts"),
    "versions": ("conflicts", "preferences"),
    "tasks": ("tasks", "races:turn-races+task-races", "fidelity"),
    "workflows": ("workflows", "fidelity"),
    "locks": ("locks", "races:turn-races+lock-races", "fidelity"),
    "fences": ("locks", "races:turn-races+lock-races"),
    "outage": ("outage",),
    "metrics": ("monitoring",),
    "alarm": ("monitoring",),
    "settings": ("settings",),
    "backup": ("backup",),
    "tenants": ("isolation",),
    "tool calls": ("orphans",),
    "acts": ("effects",),
    "context": ("context",),
    "erasure": ("erasure:erasure",),
    "erasure and backup": ("erasure",),
}


def questions_of(mutant: Mutant) -> tuple[str, ...]:
    """The questions that should find it, as in `TOPICS`."""
    known = {question.id for question in QUESTIONS}
    named = [words for topic in mutant.caught_by for words in TOPICS[topic]]
    return tuple(dict.fromkeys(words for words in named if words.partition(":")[0] in known))
