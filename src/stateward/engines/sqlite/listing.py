"""Pages of entities and documents. Clauses are fixed text; every value is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from stateward.codec import encode, listing_mark
from stateward.engines.sqlite.outcomes import head_of
from stateward.ops import Entity, Found, Head, List, Listed, Value

Rows = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
Documents = Callable[[int, int, Sequence[str]], dict[str, Value]]

# No id with a given prefix sorts after the prefix followed by this (ids have at most 512 bytes).
_LAST = "\U0010ffff" * 128

_ENTITY_COLUMNS = """id, kind, name, owner, status, label, due, retain, expires, created, updated,
    version, stamp, base, live, commits, life, dropped, token, nonce, holder, granted, until,
    touched"""
_KIND, _NAME, _DUE, _UPDATED, _TOUCHED = 1, 2, 6, 10, -1


def list_entities(rows: Rows, op: List, now: float, documents: Documents) -> Listed:
    """Entities by owner, kind, status or due time, in the order the contract states."""
    args: list[Any] = [op.namespace, now]
    args += [value for value in (op.owner, op.kind, op.status, op.label) if value is not None]
    if op.prefix:
        args += [op.prefix, op.prefix + _LAST]
    if op.due:
        args.append(now)
    if op.after is not None:
        rank, kind, name = listing_mark(op.after)
        args += (rank, name) if op.recent else (rank, kind, name) if op.due else (kind, name)
    heads = rows(_select(*_shape(op)), (*args, op.limit + 1))
    page = heads[: op.limit]
    if op.recent:
        page.sort(key=lambda row: (row[_UPDATED], row[_NAME]), reverse=not op.reverse)
    entities = tuple([_found(row, op, now, documents) for row in page])
    settled = now if op.recent and op.reverse else 0.0
    if len(heads) <= op.limit:
        return Listed(entities, settled=settled)
    last = heads[op.limit - 1]
    mark = [last[_TOUCHED if op.recent else _DUE], last[_KIND], last[_NAME]]
    return Listed(entities, next=encode(mark, "a cursor"), settled=settled)


def tally(rows: Rows, op: List) -> Listed:
    """Count entities of each kind, or of each owner."""
    column = "owner" if op.tally == "owner" else "kind"
    where, args = ["namespace = ?", "touched IS NOT NULL"], [op.namespace]
    for name, value in (("kind", op.kind), ("owner", op.owner)):
        if value is not None:
            where.append(f"{name} = ?")
            args.append(value)
    if column == "kind":
        query = f"SELECT kind, count(*) FROM entities WHERE {' AND '.join(where)} GROUP BY kind"
        return Listed(tally=dict(sorted(rows(query, tuple(args)))))
    where.append("owner > ?")  # "" is nobody
    query = (
        f"SELECT owner, count(*) FROM entities INDEXED BY entities_by_owner_touched"
        f" WHERE {' AND '.join(where)} GROUP BY owner ORDER BY owner LIMIT ?"
    )
    counts = rows(query, (*args, op.after or "", op.limit + 1))
    next = counts[op.limit - 1][0] if len(counts) > op.limit else None
    return Listed(next=next, tally={str(owner): count for owner, count in counts[: op.limit]})


Shape = tuple[str | None, bool, str | None, bool, bool, bool, bool, bool, bool, bool]


def _shape(op: List) -> Shape:
    """Return the filters that a listing's statement depends on, never their values."""
    owner = None if op.owner is None else "owned" if op.owner else "nobody's"
    status = None if op.status is None else "some" if op.status else "none"
    filters = (owner, op.kind is not None, status, op.label is not None, bool(op.prefix))
    return (*filters, op.due, op.recent, op.expired, op.after is not None, op.reverse)


@lru_cache
def _select(
    owner: str | None,
    kind: bool,
    status: str | None,
    label: bool,
    prefix: bool,
    due: bool,
    recent: bool,
    expired: bool,
    after: bool,
    reverse: bool,
) -> str:
    alive = "(expires IS NULL OR expires > ?)"
    where = ["namespace = ?", f"({alive} OR expires <> 0)" if expired else alive]
    filters = {"owner": owner, "kind": kind or None, "status": status, "label": label or None}
    where += [f"{column} = ?" for column, value in filters.items() if value is not None]
    if owner == "owned":
        where.append("owner <> ''")  # lets the partial indexes be used
    if status == "some":
        where.append("status <> ''")
    if prefix:
        where.append("name >= ? AND name <= ?")
    order = ["kind", "name"]
    if due:
        where.append("due IS NOT NULL AND due <= ?")
        order = ["due", "kind", "name"]
    source, downwards = "entities", reverse != recent
    if recent:
        where.append("touched IS NOT NULL")
        order = ["touched", "name"]
        if status is None:  # few have it, more often than not: then those are sorted
            by = "owner_touched" if owner is not None else "touched"
            source = f"entities INDEXED BY entities_by_{by}"
    if after:
        sign = "<" if downwards else ">"
        where.append(f"({', '.join(order)}) {sign} ({', '.join('?' * len(order))})")
    direction = " DESC" if downwards else ""
    return (
        f"SELECT {_ENTITY_COLUMNS} FROM {source} WHERE {' AND '.join(where)}"
        f" ORDER BY {', '.join(column + direction for column in order)} LIMIT ?"
    )


def _found(row: tuple[Any, ...], op: List, now: float, documents: Documents) -> Found:
    id_, kind, name = row[:3]
    head = head_of(row[3:])
    if head.expires is not None and head.expires <= now:
        head = Head(commits=head.commits, life=head.life, dropped=head.dropped)
    values = documents(id_, head.life, op.documents) if op.documents else {}
    return Found(Entity(op.namespace, kind, name), head, values)


def list_documents(rows: Rows, op: List, entity: int, life: int) -> Listed:
    """List one entity's documents by name."""
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
    documents = rows(
        f"SELECT name, {value}, version, stamp, updated, log FROM documents"
        f" WHERE {where} ORDER BY name {direction} LIMIT ?",
        (*args, op.limit + 1),
    )
    page = tuple((name, Value(*rest)) for name, *rest in documents[: op.limit])
    return Listed(documents=page, next=page[-1][0] if len(documents) > op.limit else None)
