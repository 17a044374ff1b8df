"""The contract as plainly as it can be written: dictionaries, lists, and no I/O.

This is the reference that other engines are compared with, so clarity beats speed here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from copy import copy, deepcopy

import msgspec

from stateward.codec import encode, listing_mark
from stateward.engine import GRACE, MINUTE
from stateward.engines.memory.cell import Cell, is_remembered
from stateward.engines.memory.log import with_log
from stateward.engines.memory.writes import (
    apply,
    documents_named,
    forget_names,
    remember_op,
    restored,
    take_back,
)
from stateward.engines.rules import blocks, changed_since, holds, is_fenced, is_held
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    CommitOutcome,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    KeyReused,
    List,
    Listed,
    NotYours,
    Op,
    Outcome,
    Release,
    Renew,
    Restore,
    Sweep,
    Swept,
    Unheld,
    Value,
    check_shape,
    digest_of,
)


class Model:
    """All entities. Thread-safe, so that stores of both colours may share one."""

    def __init__(self) -> None:
        self._cells: dict[Entity, Cell] = {}
        self._lock = threading.RLock()  # entered itself: nothing can be raised in between
        self._changed = threading.Condition(self._lock)

    def execute(self, ops: Sequence[Op], now: float) -> list[Outcome]:
        with self._lock:
            outcomes = [self._one(op, now) for op in ops]
            self._changed.notify_all()
            return outcomes

    def copy(self) -> Model:
        """Copy all entities as they are at this moment."""
        other = Model()
        with self._lock:
            other._cells = deepcopy(self._cells)
        return other

    def namespaces(self) -> list[str]:
        with self._lock:
            return sorted({entity.namespace for entity in self._cells}, key=str.encode)

    def purge(self, namespace: str) -> int:
        """Remove all of a namespace without a trace; returns how many entities that were."""
        with self._lock:
            gone = [entity for entity in self._cells if entity.namespace == namespace]
            for entity in gone:
                del self._cells[entity]
            self._changed.notify_all()
        return len(gone)

    def passed(self, cursors: dict[Entity, int], now: float) -> bool:
        """Return True if any of these logs has left its cursor (also backwards: a new life)."""
        for entity, cursor in cursors.items():
            cell = self._cells.get(entity)
            version = cell.version if cell is not None and cell.exists(now) else 0
            if version != cursor:
                return True
        return False

    def wait(self, cursors: dict[Entity, int], now: float, timeout: float) -> None:
        """Block until something changed or the time is up."""
        with self._lock:
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
        cell = Cell() if stored is None else copy(stored) if exists else stored.reborn()
        before = documents_named(commit.reading, cell)

        if exists and commit.owner is not None and commit.owner != cell.owner:
            return NotYours()
        if answer := self._known(cell, commit, head, before, now):
            return answer
        for check in commit.checks:
            if isinstance(check, Fence) and is_fenced(cell.lease, check):
                return Fenced(head, before)
        for check in commit.checks:
            if isinstance(check, Unheld) and cell.lease and is_held(cell.lease, now):
                return Held(cell.lease.until - now, head, before)
        for check in commit.checks:
            if not holds(check, exists, head, cell.documents):
                names = [c.name for c in commit.checks if isinstance(c, DocumentAt)]
                checked = documents_named(names, cell)
                return Conflict(failed=check, head=head, values=before | checked)
        for write in commit.writes:
            if isinstance(write, Acquire) and cell.lease and blocks(cell.lease, write, now):
                return Held(cell.lease.until - now, head, before)
            if isinstance(write, Renew | Release) and is_fenced(cell.lease, write):
                return Fenced(head, before)

        # Nothing refuses any more, but a signal handler may raise anywhere. The old cell counts
        # until the new one has taken its place; only what an append adds is shared by both.
        try:
            write = commit.writes[0]
            if isinstance(write, Restore):
                self._cells[commit.entity] = restored(write, cell, exists)
                return Applied(
                    write.head.version, write.head.stamp, now, created=not exists, values=before
                )
            cell.updated, cell.commits = now, cell.commits + 1
            if isinstance(write, Drop):
                cell = cell.reborn() if exists else cell
                forget_names(cell)
                cell.updated = cell.dropped = now
                outcome = Applied(version=0, stamp="", at=now, values=before)
            else:
                outcome = self._apply(commit, cell, exists, before, now)
            remember_op(cell, commit.op, outcome, now)
            self._cells[commit.entity] = cell
            return outcome
        except BaseException:
            if stored is not None and self._cells[commit.entity] is stored:
                take_back(stored, commit.op)
            raise

    def _apply(
        self, commit: Commit, cell: Cell, exists: bool, before: dict[str, Value], now: float
    ) -> Applied:
        if not exists:
            cell.created = now
            cell.owner = commit.owner or ""
            cell.retain = commit.retain
            cell.expires = None if cell.retain is None else now + cell.retain
        written: dict[str, int] = {}
        for write in commit.writes:
            apply(write, cell, commit.op, written, now)
        held = any(isinstance(w, Acquire | Renew) for w in commit.writes)
        lease = cell.lease if held else None
        return Applied(cell.version, cell.stamp, now, written, lease, not exists, before)

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
        documents, unchanged = changed_since(fetch, documents_named(names, cell))
        fetched = Fetched(head=cell.head(now), documents=documents, unchanged=unchanged)
        if fetch.log is None:
            return fetched
        return with_log(fetched, fetch.log, cell, now)

    def _list(self, op: List, now: float) -> Listed:
        if op.within is not None:
            return self._list_documents(op, op.within, now)
        if op.tally is not None:
            return self._tally(op)
        assert op.kind is not None or not op.recent, "what is recent is asked for by kind"
        rows: list[tuple[tuple[float, str, str], Entity, Cell]] = []
        for entity, cell in self._cells.items():
            matches = (
                entity.namespace == op.namespace
                and (cell.exists(now) or (op.expired and cell.expires != 0.0))
                and (op.kind is None or entity.kind == op.kind)
                and (op.owner is None or cell.owner == op.owner)
                and (op.status is None or cell.status == op.status)
                and (op.label is None or cell.label == op.label)
                and entity.id.startswith(op.prefix)
                and (not op.due or (cell.due is not None and cell.due <= now))
            )
            if matches:
                rank = cell.due if op.due and cell.due is not None else 0.0
                if op.recent:
                    rank = cell.updated // MINUTE
                rows.append(((rank, entity.kind, entity.id), entity, cell))
        downwards = op.reverse != op.recent
        rows.sort(key=lambda row: row[0], reverse=downwards)
        if op.after is not None:
            rank, kind, id_ = listing_mark(op.after)
            mark = (float(rank), kind, id_)
            rows = [row for row in rows if (row[0] < mark if downwards else row[0] > mark)]
        page = rows[: op.limit]
        more = len(rows) > len(page)
        next = encode(page[-1][0], "a cursor") if more else None
        if op.recent:
            page.sort(key=lambda row: (row[2].updated, row[1].id), reverse=downwards)
        entities = tuple(
            Found(entity, cell.head(now), documents_named(op.documents, cell))
            for _, entity, cell in page
        )
        return Listed(entities, next=next, settled=now if op.recent and op.reverse else 0.0)

    def _tally(self, op: List) -> Listed:
        by_owner = op.tally == "owner"
        count: Counter[str] = Counter()
        for entity, cell in self._cells.items():
            if (
                entity.namespace == op.namespace
                and cell.expires != 0.0
                and op.kind in (None, entity.kind)
                and op.owner in (None, cell.owner)
                and (cell.owner or not by_owner)
            ):
                count[cell.owner if by_owner else entity.kind] += 1
        names = sorted(count)
        if not by_owner:
            return Listed(tally={name: count[name] for name in names})
        names = [name for name in names if op.after is None or name > op.after]
        page = names[: op.limit]
        next = page[-1] if len(names) > len(page) else None
        return Listed(next=next, tally={name: count[name] for name in page})

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
        expired = [
            entity
            for entity, cell in self._cells.items()
            if cell.expires is not None and max(cell.expires, cell.updated) <= now - GRACE
        ]
        rows = entities = 0
        for entity in expired:
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


def shown(value: Value, values: bool) -> Value:
    return value if values else msgspec.structs.replace(value, json="")
