"""Fetches and listings on one SQLite connection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apsw
import msgspec

from stateward.engine import KEY_SECONDS, KEYS_KEPT
from stateward.engines.rules import changed_since
from stateward.engines.sql import entries_of, load
from stateward.engines.sqlite.listing import list_documents, list_entities, tally
from stateward.engines.sqlite.outcomes import HEAD_COLUMNS, Row, head_of
from stateward.ops import Fetch, Fetched, Head, List, Listed, Log, NotYours, Op, Outcome, Value

sql = load("stateward.engines.sqlite", "queries.sql")

NO_LIMIT = -1
NAMES_AT_ONCE = 50  # documents that one statement looks for
FEW_NAMES = 8  # documents that are worth reading with their head, which comes with each of them


class Reads:
    """Reads on a connection, which one thread uses at a time. Keeps nothing between calls."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # One cursor for all: the next statement ends one that a signal handler's exception left
        # open, which would tie the connection to the moment it saw.
        self.run = connection.cursor().execute

    def rows(self, query: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self.run(query, args).fetchall()  # to the end: an open cursor pins the WAL

    def read_all(self, ops: Sequence[Op], now: float) -> list[Outcome]:
        """Fetches and listings, which see one moment."""
        if len(ops) == 1 and (outcome := self._read_at_once(ops[0], now)) is not None:
            return [outcome]
        try:
            self.run("BEGIN")
            return self.read_in_transaction(ops, now)
        finally:
            if self._connection.in_transaction:
                self.run("ROLLBACK")

    def read_in_transaction(self, ops: Sequence[Op], now: float) -> list[Outcome]:
        """Fetch and list inside a transaction of the caller's."""
        return [self._read_at_once(op, now) or self._read(op, now) for op in ops]

    def versions(self, entities: Sequence[Any], now: float) -> list[int]:
        """The log versions of these entities; 0 where absent."""
        versions = []
        for entity in entities:
            rows = self.rows(sql.head, entity)
            row = Row(*rows[0]) if rows else None
            versions.append(row.version if row is not None and row.exists(now) else 0)
        return versions

    def _read_at_once(self, op: Op, now: float) -> Outcome | None:
        """Answer the everyday load and get, which take one statement; None for other reads."""
        if type(op) is not Fetch:
            return None
        log = op.log
        if log is None:
            few = op.all_documents or 0 < len(op.documents) <= FEW_NAMES
            return self._fetch_documents(op, now) if few else None
        last = log.last
        if last is None or log.after or log.details or log.upto is not None or log.whole:
            return None
        return None if op.documents or op.all_documents else self._fetch_tail(op, log, last, now)

    def _read(self, op: Op, now: float) -> Outcome:
        if type(op) is Fetch:
            return self._fetch(op, now)
        assert isinstance(op, List)
        if op.tally is not None:
            return tally(self.rows, op)
        if op.within is None:
            return list_entities(self.rows, op, now, self._documents)
        return self._list_documents(op, now)

    def _fetch_tail(self, op: Fetch, log: Log, last: int, now: float) -> Fetched | NotYours | None:
        """Fetch the newest entries; None if one statement does not suffice."""
        rows: list[tuple[Any, ...]] = self.run(sql.head_and_tail, (last, *op.entity)).fetchall()
        if not rows:
            return _absent(None, log)
        head = head_of(rows[0])
        if head.expires is not None and head.expires <= now:
            return _absent(head, log)
        if op.owner is not None and op.owner != head.owner:
            return NotYours()
        live, version, base = head.live, head.version, head.base
        if log.stamp is not None or live != version - base:
            return None
        lines = rows[0][HEAD_COLUMNS]
        if not lines:
            return Fetched(head, truncated=base > 0)
        count = last if last < live else live  # without removed entries, no count is needed
        return Fetched(head, lines, count, version - count + 1, truncated=base > 0)

    def _fetch_documents(self, op: Fetch, now: float) -> Fetched | NotYours:
        """Fetch all documents with their head, or a few."""
        names = () if op.all_documents else op.documents
        query = _head_and_documents(len(names))
        rows: list[tuple[Any, ...]] = self.run(query, op.entity + names).fetchall()
        if not rows:
            return _absent(None, None)
        head = head_of(rows[0])
        if head.expires is not None and head.expires <= now:
            return _absent(head, None)
        if op.owner is not None and op.owner != head.owner:
            return NotYours()
        stored: dict[Any, Value] = {
            row[HEAD_COLUMNS]: Value(*row[HEAD_COLUMNS + 1 :]) for row in rows
        }
        stored.pop(None, None)  # there is none of them
        stored, unchanged = changed_since(op, stored)
        return Fetched(head, documents=stored, unchanged=unchanged)

    def _fetch(self, op: Fetch, now: float) -> Fetched | NotYours:
        rows = self.rows(sql.head, op.entity)
        row = Row(*rows[0]) if rows else None
        if row is None or not row.exists(now):
            return _absent(None if row is None else row.head(), op.log)
        if op.owner is not None and op.owner != row.owner:
            return NotYours()
        if op.all_documents:
            rows = self.rows(sql.all_documents, (row.id, row.life))
            stored = {columns[0]: Value(*columns[1:]) for columns in rows}
        else:
            stored = self._documents(row.id, row.life, op.documents)
        stored, unchanged = changed_since(op, stored)
        head = row.head()
        log = op.log
        if log is None:
            return Fetched(head, documents=stored, unchanged=unchanged)
        if self._is_reset(row, log):
            return Fetched(head, reset=True)
        if log.whole:
            head = msgspec.structs.replace(head, base_stamp=row.base_stamp, token=row.token)
            rows = self._whole(row, log, now)
        else:
            rows = self._entries(row, log)
        return Fetched(
            head,
            "" if log.details or log.whole else "\n".join([body for _, body in rows]),
            len(rows),
            rows[0][0] if rows else 0,
            entries_of(reversed(rows)) if log.details or log.whole else (),
            stored,
            unchanged,
            truncated=log.after < row.base,
        )

    def _entries(self, row: Row, log: Log) -> list[tuple[Any, ...]]:
        after = max(log.after, row.base)
        upto = row.version if log.upto is None else min(log.upto, row.version)
        where = (row.id, row.life, after, upto)
        if log.last is not None:
            query = sql.newest_detailed if log.details else sql.newest
            return self.rows(query, (*where, log.last))[::-1]
        query = sql.oldest_detailed if log.details else sql.oldest
        return self.rows(query, (*where, NO_LIMIT if log.first is None else log.first))

    def _whole(self, row: Row, log: Log, now: float) -> list[tuple[Any, ...]]:
        upto = row.version if log.upto is None else min(log.upto, row.version)
        remembered = (now - KEY_SECONDS, row.version - KEYS_KEPT)
        limit = NO_LIMIT if log.first is None else log.first
        return self.rows(
            sql.whole, (row.id, row.life, log.after, upto, row.base, *remembered, limit)
        )

    def _is_reset(self, row: Row, log: Log) -> bool:
        if log.after > row.version:
            return True
        if log.stamp is None or log.after < row.base:
            return False
        return log.stamp != self._stamp_at(row, log.after)

    def _stamp_at(self, row: Row, seq: int) -> str | None:
        if seq == row.version:
            return row.stamp
        if seq == row.base:
            return row.base_stamp
        rows = self.rows(sql.stamp_at, (row.id, row.life, seq))
        return rows[0][0] if rows else None

    def _documents(self, id_: int, life: int, names: Sequence[str]) -> dict[str, Value]:
        documents: dict[str, Value] = {}
        for start in range(0, len(names), NAMES_AT_ONCE):
            some = names[start : start + NAMES_AT_ONCE]
            for row in self.rows(_documents_named(len(some)), (id_, life, *some)):
                documents[row[0]] = Value(*row[1:])
        return documents

    def _list_documents(self, op: List, now: float) -> Listed:
        assert op.within is not None
        rows = self.rows(sql.head, op.within)
        row = Row(*rows[0]) if rows else None
        if row is None or not row.exists(now) or op.owner not in (None, row.owner):
            return Listed()
        return list_documents(self.rows, op, row.id, row.life)


@lru_cache
def _head_and_documents(count: int) -> str:
    """Return a statement for a head and this many named documents; 0: all documents."""
    which = f"d.name IN ({', '.join(f'?{number}' for number in range(4, count + 4))})"
    order = "" if count else " ORDER BY d.name"
    return str(sql.head_and_documents).replace(":which", which if count else "1") + order


@lru_cache
def _documents_named(count: int) -> str:
    """Return a statement that looks for this many documents: one search each in one call."""
    return "\nUNION ALL ".join(
        f"{sql.document} AND name = ?{number}" for number in range(3, count + 3)
    )


def _absent(head: Head | None, log: Log | None) -> Fetched:
    """Return the outcome for an entity that does not exist, with what outlives a deleted one."""
    gone = Head()
    if head is not None:
        gone = Head(commits=head.commits, life=head.life, dropped=head.dropped)
    return Fetched(gone, reset=log is not None and log.stamp is not None)
