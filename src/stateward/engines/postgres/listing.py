"""Pages of entities and documents. Clauses are fixed text; every value is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from stateward.codec import encode, listing_mark
from stateward.engine import MINUTE
from stateward.engines.postgres.arrays import TextArray
from stateward.engines.postgres.escape import escape, unescape
from stateward.engines.postgres.outcomes import (
    COLUMNS,
    HEAD_COLUMNS,
    documents_by_name,
    head_of,
    is_alive,
)
from stateward.engines.postgres.schema import blocks
from stateward.ops import Entity, Found, List, Listed, Value

# No id with a given prefix sorts after the prefix followed by this (ids have at most 512 bytes).
_LAST = "\U0010ffff" * 128
MOST = 1 << 31  # more than any page holds

_HEAD = blocks().head_columns
_DOCUMENTS = """array_to_json(ARRAY(
    SELECT json_build_array(d.name, d.value, d.version, d.stamp, d.updated, d.log)
    FROM stateward.documents d
    WHERE d.entity = e.id AND d.life = e.life AND d.name = ANY (%b)))::text"""
_ALIVE = "(e.expires IS NULL OR e.expires > (SELECT stateward.clock()))"


def entities_query(op: List, index: int) -> tuple[str, list[Any]]:
    """Return the query for entities by owner, kind, status or due time, with `index` in each row.

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
    downwards = op.reverse != op.recent
    if op.recent:
        where.append("e.touched IS NOT NULL")
        order = ["e.touched", "e.name"]
    if op.after is not None:
        rank, kind, name = listing_mark(op.after)
        marks = {
            "e.due": ("%s::float8", rank),
            "e.touched": ("%s::bigint", rank),
            "e.kind": ("%s", escape(kind)),
            "e.name": ("%s", escape(name)),
        }
        casts = [marks[column][0] for column in order]
        sign = "<" if downwards else ">"
        where.append(f"({', '.join(order)}) {sign} ({', '.join(casts)})")
        args += [marks[column][1] for column in order]
    direction = " DESC" if downwards else ""
    documents = "NULL"
    if op.documents:
        documents = _DOCUMENTS
        args.insert(0, TextArray([escape(name) for name in op.documents]))
    query = (
        f"SELECT {index}::bigint, stateward.clock(), e.id, {_HEAD},"
        f" e.kind, e.name, NULL::bigint, NULL::bigint, NULL, {documents}"
        f" FROM stateward.entities e WHERE {' AND '.join(where)}"
        f" ORDER BY {', '.join(column + direction for column in order)} LIMIT %s"
    )
    return query, [*args, min(op.limit, MOST) + 1]


def read_entities(op: List, rows: Sequence[Sequence[Any]]) -> Listed:
    """Return one page from the rows of `entities_query`, which may come in any order."""
    key: Callable[[Sequence[Any]], Any]
    key = _by_due if op.due else _by_minute if op.recent else _by_name
    downwards = op.reverse != op.recent
    rows = sorted(rows, key=key, reverse=downwards)
    page = rows[: op.limit]
    if op.recent:
        page.sort(key=_by_touch, reverse=downwards)
    entities = tuple(_found(op, row) for row in page)
    if len(rows) <= op.limit:
        return Listed(entities)
    last = rows[op.limit - 1]
    rank = int(last[_UPDATED] // MINUTE) if op.recent else last[_DUE] or 0.0
    mark = [rank, unescape(last[_KIND]), unescape(last[_NAME])]
    return Listed(entities, next=encode(mark, "a cursor"))


def tally_query(op: List) -> tuple[str, list[Any]]:
    """Return the query that counts entities of each kind, or of each owner."""
    column = "owner" if op.tally == "owner" else "kind"
    where, args = ["e.namespace = %s", "e.touched IS NOT NULL"], [escape(op.namespace)]
    for name, value in (("kind", op.kind), ("owner", op.owner)):
        if value is not None:
            where.append(f"e.{name} = %s")
            args.append(escape(value))
    if column == "owner":
        where.append("e.owner > %s")  # "" is nobody
        args.append(escape(op.after or ""))
    query = (
        f"SELECT e.{column}, count(*) FROM stateward.entities e WHERE {' AND '.join(where)}"
        f" GROUP BY e.{column} ORDER BY e.{column} LIMIT %s"
    )
    return query, [*args, MOST if column == "kind" else min(op.limit, MOST) + 1]


def read_tally(op: List, rows: Sequence[Sequence[Any]]) -> Listed:
    """The counts from the rows of `tally_query`."""
    counts = [(unescape(name), count) for name, count in rows]
    page = counts if op.tally == "kind" else counts[: op.limit]
    return Listed(next=page[-1][0] if len(counts) > len(page) else None, tally=dict(page))


_DUE, _UPDATED = (3 + COLUMNS.index(name) for name in ("due", "updated"))
_KIND, _NAME, _DOCUMENTS_AT = 23, 24, 28
_by_name = itemgetter(_KIND, _NAME)  # by code points, which is the order of the bytes of UTF-8
_by_due = itemgetter(_DUE, _KIND, _NAME)
_by_touch = itemgetter(_UPDATED, _NAME)


def _by_minute(row: Sequence[Any]) -> tuple[float, str]:
    return row[_UPDATED] // MINUTE, row[_NAME]


def _found(op: List, row: Sequence[Any]) -> Found:
    columns = row[3 : 3 + HEAD_COLUMNS]
    head = head_of(columns, is_alive(columns, row[1]))
    entity = Entity(op.namespace, unescape(row[_KIND]), unescape(row[_NAME]))
    return Found(entity, head, documents_by_name(row[_DOCUMENTS_AT]))


def documents_query(op: List) -> tuple[str, list[Any]]:
    """Return the query for one entity's documents by name."""
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
    """Return one page from the rows of `documents_query`."""
    page = tuple(
        (unescape(name), Value(json, version, unescape(stamp), updated, log))
        for name, json, version, stamp, updated, log in rows[: op.limit]
    )
    return Listed(documents=page, next=page[-1][0] if len(rows) > op.limit else None)
