"""Pages of entities and documents. Clauses are fixed text; every value is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.codec import decode, encode
from holdfast.engines.leases import masked
from holdfast.ops import Entity, Found, Head, Lease, List, Listed, Value

Rows = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
Documents = Callable[[int, int, Sequence[str]], dict[str, Value]]

# No id with a given prefix sorts after the prefix followed by this (ids have at most 512 bytes).
_LAST = "\U0010ffff" * 128

_ENTITY_COLUMNS = """id, kind, name, owner, status, label, due, retain, expires, created, updated,
    version, stamp, base, live, commits, life, dropped, token, nonce, holder, granted, until"""


def list_entities(rows: Rows, op: List, now: float, documents: Documents) -> Listed:
    """Entities by owner, kind, status or due time, in the order the contract states."""
    alive = "(expires IS NULL OR expires > ?)"
    where = ["namespace = ?", f"({alive} OR expires <> 0)" if op.expired else alive]
    args: list[Any] = [op.namespace, now]
    if op.owner is not None:
        where.append("owner = ?")
        args.append(op.owner)
        if op.owner:
            where.append("owner <> ''")  # lets the partial index be used
    if op.kind is not None:
        where.append("kind = ?")
        args.append(op.kind)
    if op.status is not None:
        where.append("status = ?")
        args.append(op.status)
        if op.status:
            where.append("status <> ''")
    if op.label is not None:
        where.append("label = ?")
        args.append(op.label)
    if op.prefix:
        where.append("name >= ? AND name <= ?")
        args += [op.prefix, op.prefix + _LAST]
    order = ["kind", "name"]
    if op.due:
        where.append("due IS NOT NULL AND due <= ?")
        args.append(now)
        order = ["due", "kind", "name"]
    if op.after is not None:
        mark = decode(op.after)[-len(order) :]
        sign = "<" if op.reverse else ">"
        where.append(f"({', '.join(order)}) {sign} ({', '.join('?' * len(order))})")
        args += mark
    direction = " DESC" if op.reverse else ""
    found = rows(
        f"SELECT {_ENTITY_COLUMNS} FROM entities WHERE {' AND '.join(where)}"
        f" ORDER BY {', '.join(column + direction for column in order)} LIMIT ?",
        (*args, op.limit + 1),
    )
    page = found[: op.limit]
    entities = tuple(_found(row, op, now, documents) for row in page)
    if len(found) <= op.limit:
        return Listed(entities)
    last = entities[-1]
    mark = [last.head.due, last.entity.kind, last.entity.id]
    return Listed(entities, next=encode(mark, "a cursor"))


def _found(row: tuple[Any, ...], op: List, now: float, documents: Documents) -> Found:
    id_, kind, name, *head_columns, token, nonce, holder, granted, until = row
    lease = masked(Lease(token, nonce, holder, granted, until)) if nonce else None
    head = Head(True, *head_columns, lease)  # type: ignore[call-arg]  # columns of Head, in order
    if head.expires is not None and head.expires <= now:
        head = Head(commits=head.commits, life=head.life, dropped=head.dropped)
    values = documents(id_, head.life, op.documents) if op.documents else {}
    return Found(Entity(op.namespace, kind, name), head, values)


def list_documents(rows: Rows, op: List, entity: int, life: int) -> Listed:
    """One entity's documents by name."""
    where = "entity = ? AND life = ?"
    args: list[Any] = [entity, life]
    if op.prefix:
        where += " AND name >= ? AND name <= ?"
        args += [op.prefix, op.prefix + _LAST]
    if op.after is not None:
        where += " AND name < ?" if op.reverse else " AND name > ?"
        args.append(op.after)
    value = "value" if op.values else "''"
    direction = "DESC" if op.reverse else "ASC"
    found = rows(
        f"SELECT name, {value}, version, stamp, updated, log FROM documents"
        f" WHERE {where} ORDER BY name {direction} LIMIT ?",
        (*args, op.limit + 1),
    )
    page = tuple((name, Value(*rest)) for name, *rest in found[: op.limit])
    return Listed(documents=page, next=page[-1][0] if len(found) > op.limit else None)
