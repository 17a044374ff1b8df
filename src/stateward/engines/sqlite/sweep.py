"""Physical removal, in bounded steps, of what no caller can reach any more."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from stateward.engine import GRACE
from stateward.ops import Sweep, Swept

Rows = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]

ANY_LIFE = 1 << 62


def sweep(rows: Rows, sql: SimpleNamespace, op: Sweep, now: float) -> Swept:
    """Sweep rows of earlier lives first, then entities gone for longer than the grace."""
    removed = entities = 0

    def clear(entity: int, before_life: int) -> bool:
        """Remove this entity's rows of lives before that one; False when the limit is reached."""
        nonlocal removed
        for query in (sql.sweep_log_before, sql.sweep_documents_before):
            room = op.limit - removed
            if room <= 0:
                return False
            gone = len(rows(query + " RETURNING 1", (entity, before_life, room)))
            removed += gone
            if gone == room:
                return False
        return True

    stale = rows(sql.stale_entities, (op.limit,))
    for entity, life in stale:
        if not clear(entity, life):
            return Swept(entities, removed, more=True)
        rows(sql.not_stale, (entity,))
    candidates = rows(sql.sweepable, (now, op.limit))
    for entity, expires, updated in candidates:
        until = max(expires, updated) + GRACE if expires is not None else None
        if until is None or until > now:
            rows(sql.not_yet, (until, entity))
            continue
        if not clear(entity, ANY_LIFE):
            return Swept(entities, removed, more=True)
        rows(sql.sweep_ops, (entity,))
        rows(sql.sweep_head, (entity,))
        entities += 1
        removed += 1
    return Swept(entities, removed, more=max(len(stale), len(candidates)) >= op.limit)
