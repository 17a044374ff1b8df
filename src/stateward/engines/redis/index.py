"""Entries of the index on a cluster, where no script reaches both an entity and its index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stateward.engines.redis.commit import Command, Word
from stateward.engines.redis.keys import EntityKeys, owner_index, sortable
from stateward.engines.redis.scripts import INDEX, UNINDEX
from stateward.engines.redis.steps import PlanStep
from stateward.ops import Entity


class IndexEntry(NamedTuple):
    """A member of an index; its score is only told where it has a meaning."""

    key: str
    member: bytes
    score: str = "0"


def entries_of(
    entity: Entity, where: EntityKeys, which: str, owner: str, status: str, due: str, sweep: str
) -> list[IndexEntry]:
    """The entries that `commit.lua` names by letters."""
    id = entity.id.encode()
    theirs = owner_index(entity.namespace, owner)
    entries = {
        "s": IndexEntry(where.statuses, sortable(status) + id),
        "o": IndexEntry(theirs, where.kind + id),
        "p": IndexEntry(f"{theirs}:status", where.kind + sortable(status) + id),
        "d": IndexEntry(where.due, sortable(entity.id) + due.encode(), due),
        "w": IndexEntry(where.sweep, where.tag.encode(), sweep),
    }
    found = [entries[letter] for letter in which if letter in entries]
    if "k" in which:
        found += IndexEntry(where.kinds, where.kind), IndexEntry(where.ids, id)
    return found


def write_steps(entries: Iterable[IndexEntry], clock: str) -> list[PlanStep]:
    """Write entries: one script for each slot. Replicas are waited for as with an entity."""
    return [step._replace(writes=True) for step in _steps(INDEX.sha, entries, clock)]


def correct_steps(entries: Iterable[IndexEntry], clock: str) -> list[PlanStep]:
    """Give entries their right score, or remove those that have none."""
    return _steps(UNINDEX.sha, entries, clock)


def _steps(sha: str, entries: Iterable[IndexEntry], clock: str) -> list[PlanStep]:
    by_tag: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        by_tag.setdefault(entry.key[entry.key.index("{") : entry.key.index("}")], []).append(entry)
    steps = []
    for group in by_tag.values():
        keys = [key for entry in group for key in (entry.key, f"{entry.key}:added")]
        words: list[Word] = [clock]
        for entry in group:
            words += entry.score, entry.member
        command: Command = ("EVALSHA", sha, len(keys), *keys, *words)
        steps.append(PlanStep(keys[0], (command,)))
    return steps
