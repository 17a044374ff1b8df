"""Operations on one SQLite connection: the contract in Python, the storage in SQL.

A `Session` is used by one thread at a time. It holds no state of its own between calls, so
any number of sessions, in any number of processes, may work on one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stateward.engine import (
    CALL_SECONDS,
    GRACE,
    KEY_SECONDS,
    KEYS_KEPT,
    MINUTE,
    OPS_KEPT,
    OPS_MOST,
    OPS_SECONDS,
)
from stateward.engines.rules import blocks, extend, grant, is_fenced, is_held, released
from stateward.engines.sqlite.fast import FORGET_EVERY, Appends
from stateward.engines.sqlite.fetch import sql
from stateward.engines.sqlite.outcomes import Row
from stateward.engines.sqlite.restore import restore
from stateward.engines.sqlite.sweep import sweep
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    Commit,
    CommitOutcome,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fenced,
    Head,
    Held,
    KeyReused,
    Lease,
    LogAt,
    NotDroppedSince,
    NotYours,
    Outcome,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Sweep,
    Trim,
    Unheld,
    Value,
    Write,
    digest_of,
)

_encode = msgspec.json.Encoder().encode
_decode_applied = msgspec.json.Decoder(Applied).decode


class KeptOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a row of `ops` says of an outcome that its columns do not.

    The documents' versions come in the order of the writes: whoever repeats a commit names them.
    """

    stamp: str = ""
    documents: tuple[int, ...] = ()
    lease: Lease | None = None
    created: bool = False


_decode_kept = msgspec.json.Decoder(KeptOutcome).decode


def _first_outcome(commit: Commit, version: int, at: float, rest: str | None) -> Applied:
    """The outcome of an op that is known."""
    if rest is None:
        return Applied(version, commit.op, at)
    if rest.startswith('{"type"'):  # as older releases wrote it
        return _decode_applied(rest)
    kept = _decode_kept(rest)
    names = (write.name for write in commit.writes if isinstance(write, Put | Delete))
    documents = dict(zip(names, kept.documents, strict=False))
    return Applied(version, kept.stamp, at, documents, kept.lease, kept.created)


