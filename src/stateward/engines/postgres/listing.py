"""Pages of entities and documents. Clauses are fixed text; every value is bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stateward.codec import decode, encode
from stateward.engines.postgres.escape import escape, unescape
from stateward.engines.postgres.outcomes import (
    HEAD_COLUMNS,
    documents_by_name,
    head_of,
    is_alive,
)
from stateward.ops import Entity, Found, List, Listed, Value

# No id with a given prefix sorts after the prefix followed by this (ids have at most 512 bytes).
_LAST = "\U0010ffff" * 128
MOST = 1 << 31  # more than any page holds

_HEAD = """e.owner, e.status, e.label, e.due, e.retain, e.expires, e.created, e.updated, e.version,
    e.stamp, e.base, e.live, e.commits, e.life, e.dropped,
    e.token, e.nonce, e.holder, e.granted, e.until"""
_DOCUMENTS = """(SELECT json_agg(
    json_build_array(d.name, d.value, d.version, d.stamp, d.updated, d.log))
    FROM jsonb_array_elements_text(%s::jsonb) AS n(name)
    JOIN stateward.documents d ON d.entity = e.id AND d.life = e.life AND d.name = n.name)::text"""
_ALIVE = "(e.expires IS NULL OR e.expires > (SELECT stateward.clock()))"


def entities_query(op: List, index: int) -> tuple[str, list[Any]]:
    """Entities by owner, kind, status or due time; `index` is in each row.

    The columns are those of the query `fetch`, so that both can go into one statement, with kind
    and name where the log has its numbers.
    """
    where = ["e.namespace = %s", f"({_ALIVE} OR e.expires <> 0)" if op.expired else _ALIVE]
    args: list[Any] = [escape(op.namespace)]
    for column, value in (
        ("owner", op.owner),
        ("kind", op.kind),
        ("status", op.status),
        ("label", op.label),
    ):
        if value is not None:
            where.append(f"e.{column} = %s")
            args.append(escape(value))
    if op.owner:
        where.append("e.owner <> ''")  # lets the partial index be used
    if op.status:
        where.append("e.status <> ''")
    if op.prefix:
        where.append("e.name >= %s AND e.name <= %s")
        args += [escape(op.prefix), escape(op.prefix) + _LAST]
    order = ["e.kind", "e.name"]
    if op.due:
        where.append("e.due IS NOT NULL AND e.due <= (SELECT stateward.clock())")
        order = ["e.due", "e.kind", "e.name"]
    if op.after is not None:
        due, kind, name = decode(op.after)
        mark = [due, escape(kind), escape(name)][-len(order) :]
        casts = ["%s::float8", "%s", "%s"][-len(order) :]
        sign = "<" if op.reverse else ">"
        where.append(f"({', '.join(order)}) {sign} ({', '.join(casts)})")
        args += mark
    direction = " DESC" if op.reverse else ""
    documents = "NULL"
    if op.documents:
        documents = _DOCUMENTS
        args.insert(0, msgspec.json.encode([escape(name) for name in op.documents]).decode())
    query = (
        f"SELECT {index}::bigint, stateward.clock(), e.id, {_HEAD},"
        f" e.kind, e.name, NULL::bigint, NULL::bigint, NULL, {documents}"
        f" FROM stateward.entities e WHERE {' AND '.join(where)}"
        f" ORDER BY {', '.join(column + direction for column in order)} LIMIT %s"
    )
    return query, [*args, min(op.limit, MOST) + 1]


def read_entities(op: List, rows: Sequence[Sequence[Any]]) -> Listed:
    """One page from the rows of `entities_query`, which may come in any order."""
    rows = sorted(rows, key=_by_due if op.due else _by_name, reverse=op.reverse)
    entities = tuple(_found(op, row) for row in rows[: op.limit])
    if len(rows) <= op.limit:
        return Listed(entities)
    last = rows[op.limit - 1]
    mark = [last[_DUE] or 0.0, unescape(last[_KIND]), unescape(last[_NAME])]
    return Listed(entities, next=encode(mark, "a cursor"))


_DUE, _KIND, _NAME, _DOCUMENTS_AT = 6, 23, 24, 28


def _by_name(row: Sequence[Any]) -> tuple[str, str]:
    return row[_KIND], row[_NAME]  # by code points, which is the order of the bytes of UTF-8


def _by_due(row: Sequence[Any]) -> tuple[float, str, str]:
    return row[_DUE], row[_KIND], row[_NAME]


def _found(op: List, row: Sequence[Any]) -> Found:
    columns = row[3 : 3 + HEAD_COLUMNS]
    head = head_of(columns, is_alive(columns, row[1]))
    entity = Entity(op.namespace, unescape(row[_KIND]), unescape(row[_NAME]))
    return Found(entity, head, documents_by_name(row[_DOCUMENTS_AT]))


def documents_query(op: List) -> tuple[str, list[Any]]:
    """One entity's documents by name."""
    assert op.within is not None
    where = ["e.namespace = %s", "e.kind = %s", "e.name = %s", _ALIVE]
    args: list[Any] = [escape(part) for part in op.within]
    if op.owner is not None:
        where.append("e.owner = %s")
        args.append(escape(op.owner))
    if op.prefix:
        where.append("d.name >= %s AND d.name <= %s")
        args += [escape(op.prefix), escape(op.prefix) + _LAST]
    if op.after is not None:
        where.append("d.name < %s" if op.reverse else "d.name > %s")
        args.append(escape(op.after))
    value = "d.value" if op.values else "''"
    direction = "DESC" if op.reverse else "ASC"
    query = (
        f"SELECT d.name, {value}, d.version, d.stamp, d.updated, d.log"
        " FROM stateward.entities e"
        " JOIN stateward.documents d ON d.entity = e.id AND d.life = e.life"
        f" WHERE {' AND '.join(where)} ORDER BY d.name {direction} LIMIT %s"
    )
    return query, [*args, min(op.limit, MOST) + 1]


def read_documents(op: List, rows: Sequence[Sequence[Any]]) -> Listed:
    """One page from the rows of `documents_query`."""
    page = tuple(
        (unescape(name), Value(json, version, unescape(stamp), updated, log))
        for name, json, version, stamp, updated, log in rows[: op.limit]
    )
    return Listed(documents=page, next=page[-1][0] if len(rows) > op.limit else None)
