"""The fast path: messages added to conversations that exist, for a whole batch in a few statements.

Whatever else an append may meet (a new conversation, an op that may be known, an expiry that an
index has to follow) is left to `commit.py`, with nothing written. Ops are drawn in the order of
time: an op greater than all before it is new, and needs no search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

import apsw

from stateward.engine import GRACE, MINUTE
from stateward.engines.sqlite.fetch import Reads, sql
from stateward.ops import (
    Append,
    Applied,
    Commit,
    CommitOutcome,
    Entity,
    NotDroppedSince,
    NotYours,
    Op,
    digest_of,
)

FORGET_EVERY = 256  # commits of an entity between two looks at its remembered ops
NAMES_AT_ONCE = (8, 64)  # entities that one statement looks for: few sizes, few statements

Columns = tuple[Any, ...]


class Appends(Reads):
    """Reads, and appends that need no look at anything but the head."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._run_many = connection.cursor().executemany

    def append_alone(self, commit: Op, now: float) -> CommitOutcome | None:
        """Append by three statements; None for any other commit, with nothing written."""
        if not is_plain(commit):
            return None
        run, op = self.run, commit.op
        rows: list[Columns] = run(sql.head_to_append, (*commit.entity, op)).fetchall()
        saved = after_append(commit, rows[0], now) if rows else None
        if saved is None or type(saved) is NotYours:
            return saved
        assert type(saved) is tuple
        id_, _, _, touched, life, _, _, version, *_ = rows[0]
        write: Append = commit.writes[0]  # type: ignore[assignment]
        bodies = write.bodies
        if len(bodies) == 2 and write.note is None:
            first, last = bodies
            next_ = (id_, life, version + 2, now, op, None, None, last)
            run(sql.append_two, (id_, life, version + 1, now, first, *next_))
        else:
            self.insert_entries(id_, life, version, write, op, now)
        run(sql.save_appended, saved)
        if touched != now // MINUTE:
            run(sql.save_touched, (int(now // MINUTE), id_))
        return Applied(saved[2], op, now)

    def append_many(self, ops: Sequence[Op], now: float) -> list[CommitOutcome | None]:
        """Apply all plain appends of a batch; the outcome of anything else is None."""
        outcomes: list[CommitOutcome | None] = [None] * len(ops)
        plain: list[tuple[int, Commit]] = [(n, op) for n, op in enumerate(ops) if is_plain(op)]
        if not plain:
            return outcomes
        least = min([op.op for _, op in plain])
        heads = self._heads_of([op.entity for _, op in plain], least)
        minute, turns, saves, touches = int(now // MINUTE), [], [], []
        for number, commit in plain:
            head = heads.pop(commit.entity, None)  # a second commit to it goes the other way
            if head is None:
                continue
            saved = after_append(commit, head, now)
            if saved is None or isinstance(saved, NotYours):
                outcomes[number] = saved
                continue
            id_, _, _, touched, life, _, _, version, *_ = head
            write: Append = commit.writes[0]  # type: ignore[assignment]
            op, bodies = commit.op, write.bodies
            if len(bodies) == 2 and write.note is None:
                first = (id_, life, version + 1, now, bodies[0])
                turns.append((*first, id_, life, version + 2, now, op, None, None, bodies[1]))
            else:
                self.insert_entries(id_, life, version, write, op, now)
            saves.append(saved)
            if touched != minute:
                touches.append((minute, id_))
            outcomes[number] = Applied(saved[2], op, now)
        self._run_many(sql.append_two, turns)
        self._run_many(sql.save_appended, saves)
        self._run_many(sql.save_touched, touches)
        return outcomes

    def _heads_of(self, entities: Iterable[Entity], op: str) -> dict[Entity, Columns]:
        """Return the columns that appends need of existing entities; `op` is the least op."""
        names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for namespace, kind, name in entities:
            names[namespace, kind].append(name)
        heads: dict[Entity, Columns] = {}
        few, many = NAMES_AT_ONCE
        for (namespace, kind), all_names in names.items():
            for start in range(0, len(all_names), many):
                some = all_names[start : start + many]
                size = few if len(some) <= few else many
                some += some[-1:] * (size - len(some))
                for row in self.rows(_heads_named(size), (namespace, kind, op, *some)):
                    heads[Entity(namespace, kind, row[0])] = row[1:]
        return heads

    def insert_entries(
        self, id_: int, life: int, version: int, write: Append, op: str, now: float
    ) -> None:
        """Insert the bodies of an append after this version."""
        bodies, key, note = write.bodies, write.key, write.note
        digest = None if key is None else digest_of(bodies)
        last = version + len(bodies)
        end = (id_, life, last, now, op, key, digest, bodies[-1])
        if len(bodies) == 2:
            first = (id_, life, last - 1, now, bodies[0])
            if note is None:
                self.run(sql.append_two, first + end)
            else:
                self.run(sql.append_two_noted, (*first, *end, note))
            return
        for number, body in enumerate(bodies[:-1], version + 1):
            self.run(sql.append_one, (id_, life, number, now, None, None, None, body))
        if note is None:
            self.run(sql.append_one, end)
        else:
            self.run(sql.append_one_noted, (*end, note))


def is_plain(op: Op) -> TypeGuard[Commit]:
    """Return whether an operation is an append and nothing else, without a key.

    A check that the entity was not dropped needs no more than the head.
    """
    if type(op) is not Commit or len(op.writes) > 1 or op.reading:
        return False
    if op.checks and (len(op.checks) > 1 or type(op.checks[0]) is not NotDroppedSince):
        return False
    write = op.writes[0]
    return type(write) is Append and write.key is None


def after_append(commit: Commit, head: Columns, now: float) -> Columns | NotYours | None:
    """Return the values for `save_appended`; None if the append needs or changes more."""
    id_, owner, sweep_at, _, _, retain, expires, version, live, commits, until, stamp, *last = head
    if expires is not None and expires <= now:
        return None
    if commit.owner is not None and commit.owner != owner:
        return NotYours()
    if retain is not None:
        expires = max(now + retain, until)
        if sweep_at is None or not 0 <= expires + GRACE - sweep_at <= GRACE / 10:
            return None
    dropped, filed = last
    if commit.checks and commit.checks[0].at <= dropped:  # type: ignore[union-attr]
        return None
    n, count = commits + 1, len(commit.writes[0].bodies)  # type: ignore[union-attr]
    if commit.op <= stamp or filed or n % FORGET_EVERY == 0:
        return None
    return (expires, now, version + count, commit.op, live + count, n, id_)


@lru_cache
def _heads_named(count: int) -> str:
    """Return a statement that looks for this many entities of one kind."""
    names = ", ".join(f"?{number}" for number in range(4, count + 4))
    return f"{sql.heads_to_append} ({names})"