class Session(Appends):
    """Reads and writes on a connection. Transactions of writes are the caller's (`file.py`)."""

    def write(self, ops: Sequence[Commit | Sweep], now: float) -> list[Outcome]:
        """Commits and sweeps, inside a transaction."""
        done = self.append_many(ops, now) if len(ops) > 1 else [self.append_alone(ops[0], now)]
        return [outcome or self._change(op, now) for op, outcome in zip(ops, done, strict=True)]

    def _change(self, op: Commit | Sweep, now: float) -> Outcome:
        if type(op) is Commit:
            return self._commit(op, now)
        assert isinstance(op, Sweep)
        return sweep(self.rows, sql, op, now)

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        rows = self.rows(sql.head, commit.entity)
        row = Row(*rows[0]) if rows else None
        exists = row is not None and row.exists(now)
        if exists:
            assert row is not None
            if commit.owner is not None and commit.owner != row.owner:
                return NotYours()

        before: dict[str, Value] = {}
        if row is not None:
            if commit.reading and exists:
                before = self._documents(row.id, row.life, commit.reading)
            known = self._known(row, exists, commit, before, now)
            if known is not None:
                return known
        if commit.checks:
            refusal = self._refuse(row, exists, commit, before, now)
            if refusal is not None:
                return refusal
        for write in commit.writes:
            if type(write) in _LEASE_WRITES:
                held = _refuse_lease(row, exists, write, before, now)
                if held is not None:
                    return held
        if row is None:
            args = (*commit.entity, commit.owner or "", now, now)
            ((id_,),) = self.rows(sql.insert_head + " RETURNING id", args)
            row = Row(id_)
        elif not exists:
            self._begin_life(row, now)
        first = commit.writes[0]
        if type(first) is Drop:
            if exists:
                self._begin_life(row, now)
            return self._drop(row, commit, before, now)
        if type(first) is Restore:
            return self._restore(row, exists, first, before, now)
        return self._apply(row, exists, commit, before, now)

    def _known(
        self, row: Row, exists: bool, commit: Commit, before: dict[str, Value], now: float
    ) -> Duplicate | KeyReused | None:
        rows = self.rows(sql.known_op, (row.id, commit.op, row.life, row.restored))
        if rows:
            version, at, rest = rows[0]
            first = _first_outcome(commit, version, at, rest)
            return Duplicate(first, True, row.head(exists), before)
        for write in commit.writes:
            if type(write) is not Append or write.key is None or not exists:
                continue
            rows = self.rows(sql.by_key, (row.id, row.life, write.key))
            if not rows:
                continue
            seq, op, digest, at = rows[0]
            if at <= now - KEY_SECONDS or seq <= row.version - KEYS_KEPT:
                continue
            if digest == digest_of(write.bodies):
                return Duplicate(Applied(seq, op, at), False, row.head(exists), before)
            return KeyReused(write.key, seq, row.head(exists), before)
        return None

    def _refuse(
        self, row: Row | None, exists: bool, commit: Commit, before: dict[str, Value], now: float
    ) -> Conflict | Fenced | Held | None:
        head = Head() if row is None else row.head(exists)
        lease = row.lease() if row is not None and exists else None
        for check in commit.checks:
            if type(check) is Fence and is_fenced(lease, check):
                return Fenced(head, before)
        for check in commit.checks:
            if type(check) is Unheld and lease is not None and is_held(lease, now):
                return Held(lease.until - now, head, before)
        names = tuple(c.name for c in commit.checks if type(c) is DocumentAt)
        values = before
        if names and row is not None and exists:
            values = before | self._documents(row.id, row.life, names)
        for check in commit.checks:
            if not _holds(check, head, values):
                return Conflict(check, head, values)
        return None

    def _drop(self, row: Row, commit: Commit, before: dict[str, Value], now: float) -> Applied:
        self.run(sql.forget_names, (row.id,))
        row.expires = 0.0
        row.sweep_at = now + GRACE
        row.updated = row.dropped = now
        row.touched = None
        self._remember(row, commit.op, Applied(0, "", now), now)
        self._save(row, None)
        return Applied(0, "", now, values=before)

    def _restore(
        self, row: Row, exists: bool, write: Restore, before: dict[str, Value], now: float
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
        self._save(row, None)
        return Applied(head.version, head.stamp, now, created=not exists, values=before)

    def _apply(
        self,
        row: Row,
        exists: bool,
        commit: Commit,
        before: dict[str, Value],
        now: float,
    ) -> Applied:
        indexed = row.indexed() if exists else None
        if not exists:
            row.created = now
            row.owner = commit.owner or ""
            row.retain = commit.retain
            row.set_expiry(None if commit.retain is None else now + commit.retain)
        row.updated, row.touched = now, int(now // MINUTE)

        if exists and len(commit.writes) == 1 and type(commit.writes[0]) is Append:
            self._append(row, commit.writes[0], commit.op, now)
            self._remember(row, commit.op, None, now)
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
        self._remember(row, commit.op, outcome, now)
        if version <= row.restored and type(commit.writes[0]) is not Append:
            row.restored = row.version  # so nobody looks for these ops when the entries go
        self._save(row, indexed)
        return msgspec.structs.replace(outcome, values=before) if before else outcome

    def _write(
        self, row: Row, write: Write, op: str, documents: dict[str, int], now: float
    ) -> None:
        kind = type(write)
        if kind is Append:
            self._append(row, write, op, now)  # type: ignore[arg-type]
        elif isinstance(write, Put):
            args = (row.id, row.life, write.name, op, now, row.version, write.value)
            ((documents[write.name],),) = self.rows(sql.put_document, args)
        elif isinstance(write, Delete):
            self.run(sql.delete_document, (row.id, row.life, write.name))
            documents[write.name] = 0
        elif isinstance(write, Trim):
            self._trim(row, min(write.upto, row.version), now)
        elif isinstance(write, Replace):
            for seq, body in write.entries.items():
                if seq > row.version:
                    continue  # there may be no such integer in SQLite
                changed = self.rows(
                    sql.replace_body + " RETURNING 1", (body, row.id, row.life, seq, row.base)
                )
                row.live -= len(changed) if body is None else 0
        elif isinstance(write, Acquire):
            row.set_lease(grant(row.lease(), write, now))
            row.restart_retention(now)
        elif isinstance(write, Renew):
            row.set_lease(extend(_granted(row), write.ttl, now))
            row.restart_retention(now)
        elif isinstance(write, Release):
            row.set_lease(released(_granted(row)))
        elif isinstance(write, SetHead):
            _set_head(row, write, now)

    def _append(self, row: Row, write: Append, op: str, now: float) -> None:
        self.insert_entries(row.id, row.life, row.version, write, op, now)
        row.version += len(write.bodies)
        row.live += len(write.bodies)
        row.stamp = op
        row.restart_retention(now)

    def _begin_life(self, row: Row, now: float) -> None:
        self._keep_ops(row, row.version, now)
        row.begin_life()

    def _keep_ops(self, row: Row, upto: int, now: float) -> None:
        """Remember appends apart from their entries up to here, which are about to go."""
        since = max(row.base, row.restored)
        if upto <= since:
            return
        entries = (row.commits, row.id, row.life, since, upto)
        self.run(sql.keep_last_ops, (*entries, OPS_KEPT))
        self.run(sql.keep_recent_ops, (*entries, OPS_MOST, now - OPS_SECONDS))
        self.run(sql.keep_recent_ops, (*entries, -1, now - CALL_SECONDS))  # however many

    def _trim(self, row: Row, upto: int, now: float) -> None:
        if upto <= row.base:
            return
        stamp = self._stamp_at(row, upto) or ""
        self._keep_ops(row, upto, now)
        removed = upto - row.base
        if row.live != row.version - row.base:  # some were removed before
            ((removed,),) = self.rows(sql.count_upto, (row.id, row.life, upto))
        self.run(sql.trim_rows, (row.id, row.life, upto, now - KEY_SECONDS))
        self.run(sql.trim_bodies, (row.id, row.life, upto))
        row.base, row.base_stamp = upto, stamp
        row.live -= removed

    def _remember(self, row: Row, op: str, outcome: Applied | None, now: float) -> None:
        """Keep the op. `None` stands for a plain append, of which the log says all."""
        row.commits += 1
        n = row.commits
        if outcome is not None:
            versions = tuple(outcome.documents.values())
            kept = KeptOutcome(outcome.stamp, versions, outcome.lease, outcome.created)
            rest = _encode(kept).decode()
            self.run(sql.remember_op, (row.id, op, n, now, row.version, rest))
        if n % FORGET_EVERY == 0:
            bounds = (n - OPS_KEPT, now - CALL_SECONDS, now - OPS_SECONDS, n - OPS_MOST)
            self.run(sql.forget_ops, (row.id, *bounds))

    def _save(self, row: Row, indexed: tuple[Any, ...] | None) -> None:
        if row.indexed() != indexed:
            self.run(sql.save_indexed, (*row.indexed(), row.id))
        self.run(sql.save_head, (*msgspec.structs.astuple(row)[8:], row.id))


# --- the rules that need no SQL ---------------------------------------------------------

_LEASE_WRITES = frozenset({Acquire, Renew, Release})


def _holds(check: Check, head: Head, values: dict[str, Value]) -> bool:
    if isinstance(check, LogAt):
        return check.version == head.version and check.stamp in (None, head.stamp)
    if isinstance(check, DocumentAt):
        value = values.get(check.name)
        if value is None:
            return check.version == 0
        return check.version == value.version and check.stamp in (None, value.stamp)
    if isinstance(check, Absent):
        return not head.exists
    if isinstance(check, StatusIn):
        return head.status in check.statuses
    if isinstance(check, CommitsAt):
        return head.commits == check.commits
    if isinstance(check, NotDroppedSince):
        return head.dropped < check.at
    return True  # fences and holders were checked before


def _refuse_lease(
    row: Row | None, exists: bool, write: Write, before: dict[str, Value], now: float
) -> Held | Fenced | None:
    lease = row.lease() if row is not None and exists else None
    head = Head() if row is None else row.head(exists)
    if isinstance(write, Acquire):
        if lease is not None and blocks(lease, write, now):
            return Held(lease.until - now, head, before)
        return None
    assert isinstance(write, Renew | Release)
    return Fenced(head, before) if is_fenced(lease, write) else None


def _granted(row: Row) -> Lease:
    lease = row.lease()
    assert lease is not None, "a fence was checked before"
    return lease


def _set_head(row: Row, write: SetHead, now: float) -> None:
    if write.status is not None:
        row.status = write.status
    if write.label is not None:
        row.label = write.label
    if write.owner is not None:
        row.owner = write.owner
    if write.due is not None:
        row.due = write.due or None
    if write.due_in is not None:
        row.due = now + write.due_in
    if write.retain is not None:
        row.retain = write.retain or None
        row.set_expiry(None)
        row.restart_retention(now)
