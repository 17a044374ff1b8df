"""The parts of an entity as a backup has them, put back word for word."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from stateward.ops import Restore

Run = Callable[[str, tuple[Any, ...]], Any]


def restore(run: Run, sql: SimpleNamespace, entity: int, life: int, write: Restore) -> int:
    """Put entries and documents in their places; returns by how many the entries have grown."""
    for name, value in write.documents.items():
        args = (value.version, value.stamp, value.updated, value.log, value.json)
        run(sql.restore_document, (entity, life, name, *args))
    entries = write.entries
    if not entries:
        return 0
    there = run(sql.clear_entries, (entity, life, entries[0].seq, entries[-1].seq)).fetchall()
    grown = -sum(int(had_body) for (had_body,) in there)
    for entry, following in zip(entries, (*entries[1:], None), strict=True):
        # An op stands on the last entry of its append.
        last = following is None or following.stamp != entry.stamp
        op = entry.stamp if last else None
        row = (entry.seq, entry.at, op, entry.key, entry.digest, entry.body or None, entry.note)
        run(sql.append_one_noted, (entity, life, *row))
        grown += 1 if entry.body else 0
    return grown
