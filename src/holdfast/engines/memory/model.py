"""The contract as plainly as it can be written: dictionaries, lists, and no I/O.

This is the reference that other engines are compared with, so clarity beats speed here.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from holdfast.codec import decode, encode
from holdfast.engine import GRACE, KEY_SECONDS, KEYS_KEPT, OPS_KEPT, OPS_MOST, OPS_SECONDS
from holdfast.engines.leases import blocks, extend, grant, is_fenced, is_held, masked, released
from holdfast.ops import (
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
    Entity,
    Entry,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    KeyReused,
    Lease,
    List,
    Listed,
    Log,
    LogAt,
    NotDroppedSince,
    NotYours,
    Op,
    Outcome,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Sweep,
    Swept,
    Trim,
    Unheld,
    Value,
    Write,
    check_shape,
    digest_of,
)


class Stamp(NamedTuple):
    """What every append leaves behind, whatever becomes of its entries."""

    last: int  # the number of its last entry
    op: str
    at: float
    key: str | None = None
    digest: int | None = None  # where there is a key


@dataclass
class Cell:
    """One entity, with what is remembered of its earlier lives."""

    owner: str = ""
    status: str = ""
    label: str = ""
    due: float | None = None
    retain: float | None = None
    expires: float | None = 0.0  # 0: gone; None: for ever
    created: float = 0.0
    updated: float = 0.0
    version: int = 0
    stamp: str = ""
    base: int = 0
    base_stamp: str = ""
    commits: int = 0
    life: int = 0
    dropped: float = 0.0
    lease: Lease | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    stamps: list[Stamp] = field(default_factory=list)  # oldest first
    documents: dict[str, Value] = field(default_factory=dict)
    keys: dict[str, Stamp] = field(default_factory=dict)
    ops: dict[str, tuple[Applied, float]] = field(default_factory=dict)  # oldest first

    def exists(self, now: float) -> bool:
        return self.expires is None or now < self.expires

    def reborn(self) -> Cell:
        """A new life: only the remembered ops, the counters and the last token carry over."""
        return Cell(
            commits=self.commits,
            life=self.life + 1,
            dropped=self.dropped,
            lease=released(self.lease) if self.lease else None,
            ops=dict(self.ops),
        )

    def head(self, now: float) -> Head:
        if not self.exists(now):
            return Head(commits=self.commits, life=self.life, dropped=self.dropped)
        return Head(
            exists=True,
            owner=self.owner,
            status=self.status,
            label=self.label,
            due=self.due,
            retain=self.retain,
            expires=self.expires,
            created=self.created,
            updated=self.updated,
            version=self.version,
            stamp=self.stamp,
            base=self.base,
            live=len(self.entries),
            commits=self.commits,
            life=self.life,
            dropped=self.dropped,
            lease=masked(self.lease),
        )

    def stamp_at(self, seq: int) -> str | None:
        """The op of the append that made entry `seq`; None if that is not known."""
        if seq == self.base:
            return self.base_stamp
        if not self.base < seq <= self.version:
            return None
        at = bisect_left(self.stamps, seq, key=lambda stamp: stamp.last)
        return self.stamps[at].op if at < len(self.stamps) else self.stamp


class Model:
    """All entities. Thread-safe, so that stores of both colours may share one."""

    def __init__(self) -> None:
        self._cells: dict[Entity, Cell] = {}
        self._changed = threading.Condition()

    def execute(self, ops: Sequence[Op], now: float) -> list[Outcome]:
        with self._changed:
            outcomes = [self._one(op, now) for op in ops]
            self._changed.notify_all()
            return outcomes

    def copy(self) -> Model:
        """All of it as it is at this moment."""
        other = Model()
        with self._changed:
            other._cells = deepcopy(self._cells)
        return other

    def purge(self, namespace: str) -> int:
        """Remove all of a namespace without a trace; returns how many entities that were."""
        with self._changed:
            gone = [entity for entity in self._cells if entity.namespace == namespace]
            for entity in gone:
                del self._cells[entity]
            self._changed.notify_all()
        return len(gone)

    def passed(self, cursors: dict[Entity, int], now: float) -> bool:
        """Whether any of these logs has left its cursor (also backwards: a new life)."""
        for entity, cursor in cursors.items():
            cell = self._cells.get(entity)
            version = cell.version if cell is not None and cell.exists(now) else 0
            if version != cursor:
                return True
        return False

    def wait(self, cursors: dict[Entity, int], now: float, timeout: float) -> None:
        """Block until something changed or the time is up."""
        with self._changed:
            if not self.passed(cursors, now):
                self._changed.wait(timeout)

    def size(self) -> int:
        """Bytes of text held, for `describe`."""
        return sum(
            sum(len(e.body) for e in list(cell.entries.values()))
            + sum(len(v.json) for v in list(cell.documents.values()))
            for cell in list(self._cells.values())  # another thread may write meanwhile
        )

    def rows(self) -> int:
        """Entities, entries and documents held, for `describe`."""
        cells = list(self._cells.values())
        return len(cells) + sum(len(cell.entries) + len(cell.documents) for cell in cells)

    def _one(self, op: Op, now: float) -> Outcome:
        if isinstance(op, Commit):
            return self._commit(op, now)
        if isinstance(op, Fetch):
            return self._fetch(op, now)
        if isinstance(op, List):
            return self._list(op, now)
        return self._sweep(op, now)

    # --- commit ---------------------------------------------------------------------

    def _commit(self, commit: Commit, now: float) -> CommitOutcome:
        check_shape(commit)
        stored = self._cells.get(commit.entity)
        exists = stored is not None and stored.exists(now)
        head = Head() if stored is None else stored.head(now)
        cell = Cell() if stored is None else stored if exists else stored.reborn()
        before = {n: cell.documents[n] for n in commit.reading if n in cell.documents}

        if exists and commit.owner is not None and commit.owner != cell.owner:
            return NotYours()
        if known := self._known(cell, commit, head, before, now):
            return known
        for check in commit.checks:
            if isinstance(check, Fence) and is_fenced(cell.lease, check):
                return Fenced(head, before)
        for check in commit.checks:
            if isinstance(check, Unheld) and cell.lease and is_held(cell.lease, now):
                return Held(cell.lease.until - now, head, before)
        for check in commit.checks:
            if not holds(check, head, cell):
                return Conflict(failed=check, head=head, values=checked(cell, commit, before))
        for write in commit.writes:
            if isinstance(write, Acquire) and cell.lease and blocks(cell.lease, write, now):
                return Held(cell.lease.until - now, head, before)
            if isinstance(write, Renew | Release) and is_fenced(cell.lease, write):
                return Fenced(head, before)

        # From here on nothing can fail: the cell is changed in place.
        write = commit.writes[0]
        if isinstance(write, Restore):
            self._cells[commit.entity] = restored(write, cell, exists)
            return Applied(
                write.head.version, write.head.stamp, now, created=not exists, values=before
            )
        cell.updated = now
        cell.commits += 1
        if isinstance(write, Drop):
            cell = cell.reborn() if exists else cell
            cell.updated = cell.dropped = now
            outcome = Applied(version=0, stamp="", at=now, values=before)
        else:
            if not exists:
                cell.created = now
                cell.owner = commit.owner or ""
                cell.retain = commit.retain
                cell.expires = None if cell.retain is None else now + cell.retain
            written: dict[str, int] = {}
            for write in commit.writes:
                apply(write, cell, commit.op, written, now)
            held = any(isinstance(w, Acquire | Renew) for w in commit.writes)
            outcome = Applied(
                version=cell.version,
                stamp=cell.stamp,
                at=now,
                documents=written,
                lease=cell.lease if held else None,
                created=not exists,
                values=before,
            )
        remember_op(cell, commit.op, outcome, now)
        self._cells[commit.entity] = cell
        return outcome

    def _known(
        self, cell: Cell, commit: Commit, head: Head, before: dict[str, Value], now: float
    ) -> Duplicate | KeyReused | None:
        if commit.op in cell.ops:
            return Duplicate(cell.ops[commit.op][0], True, head, before)
        for write in commit.writes:
            if not isinstance(write, Append) or write.key not in cell.keys:
                continue
            keyed = cell.keys[write.key]
            if not is_remembered(keyed, cell, now):
                continue
            if keyed.digest == digest_of(write.bodies):
                first = Applied(version=keyed.last, stamp=keyed.op, at=keyed.at)
                return Duplicate(first, False, head, before)
            return KeyReused(write.key, keyed.last, head, before)
        return None

    # --- reading --------------------------------------------------------------------

    def _fetch(self, fetch: Fetch, now: float) -> Fetched | NotYours:
        cell = self._cells.get(fetch.entity)
        if cell is None or not cell.exists(now):
            gone = fetch.log is not None and fetch.log.stamp is not None
            return Fetched(head=cell.head(now) if cell else Head(), reset=gone)
        if fetch.owner is not None and fetch.owner != cell.owner:
            return NotYours()
        names = sorted(cell.documents) if fetch.all_documents else fetch.documents
        known = fetch.known or {}
        documents: dict[str, Value] = {}
        unchanged: list[str] = []
        for name in names:
            value = cell.documents.get(name)
            if value is None:
                continue
            if known.get(name) == (value.version, value.stamp):
                unchanged.append(name)
            else:
                documents[name] = value
        fetched = Fetched(head=cell.head(now), documents=documents, unchanged=tuple(unchanged))
        if fetch.log is None:
            return fetched
        return with_log(fetched, fetch.log, cell, now)

    def _list(self, op: List, now: float) -> Listed:
        if op.within is not None:
            return self._list_documents(op, op.within, now)
        rows: list[tuple[tuple[float, str, str], Entity, Cell]] = []
        for entity, cell in self._cells.items():
            wanted = (
                entity.namespace == op.namespace
                and (cell.exists(now) or (op.expired and cell.expires != 0.0))
                and (op.kind is None or entity.kind == op.kind)
                and (op.owner is None or cell.owner == op.owner)
                and (op.status is None or cell.status == op.status)
                and (op.label is None or cell.label == op.label)
                and entity.id.startswith(op.prefix)
                and (not op.due or (cell.due is not None and cell.due <= now))
            )
            if wanted:
                due = cell.due if op.due and cell.due is not None else 0.0
                rows.append(((due, entity.kind, entity.id), entity, cell))
        rows.sort(key=lambda row: row[0], reverse=op.reverse)
        if op.after is not None:
            due, kind, id_ = decode(op.after)
            mark = (float(due), kind, id_)
            rows = [row for row in rows if (row[0] < mark if op.reverse else row[0] > mark)]
        page = rows[: op.limit]
        found = tuple(
            Found(
                entity=entity,
                head=cell.head(now),
                documents={n: cell.documents[n] for n in op.documents if n in cell.documents},
            )
            for _, entity, cell in page
        )
        more = len(rows) > len(page)
        return Listed(entities=found, next=encode(page[-1][0], "a cursor") if more else None)

    def _list_documents(self, op: List, entity: Entity, now: float) -> Listed:
        cell = self._cells.get(entity)
        if cell is None or not cell.exists(now):
            return Listed()
        if op.owner is not None and op.owner != cell.owner:
            return Listed()
        names = sorted((n for n in cell.documents if n.startswith(op.prefix)), reverse=op.reverse)
        if op.after is not None:
            names = [n for n in names if (n < op.after if op.reverse else n > op.after)]
        page = names[: op.limit]
        more = len(names) > len(page)
        documents = tuple((n, shown(cell.documents[n], op.values)) for n in page)
        return Listed(documents=documents, next=page[-1] if more else None)

    # --- sweeping -------------------------------------------------------------------

    def _sweep(self, op: Sweep, now: float) -> Swept:
        gone = [
            entity
            for entity, cell in self._cells.items()
            if cell.expires is not None and max(cell.expires, cell.updated) <= now - GRACE
        ]
        rows = entities = 0
        for entity in gone:
            entries = self._cells[entity].entries
            for seq in list(entries)[: op.limit - rows]:
                del entries[seq]
                rows += 1
            if rows >= op.limit:
                return Swept(entities, rows, more=True)
            del self._cells[entity]
            entities += 1
            rows += 1
        return Swept(entities, rows)


# --- the rules, one by one --------------------------------------------------------------


def holds(check: Check, head: Head, cell: Cell) -> bool:
    """Whether a check other than a fence is met."""
    if isinstance(check, LogAt):
        same = check.stamp is None or check.stamp == head.stamp
        return check.version == head.version and same
    if isinstance(check, DocumentAt):
        value = cell.documents.get(check.name)
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


def checked(cell: Cell, commit: Commit, before: dict[str, Value]) -> dict[str, Value]:
    """The current values of every document a conflict is about."""
    names = [c.name for c in commit.checks if isinstance(c, DocumentAt)]
    return before | {n: cell.documents[n] for n in names if n in cell.documents}


def apply(write: Write, cell: Cell, op: str, written: dict[str, int], now: float) -> None:
    """Carry out one write that nothing refuses any more."""
    match write:
        case Append(bodies=bodies, key=key):
            last = cell.version + len(bodies)
            for seq, body in enumerate(bodies, cell.version + 1):
                cell.entries[seq] = Entry(seq, now, body, op, key if seq == last else None)
            cell.version = last
            cell.stamp = op
            digest = None if key is None else digest_of(bodies)
            cell.stamps.append(Stamp(last, op, now, key, digest))
            if key is not None:
                cell.keys[key] = cell.stamps[-1]
            restart_retention(cell, now)
        case Put(name=name, value=value):
            old = cell.documents.get(name)
            version = old.version + 1 if old else 1
            cell.documents[name] = Value(value, version, op, now, cell.version)
            written[name] = version
        case Delete(name=name):
            cell.documents.pop(name, None)
            written[name] = 0
        case Trim(upto=upto):
            upto = min(upto, cell.version)
            if upto > cell.base:
                stamp = cell.stamp_at(upto) or ""
                cell.base, cell.base_stamp = upto, stamp
                cell.entries = {s: e for s, e in cell.entries.items() if s > upto}
        case Replace(entries=entries):
            for seq, new_body in entries.items():
                entry = cell.entries.get(seq)
                if entry is not None and new_body is None:
                    del cell.entries[seq]
                elif entry is not None and new_body is not None:
                    cell.entries[seq] = Entry(seq, entry.at, new_body, entry.stamp, entry.key)
        case Acquire():
            cell.lease = grant(cell.lease, write, now)
            restart_retention(cell, now)
        case Renew(ttl=ttl):
            assert cell.lease is not None
            cell.lease = extend(cell.lease, ttl, now)
            restart_retention(cell, now)
        case Release():
            assert cell.lease is not None
            cell.lease = released(cell.lease)
        case SetHead():
            set_head(write, cell, now)
        case Drop() | Restore():
            raise AssertionError("handled alone")


def set_head(write: SetHead, cell: Cell, now: float) -> None:
    if write.status is not None:
        cell.status = write.status
    if write.label is not None:
        cell.label = write.label
    if write.owner is not None:
        cell.owner = write.owner
    if write.due is not None:
        cell.due = write.due or None
    if write.due_in is not None:
        cell.due = now + write.due_in
    if write.retain is not None:
        cell.retain = write.retain or None
        cell.expires = None
        restart_retention(cell, now)


def restart_retention(cell: Cell, now: float) -> None:
    """The retention counts from now, but what somebody holds does not expire in their hands."""
    if cell.retain is not None:
        held_until = cell.lease.until if cell.lease else 0.0
        cell.expires = max(now + cell.retain, held_until)


def remember_op(cell: Cell, op: str, outcome: Applied, now: float) -> None:
    """Add this op and forget those that are both old and many."""
    plain = msgspec.structs.replace(outcome, values={})
    cell.ops[op] = (plain, now)
    surplus = len(cell.ops) - OPS_KEPT
    for old in list(cell.ops)[: max(0, surplus)]:
        if cell.ops[old][1] > now - OPS_SECONDS and len(cell.ops) <= OPS_MOST:
            break
        del cell.ops[old]


def restored(write: Restore, cell: Cell, exists: bool) -> Cell:
    """The entity as a backup has it: made anew, or with one more part of it."""
    if not write.continued or not exists:
        cell = cell.reborn()
        cell.ops.clear()
    head = write.head
    cell.owner, cell.status, cell.label = head.owner, head.status, head.label
    cell.due, cell.retain, cell.expires = head.due, head.retain, head.expires
    cell.created, cell.updated, cell.commits = head.created, head.updated, head.commits
    cell.version, cell.stamp = head.version, head.stamp
    cell.base, cell.base_stamp = head.base, head.base_stamp
    cell.dropped = max(cell.dropped, head.dropped)
    token = max(head.token, cell.lease.token if cell.lease else 0)
    cell.lease = Lease(token, "", "", 0.0, 0.0) if token else None
    cell.documents.update(write.documents)
    if write.entries:
        restore_entries(write.entries, cell)
    return cell


def restore_entries(entries: tuple[Entry, ...], cell: Cell) -> None:
    """These numbers, from the first to the last, and no others between them."""
    numbers = range(entries[0].seq, entries[-1].seq + 1)
    cell.entries = {seq: e for seq, e in cell.entries.items() if seq not in numbers}
    cell.stamps = [stamp for stamp in cell.stamps if stamp.last not in numbers]
    for entry, following in zip(entries, (*entries[1:], None), strict=True):
        if entry.body:
            cell.entries[entry.seq] = msgspec.structs.replace(entry, digest=None)
        stamp = Stamp(entry.seq, entry.stamp, entry.at, entry.key, entry.digest)
        if following is None or following.stamp != entry.stamp:
            cell.stamps.append(stamp)
        if entry.key is not None:
            cell.keys[entry.key] = stamp
    cell.entries = dict(sorted(cell.entries.items()))
    cell.stamps.sort(key=lambda stamp: stamp.last)


def is_remembered(keyed: Stamp, cell: Cell, now: float) -> bool:
    """Whether the key of this append still counts."""
    return keyed.at > now - KEY_SECONDS and keyed.last > cell.version - KEYS_KEPT


def whole_log(log: Log, cell: Cell, now: float) -> list[Entry]:
    """The entries with all that a restore needs, and what is left of those that are gone."""
    upto = cell.version if log.upto is None else log.upto
    found = {seq: entry for seq, entry in cell.entries.items() if log.after < seq <= upto}
    for stamp in cell.stamps:
        seq, key = stamp.last, stamp.key
        if not log.after < seq <= upto:
            continue
        known = seq > cell.base or (key is not None and is_remembered(stamp, cell, now))
        if seq in found:
            found[seq] = msgspec.structs.replace(found[seq], digest=stamp.digest)
        elif known:
            found[seq] = Entry(seq, stamp.at, "", stamp.op, key, stamp.digest)
    return [found[seq] for seq in sorted(found)][: log.first]


def with_log(fetched: Fetched, log: Log, cell: Cell, now: float) -> Fetched:
    """The fetched parts plus the log's, or the news that the log is not the one meant."""
    head = fetched.head
    if log.after > cell.version:
        return Fetched(head=head, reset=True)
    if log.stamp is not None and log.after >= cell.base and log.stamp != cell.stamp_at(log.after):
        return Fetched(head=head, reset=True)
    if log.whole:
        entries = whole_log(log, cell, now)
        token = cell.lease.token if cell.lease else 0
        return msgspec.structs.replace(
            fetched,
            head=msgspec.structs.replace(head, base_stamp=cell.base_stamp, token=token),
            count=len(entries),
            first=entries[0].seq if entries else 0,
            entries=tuple(entries),
            truncated=log.after < cell.base,
        )
    upto = cell.version if log.upto is None else min(log.upto, cell.version)
    numbers = range(max(log.after, cell.base) + 1, upto + 1)
    if log.last is not None:
        newest = (cell.entries[n] for n in reversed(numbers) if n in cell.entries)
        entries = list(islice(newest, log.last))[::-1]
    else:
        oldest = (cell.entries[n] for n in numbers if n in cell.entries)
        entries = list(islice(oldest, log.first))
    return Fetched(
        head=head,
        lines="" if log.details else "\n".join(e.body for e in entries),
        count=len(entries),
        first=entries[0].seq if entries else 0,
        entries=tuple(entries) if log.details else (),
        documents=fetched.documents,
        unchanged=fetched.unchanged,
        truncated=log.after < cell.base,
    )


def shown(value: Value, values: bool) -> Value:
    return value if values else msgspec.structs.replace(value, json="")
