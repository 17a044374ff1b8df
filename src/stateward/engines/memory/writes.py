"""Writes on a cell, one by one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stateward.engine import CALL_SECONDS, OPS_KEPT, OPS_MOST, OPS_SECONDS
from stateward.engines.memory.cell import Cell, Stamp
from stateward.engines.rules import extend, grant, released, set_head
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Delete,
    Drop,
    Entry,
    Lease,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    Trim,
    Value,
    Write,
    digest_of,
)


def documents_named(names: Iterable[str], cell: Cell) -> dict[str, Value]:
    """The documents of these names, as far as they are there."""
    return {name: cell.documents[name] for name in names if name in cell.documents}


def apply(write: Write, cell: Cell, op: str, written: dict[str, int], now: float) -> None:
    """Carry out one write that nothing refuses any more.

    The cell is a copy: what it shares with the one that counts stays as it is, but for what an
    append adds, which `take_back` finds again.
    """
    match write:
        case Append(bodies=bodies, key=key, note=note):
            last = cell.version + len(bodies)
            for seq, body in enumerate(bodies, cell.version + 1):
                own = (key, None, note) if seq == last else ()
                cell.entries[seq] = Entry(seq, now, body, op, *own)
            cell.version = last
            cell.stamp = op
            digest = None if key is None else digest_of(bodies)
            cell.stamps.append(Stamp(last, op, now, key, digest))
            if key is not None:
                cell.keys[key] = cell.stamps[-1]
            cell.restart_retention(now)
        case Put(name=name, value=value):
            old = cell.documents.get(name)
            version = old.version + 1 if old else 1
            put = Value(value, version, op, now, cell.version)
            cell.documents = {**cell.documents, name: put}
            written[name] = version
        case Delete(name=name):
            cell.documents = dict(cell.documents)
            cell.documents.pop(name, None)
            written[name] = 0
        case Trim(upto=upto):
            upto = min(upto, cell.version)
            if upto > cell.base:
                stamp = cell.stamp_at(upto) or ""
                cell.base, cell.base_stamp = upto, stamp
                cell.entries = {s: e for s, e in cell.entries.items() if s > upto}
        case Replace(entries=entries):
            cell.entries = dict(cell.entries)
            for seq, new_body in entries.items():
                entry = cell.entries.get(seq)
                if entry is not None and new_body is None:
                    del cell.entries[seq]
                elif entry is not None and new_body is not None:
                    cell.entries[seq] = msgspec.structs.replace(entry, body=new_body)
        case Acquire():
            cell.lease = grant(cell.lease, write, now)
            cell.restart_retention(now)
        case Renew(ttl=ttl):
            assert cell.lease is not None
            cell.lease = extend(cell.lease, ttl, now)
            cell.restart_retention(now)
        case Release():
            assert cell.lease is not None
            cell.lease = released(cell.lease)
        case SetHead():
            set_head(write, cell, now)
        case Drop() | Restore():
            raise AssertionError("handled alone")


def remember_op(cell: Cell, op: str, outcome: Applied, now: float) -> None:
    """Add this op and forget those that are both old and many."""
    plain = msgspec.structs.replace(outcome, values={})
    cell.ops[op] = (plain, now)
    while len(cell.ops) > OPS_KEPT:
        oldest = next(iter(cell.ops))
        age = now - cell.ops[oldest][1]
        if age < CALL_SECONDS or (age < OPS_SECONDS and len(cell.ops) <= OPS_MOST):
            break
        del cell.ops[oldest]


def take_back(cell: Cell, op: str) -> None:
    """Remove what a commit that was interrupted has added to a cell that goes on to count."""
    for seq in [seq for seq in cell.entries if seq > cell.version]:
        del cell.entries[seq]
    cell.stamps[:] = [stamp for stamp in cell.stamps if stamp.last <= cell.version]
    for key in [key for key, stamp in cell.keys.items() if stamp.last > cell.version]:
        del cell.keys[key]
    cell.ops.pop(op, None)


def forget_names(cell: Cell) -> None:
    """Forget names of documents, which may identify a person as documents do."""
    for op, (outcome, at) in cell.ops.items():
        if outcome.documents:
            cell.ops[op] = (msgspec.structs.replace(outcome, documents={}), at)


def restored(write: Restore, cell: Cell, exists: bool) -> Cell:
    """Return the entity as in a backup: created anew, or with one more part of it."""
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
    cell.documents = {**cell.documents, **write.documents}
    if write.entries:
        restore_entries(write.entries, cell)
    return cell


def restore_entries(entries: tuple[Entry, ...], cell: Cell) -> None:
    """Replace the range from the first to the last of these numbers by these entries."""
    numbers = range(entries[0].seq, entries[-1].seq + 1)
    cell.keys = dict(cell.keys)
    last = next(reversed(cell.entries), 0)
    behind = last < numbers[0] and (not cell.stamps or cell.stamps[-1].last < numbers[0])
    if not behind:  # otherwise each part of a long log would touch all that came before it
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
    if not behind:
        cell.entries = dict(sorted(cell.entries.items()))
        cell.stamps.sort(key=lambda stamp: stamp.last)
