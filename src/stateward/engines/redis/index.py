"""Entries of the index on a cluster, where no script reaches both an entity and its index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.client.wire import Command, Word
from stateward.engines.redis.keys import owner_index, part_of, sortable, spread_keys, touched_index
from stateward.engines.redis.scripts import INDEX, LINGER, UNINDEX
from stateward.ops import Entity

HOW = {">": "GT", "+": "NX"}  # options of ZADD by the sign of a score
SELDOM = 8  # one guarded write in so many trims the guards
STALE = 5 * LINGER  # seconds after which that surely says nothing any more


class IndexEntry(NamedTuple):
    """A member of an index; its score is only set where it has a meaning.

    Entries of one entity in one part share the guard that marks recent writes.
    """

    key: str
    member: bytes
    score: str = "0"
    guard: tuple[str, bytes] | None = None  # None: one of its own

    @property
    def is_guarded(self) -> bool:
        """True if a guard marks the entry as new, as its entity may not exist yet."""
        return self.score[0] not in "=>+"

    @property
    def guarded_by(self) -> tuple[str, bytes]:
        return self.guard or (f"{self.key}:added", self.member)


def entries_of(
    entity: Entity, letters: str, minute: int, owner: str, status: str, due: str, sweep: str
) -> list[IndexEntry]:
    """The entries that `commit.lua` names by letters."""
    keys, id = spread_keys(entity), entity.id.encode()
    theirs = owner_index(entity.namespace, owner)
    guard = (f"{keys.ids}:added", id)
    entries = {
        "s": IndexEntry(keys.statuses, sortable(status) + id),
        "o": IndexEntry(theirs, keys.kind + id),
        "p": IndexEntry(f"{theirs}:status", keys.kind + sortable(status) + id),
        "d": IndexEntry(keys.due, sortable(entity.id) + due.encode(), due),
        "w": IndexEntry(keys.sweep, keys.tag.encode(), sweep, guard),
    }
    # Also for a new owner, whom it does not belong to yet: it guards what was touched of theirs.
    chosen = [IndexEntry(keys.ids, id, "0", guard)] if "k" in letters or "o" in letters else []
    chosen += [entries[letter] for letter in letters if letter in entries]
    if "k" in letters:
        chosen.append(IndexEntry(keys.kinds, keys.kind, "+0"))
    if "o" in letters:
        chosen.append(IndexEntry(keys.owners, owner.encode()))
    if "k" in letters or "o" in letters:
        chosen += touches(entity, owner, minute)
    return chosen


def touches(entity: Entity, owner: str | None, minute: int, sign: str = "=") -> list[IndexEntry]:
    """Return the entries for a touch in that minute; without an owner only that of the kind.

    What is there is changed; with the sign > only upwards.
    """
    keys, id, score = spread_keys(entity), entity.id.encode(), f"{sign}{minute}"
    guard = (f"{keys.ids}:added", id)
    minutes = [IndexEntry(keys.touched, id, score, guard)]
    if owner is not None:
        theirs = touched_index(entity.namespace, entity.kind, owner, part_of(entity))
        minutes.append(IndexEntry(theirs, id, score, guard))
    return minutes


def write_steps(entries: Iterable[IndexEntry], clock: str) -> list[PipelineStep]:
    """Write entries: one step for each slot. Replicas are waited for as with an entity.

    Only where it must be said that they were written of late it takes a script, for its clock.
    """
    steps = []
    for group in _by_slot(entries):
        if any(entry.is_guarded for entry in group):
            steps.append(_scripted(INDEX.sha, group, clock)._replace(writes=True))
        else:
            commands = tuple(map(_plain, group))
            steps.append(PipelineStep(group[0].key, commands, writes=True))
    return steps


def enter_steps(entries: Iterable[IndexEntry], at: float, trims: bool) -> list[PipelineStep]:
    """Write entries by the caller's clock, without a script: a third of the server's work.

    Callers must not rely on these entries before a server has agreed with that clock: until then
    nothing may be trimmed by it.
    """
    steps = []
    for group in _by_slot(entries):
        commands: dict[Command, None] = {}  # each once
        for entry in group:
            guard, mark = entry.guarded_by
            if entry.is_guarded:
                commands["ZADD", guard, f"{at:.6f}", mark] = None
                if trims and crc32(mark) % SELDOM == 0:
                    commands["ZREMRANGEBYSCORE", guard, "-inf", f"({at - STALE:.6f}"] = None
            commands[_plain(entry)] = None
        steps.append(PipelineStep(group[0].key, tuple(commands), writes=True))
    return steps


def correct_steps(entries: Iterable[IndexEntry], clock: str) -> list[PipelineStep]:
    """Give entries their right score, or remove those that have none."""
    return [_scripted(UNINDEX.sha, group, clock) for group in _by_slot(entries)]


def _by_slot(entries: Iterable[IndexEntry]) -> Iterable[list[IndexEntry]]:
    by_tag: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        by_tag.setdefault(entry.key[entry.key.index("{") : entry.key.index("}")], []).append(entry)
    return by_tag.values()


def _plain(entry: IndexEntry) -> Command:
    """An entry as `index.lua` writes it."""
    score, member = entry.score, entry.member
    if score[0] == "=":
        return ("ZADD", entry.key, score[1:], member)
    if score[0] in HOW:
        return ("ZADD", entry.key, HOW[score[0]], score[1:], member)
    return ("ZADD", entry.key, "LT", score, member)


def _scripted(sha: str, group: Sequence[IndexEntry], clock: str) -> PipelineStep:
    keys: dict[str, int] = {}
    words: list[Word] = [clock]
    for entry in group:
        guard, mark = entry.guarded_by
        at = keys.setdefault(entry.key, len(keys) + 1)
        words += entry.score, entry.member, at, keys.setdefault(guard, len(keys) + 1), mark
    names = [*keys, absent(group[0].key)]
    command: Command = ("EVALSHA", sha, len(names), *names, *words)
    return PipelineStep(names[0], (command,))
