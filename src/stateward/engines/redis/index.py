"""Entries of the index on a cluster, where no script reaches both an entity and its index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.client.wire import Command, Word
from stateward.engines.redis.keys import EntityKeys, owner_index, sortable, touched_index
from stateward.engines.redis.scripts import INDEX, UNINDEX
from stateward.ops import Entity


class IndexEntry(NamedTuple):
    """A member of an index; its score is only told where it has a meaning."""

    key: str
    member: bytes
    score: str = "0"


def entries_of(
    entity: Entity,
    keys: EntityKeys,
    which: str,
    minute: int,
    owner: str,
    status: str,
    due: str,
    sweep: str,
) -> list[IndexEntry]:
    """The entries that `commit.lua` names by letters."""
    id = entity.id.encode()
    theirs = owner_index(entity.namespace, owner)
    entries = {
        "s": IndexEntry(keys.statuses, sortable(status) + id),
        "o": IndexEntry(theirs, keys.kind + id),
        "p": IndexEntry(f"{theirs}:status", keys.kind + sortable(status) + id),
        "d": IndexEntry(keys.due, sortable(entity.id) + due.encode(), due),
        "w": IndexEntry(keys.sweep, keys.tag.encode(), sweep),
    }
    found = [entries[letter] for letter in which if letter in entries]
    if "k" in which:
        found += IndexEntry(keys.kinds, keys.kind), IndexEntry(keys.ids, id)
    if "o" in which:
        found.append(IndexEntry(keys.owners, owner.encode()))
    if "k" in which or "o" in which:
        found += touches(entity, keys, owner, minute)
    return found


def touches(
    entity: Entity, keys: EntityKeys, owner: str | None, minute: int, sign: str = "="
) -> list[IndexEntry]:
    """What says that an entity was touched in that minute; without an owner only of its kind.

    What is there is changed; with the sign > only upwards, with + not at all.
    """
    id, score = entity.id.encode(), f"{sign}{minute}"
    found = [IndexEntry(keys.touched, id, score)]
    if owner is not None:
        theirs = touched_index(entity.namespace, entity.kind, owner)
        found.append(IndexEntry(theirs, id, score))
    return found


def write_steps(entries: Iterable[IndexEntry], clock: str) -> list[PipelineStep]:
    """Write entries: one script for each slot. Replicas are waited for as with an entity.

    Each answers how many it wrote whose score has the sign +: they were not there.
    """
    return [step._replace(writes=True) for step in _steps(INDEX.sha, entries, clock)]


def correct_steps(entries: Iterable[IndexEntry], clock: str) -> list[PipelineStep]:
    """Give entries their right score, or remove those that have none."""
    return _steps(UNINDEX.sha, entries, clock)


def _steps(sha: str, entries: Iterable[IndexEntry], clock: str) -> list[PipelineStep]:
    by_tag: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        by_tag.setdefault(entry.key[entry.key.index("{") : entry.key.index("}")], []).append(entry)
    steps = []
    for group in by_tag.values():
        keys = [key for entry in group for key in (entry.key, f"{entry.key}:added")]
        keys.append(absent(keys[0]))
        words: list[Word] = [clock]
        for entry in group:
            words += entry.score, entry.member
        command: Command = ("EVALSHA", sha, len(keys), *keys, *words)
        steps.append(PipelineStep(keys[0], (command,)))
    return steps
