"""Operations on one SQLite connection: the contract in Python, the storage in SQL.

A `Session` is used by one thread at a time. It holds no state of its own between calls, so
any number of sessions, in any number of processes, may work on one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from operator import ne

from msgspec.structs import astuple, replace

from stateward.engine import GRACE, KEY_SECONDS, MINUTE
from stateward.engines.rules import (
    blocks,
    extend,
    grant,
    holds,
    is_fenced,
    is_held,
    released,
    set_head,
)
from stateward.engines.sqlite.fast import Columns
from stateward.engines.sqlite.fetch import sql
from stateward.engines.sqlite.op_memory import OpMemory
from stateward.engines.sqlite.outcomes import INDEXED, Row
from stateward.engines.sqlite.restore import restore
from stateward.engines.sqlite.sweep import sweep
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    CommitOutcome,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Fence,
    Fenced,
    Head,
    Held,
    Lease,
    NotYours,
    Outcome,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    Sweep,
    Trim,
    Unheld,
    Value,
    Write,
)


class Session(OpMemory):
    """Reads and writes on a connection. Transactions of writes are the caller's (`file.py`)."""

    def write(self, ops: Sequence[Commit | Sweep], now: float) -> list[Outcome]:
        """Apply commits and sweeps, inside a transaction."""
        if len(ops) == 1:
            return [self.append_alone(ops[0], now) or self._change(ops[0], now)]
        done = self.append_many(ops, now)
        return [outcome or self._change(op, now) for op, outcome in zip(ops, done, strict=True)]

    def _change(self, op: Commit | Sweep, now: float) -> Outcome:
        if type(op) is Commit:
            return self._commit(op, now)
        assert isinstance(op, Sweep)
        return sweep(self.rows, sql, op, now)

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        rows = self.rows(sql.head_to_commit, (*commit.entity, commit.op))
        row: Row | None = None
        exists, before = False, {}
        if rows:
            *columns, is_known = rows[0]
            row = Row(*columns)
            exists = row.exists(now)
            if exists:
                if commit.owner is not None and commit.owner != row.owner:
                    return NotYours()
                if commit.reading:
                    before = self._documents(row.id, row.life, commit.reading)
            answer = self.known(row, exists, commit, before, now, is_known)
            if answer is not None:
                return answer
        if commit.checks:
            refusal = self._refuse(row, exists, commit, before, now)
            if refusal is not None:
                return refusal
        for write in commit.writes:
            if type(write) in _LEASE_WRITES:
                held = _refuse_lease(row, exists, write, before, now)
                if held is not None:
                    return held
        if row is None and _CREATING.issuperset(map(type, commit.writes)):
            return self._create(commit, now)
        is_new = row is None
        if row is None:
            row = _new_row(commit, now)
            self._insert(row, commit)
        indexed = row.indexed()
        first = commit.writes[0]
        if not is_new and (not exists or type(first) is Drop):
            self._begin_life(row, now)
        if type(first) is Drop:
            return self._drop(row, indexed, commit, before, now)
        if type(first) is Restore:
            return self._restore(row, indexed, exists, first, before, now)
        return self._apply(row, indexed, exists, commit, before, now)

    def _create(self, commit: Commit, now: float) -> Applied:
        """A new entity, inserted as the commit leaves it: its row and its indexes are written once.

        What the log and the documents get comes after that, when it has a number.
        """
        row = _new_row(commit, now)
        row.retain, row.created, row.updated, row.commits = commit.retain, now, now, 1
        documents: dict[str, int] = {}
        puts: list[tuple[int, Put]] = []
        appended: Append | None = None
        for write in commit.writes:
            if type(write) is Put:
                documents[write.name] = 1
                puts.append((row.version, write))
            elif type(write) is SetHead:
                set_head(write, row, now)
            elif type(write) is Acquire:
                row.set_lease(grant(None, write, now))
                row.restart_retention(now)
            elif type(write) is Append:
                appended = write
                row.version = row.live = len(write.bodies)
                row.stamp = commit.op
                row.restart_retention(now)
        if row.version and appended is not commit.writes[0]:
            row.restored = row.version  # this op needs no search when the entries go
        self._insert(row, commit)
        if appended is not None:
            self.insert_entries(row.id, row.life, 0, appended, commit.op, now)
        for version, put in puts:
            put_first = (row.id, row.life, put.name, 1, commit.op, now, version, put.value)
            self.run(sql.restore_document, put_first)
        outcome = Applied(row.version, row.stamp, now, documents, row.lease(), True)
        self.keep(row, commit.op, outcome, now)
        return outcome

    def _insert(self, row: Row, commit: Commit) -> None:
        self.run(sql.insert_head, commit.entity + astuple(row)[1:])
        row.id = self._connection.last_insert_rowid()

    def _refuse(
        self, row: Row | None, exists: bool, commit: Commit, before: dict[str, Value], now: float
    ) -> Conflict | Fenced | Held | None:
        checks = commit.checks
        current = row if row is not None and exists else None
        lease = None if current is None else current.lease()
        for check in checks:
            if type(check) is Fence and is_fenced(lease, check):
                return Fenced(_head(row, exists), before)
        for check in checks:
            if type(check) is Unheld and lease is not None and is_held(lease, now):
                return Held(lease.until - now, _head(row, exists), before)
        values = before
        if current is not None and DocumentAt in map(type, checks):
            names = tuple(c.name for c in checks if type(c) is DocumentAt)
            values = before | self._documents(current.id, current.life, names)
        at = current or _head(row, exists)
        for check in checks:
            if not holds(check, exists, at, values):
                return Conflict(check, _head(row, exists), values)
        return None

    def _drop(
        self, row: Row, indexed: Columns, commit: Commit, before: dict[str, Value], now: float
    ) -> Applied:
        self.run(sql.forget_names, (row.id,))
        row.expires = 0.0
        row.sweep_at = now + GRACE
        row.updated = row.dropped = now
        row.touched = None
        self.remember(row, commit.op, Applied(0, "", now), now)
        self._save(row, indexed)
        return Applied(0, "", now, values=before)

    def _restore(
        self,
        row: Row,
        indexed: Columns,
        exists: bool,
        write: Restore,
        before: dict[str, Value],
        now: float,
    ) -> Applied:
        head = write.head
        if exists and not write.continued:
            row.begin_life()
        if not exists or not write.continued:
            self.run(sql.sweep_ops, (row.id,))
        for name in ("owner", "status", "label", "due", "retain", "created", "updated", "version"):
            setattr(row, name, getattr(head, name))
        row.stamp, row.base, row.base_stamp = head.stamp, head.base, head.base_stamp
        row.commits, row.dropped = head.commits, max(row.dropped, head.dropped)
        row.restored, row.touched = head.version, int(head.updated // MINUTE)
        row.set_lease(Lease(max(row.token, head.token), "", "", 0.0, 0.0))
        row.set_expiry(head.expires)
        row.live += restore(self.run, sql, row.id, row.life, write)
        self._save(row, indexed)
        return Applied(head.version, head.stamp, now, created=not exists, values=before)

    def _apply(
        self,
        row: Row,
        indexed: Columns,
        exists: bool,
        commit: Commit,
        before: dict[str, Value],
        now: float,
    ) -> Applied:
        if not exists:
            row.created = now
            row.owner = commit.owner or ""
            row.retain = commit.retain
            row.set_expiry(None if commit.retain is None else now + commit.retain)
        row.updated, row.touched = now, int(now // MINUTE)

        if exists and len(commit.writes) == 1 and type(commit.writes[0]) is Append:
            self._append(row, commit.writes[0], commit.op, now)
            self.remember(row, commit.op, None, now)
            if row.indexed() == indexed:
                args = (row.expires, now, row.version, row.stamp, row.live, row.commits, row.id)
                self.run(sql.save_appended, args)
            else:
                self._save(row, indexed)
            return Applied(row.version, commit.op, now, values=before)

        documents: dict[str, int] = {}
        held, version = False, row.version
        for write in commit.writes:
            held |= type(write) is Acquire or type(write) is Renew
            self._write(row, write, commit.op, documents, now)
        lease = row.lease() if held else None
        outcome = Applied(row.version, row.stamp, now, documents, lease, not exists)
        self.remember(row, commit.op, outcome, now)
        if version <= row.restored and type(commit.writes[0]) is not Append:
            row.restored = row.version  # these ops need no search when the entries go
        self._save(row, indexed)
        return replace(outcome, values=before) if before else outcome

    def _write(
        self, row: Row, write: Write, op: str, documents: dict[str, int], now: float
    ) -> None:
        if type(write) is Append:
            self._append(row, write, op, now)
        elif type(write) is Put:
            args = (row.id, row.life, write.name, op, now, row.version, write.value)
            ((documents[write.name],),) = self.rows(sql.put_document, args)
        elif type(write) is SetHead:
            set_head(write, row, now)
        elif type(write) is Acquire:
            row.set_lease(grant(row.lease(), write, now))
            row.restart_retention(now)
        elif type(write) is Release:
            row.set_lease(released(_granted(row)))
        elif type(write) is Renew:
            row.set_lease(extend(_granted(row), write.ttl, now))
            row.restart_retention(now)
        elif type(write) is Delete:
            self.run(sql.delete_document, (row.id, row.life, write.name))
            documents[write.name] = 0
        elif type(write) is Trim:
            self._trim(row, min(write.upto, row.version), now)
        elif type(write) is Replace:
            for seq, body in write.entries.items():
                if seq > row.version:
                    continue  # there may be no such integer in SQLite
                changed = self.rows(
                    sql.replace_body + " RETURNING 1", (body, row.id, row.life, seq, row.base)
                )
                row.live -= len(changed) if body is None else 0

    def _append(self, row: Row, write: Append, op: str, now: float) -> None:
        if op < row.stamp and row.tells_ops():
            self.file_ops(row, now)
        self.insert_entries(row.id, row.life, row.version, write, op, now)
        row.version += len(write.bodies)
        row.live += len(write.bodies)
        row.stamp = op
        row.restart_retention(now)

    def _begin_life(self, row: Row, now: float) -> None:
        self.keep_ops(row, row.version, now)
        row.begin_life()

    def _trim(self, row: Row, upto: int, now: float) -> None:
        if upto <= row.base:
            return
        stamp = self._stamp_at(row, upto) or ""
        self.keep_ops(row, upto, now)
        removed = upto - row.base
        if row.live != row.version - row.base:  # some were removed before
            ((removed,),) = self.rows(sql.count_upto, (row.id, row.life, upto))
        self.run(sql.trim_rows, (row.id, row.life, upto, now - KEY_SECONDS))
        self.run(sql.trim_bodies, (row.id, row.life, upto))
        row.base, row.base_stamp = upto, stamp
        row.live -= removed

    def _save(self, row: Row, indexed: Columns) -> None:
        """Save the row; `indexed` are the stored values of the columns that indexes cover."""
        head = astuple(row)
        columns = head[1:8]
        changed = tuple(map(ne, columns, indexed))
        self.run(_save(changed), (*compress(columns, changed), *head[8:], row.id))


@lru_cache
def _save(changed: tuple[bool, ...]) -> str:
    """Return the UPDATE of changed columns alone: SQLite writes the index of each column set."""
    columns = "".join(f"{name} = ?, " for name in compress(INDEXED, changed))
    return str(sql.save_head).replace("SET ", f"SET {columns}", 1)


# --- the rules that need no SQL ---------------------------------------------------------


_LEASE_WRITES = frozenset({Acquire, Renew, Release})
_CREATING = frozenset({Acquire, Append, Put, SetHead})  # usual first writes of an entity


def _new_row(commit: Commit, now: float) -> Row:
    """Return the row of a new entity before its commit."""
    row = Row(0, commit.owner or "", touched=int(now // MINUTE))
    row.set_expiry(None if commit.retain is None else now + commit.retain)
    return row


def _head(row: Row | None, exists: bool) -> Head:
    return Head() if row is None else row.head(exists)


def _refuse_lease(
    row: Row | None, exists: bool, write: Write, before: dict[str, Value], now: float
) -> Held | Fenced | None:
    lease = row.lease() if row is not None and exists else None
    if type(write) is Acquire:
        if row is not None and lease is not None and blocks(lease, write, now):
            return Held(lease.until - now, row.head(exists), before)
        return None
    assert type(write) is Renew or type(write) is Release
    return Fenced(_head(row, exists), before) if is_fenced(lease, write) else None


def _granted(row: Row) -> Lease:
    lease = row.lease()
    assert lease is not None, "a fence was checked before"
    return lease
