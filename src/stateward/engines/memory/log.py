"""The part of a log that a fetch asks for."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

import msgspec

from stateward.engines.memory.cell import Cell, is_remembered
from stateward.ops import Entry, Fetched, Log


def whole_log(log: Log, cell: Cell, now: float) -> list[Entry]:
    """Return the entries with all that a restore needs, and the stamps of removed ones."""
    if log.first == 0:
        return []
    upto = cell.version if log.upto is None else min(log.upto, cell.version)
    place = bisect_right(cell.stamps, log.after, key=lambda stamp: stamp.last)
    ends = islice(cell.stamps, place, None)  # from there on: a page costs what is in it
    end = next(ends, None)
    entries: list[Entry] = []
    while end is not None and end.last <= min(cell.base, upto) and len(entries) != log.first:
        if end.key is not None and is_remembered(end, cell, now):
            entries.append(Entry(end.last, end.at, "", end.op, end.key, end.digest))
        end = next(ends, None)
    for seq in range(max(log.after, cell.base) + 1, upto + 1):
        if len(entries) == log.first:
            break
        entry = cell.entries.get(seq)
        if end is None or end.last != seq:
            entries += () if entry is None else (entry,)
            continue
        if entry is not None:
            entries.append(msgspec.structs.replace(entry, digest=end.digest))
        else:
            entries.append(Entry(seq, end.at, "", end.op, end.key, end.digest))
        end = next(ends, None)
    return entries


def with_log(fetched: Fetched, log: Log, cell: Cell, now: float) -> Fetched:
    """Add the log to the fetched parts, or the news that another log is there."""
    head = fetched.head
    if log.after > cell.version:
        return Fetched(head=head, reset=True)
    if log.stamp is not None and log.after >= cell.base and log.stamp != cell.stamp_at(log.after):
        return Fetched(head=head, reset=True)
    if log.whole:
        entries = whole_log(log, cell, now)
        token = cell.lease.token if cell.lease else 0
        head = msgspec.structs.replace(head, base_stamp=cell.base_stamp, token=token)
    else:
        entries = part_of_log(log, cell)
    by_entry = log.details or log.whole
    return msgspec.structs.replace(
        fetched,
        head=head,
        lines="" if by_entry else "\n".join(entry.body for entry in entries),
        count=len(entries),
        first=entries[0].seq if entries else 0,
        entries=tuple(entries) if by_entry else (),
        truncated=log.after < cell.base,
    )


def part_of_log(log: Log, cell: Cell) -> list[Entry]:
    """Return the present entries, without fields that only `Log.whole` returns."""
    upto = cell.version if log.upto is None else min(log.upto, cell.version)
    numbers = range(max(log.after, cell.base) + 1, upto + 1)
    if log.last is not None:
        newest = (cell.entries[n] for n in reversed(numbers) if n in cell.entries)
        entries = list(islice(newest, log.last))[::-1]
    else:
        oldest = (cell.entries[n] for n in numbers if n in cell.entries)
        entries = list(islice(oldest, log.first))
    return [plain(entry) for entry in entries] if log.details else entries


def plain(entry: Entry) -> Entry:
    """Return an entry without fields that only `Log.whole` returns."""
    return entry if entry.note is None else msgspec.structs.replace(entry, note=None)
