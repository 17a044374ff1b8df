"""Statements that read: fetches and listings as few of them, and outcomes from rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from stateward.engines.postgres.arrays import BigintArray, BooleanArray, TextArray
from stateward.engines.postgres.escape import escape, escape_or_none
from stateward.engines.postgres.listing import (
    documents_query,
    entities_query,
    read_documents,
    read_entities,
    read_tally,
    tally_query,
)
from stateward.engines.postgres.outcomes import (
    read_fetch,
    read_head,
    read_news,
    read_tail,
    read_whole,
)
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.statement import Rows, Statement, addresses, statement_of
from stateward.ops import Entity, Fetch, Fetched, Head, List, NotYours

MOST = 1 << 62  # larger numbers mean the same, and would not fit
MOST_PARTS = 4  # fetches that are said one by one: more are cheaper together

Numbered = list[tuple[int, Fetch]]  # fetches of a batch with their places in it
ReadRow = Callable[[Fetch, Sequence[Any]], Fetched | NotYours]

_encode = msgspec.json.Encoder().encode


def reads(fetches: Numbered, listings: list[tuple[int, List]], queries: Queries) -> Statement:
    """Return all fetches and listings of a batch as one statement, in its plainest form."""
    if not listings:
        if all(_is_tail(op) for _, op in fetches):
            return (_tails if len(fetches) > 1 else _tail)(fetches, queries)
        if all(_is_head(op) for _, op in fetches):
            return (_heads if len(fetches) > 1 else _head)(fetches, queries)
        if len(fetches) == 1 and _is_news(fetches[0][1]):
            return _news(*fetches[0], queries)
    return _together(fetches, listings, queries)


def _together(fetches: Numbered, listings: list[tuple[int, List]], queries: Queries) -> Statement:
    """Return all fetches and listings as one statement: one round trip for an agent's context."""
    plain = len(fetches) <= MOST_PARTS and all(_is_plain(op) for _, op in fetches)
    if plain:
        parts, params = _parts([op for _, op in fetches], queries)
    else:
        parts, params = [queries.fetch], _fetch_params([op for _, op in fetches])
    for number, (_, op) in enumerate(listings, 1):
        query, args = entities_query(op, -number)
        parts.append(f"({queries.adapted(query)})")
        params += args

    def read(rows: Rows, outcomes: list[Any]) -> None:
        pages: list[list[Sequence[Any]]] = [[] for _ in listings]
        for index, _ in fetches:
            outcomes[index] = Fetched(Head())  # a part gives no row for what is not there
        for row in rows:
            number = row[0]
            if number > 0:
                index, op = fetches[number - 1]
                outcomes[index] = read_fetch(op, row, newest_first=not plain)
            else:
                pages[-number - 1].append(row)
        for (index, listing), page in zip(listings, pages, strict=True):
            outcomes[index] = read_entities(listing, page)

    return Statement(" UNION ALL ".join(parts), params, read)


def settled(
    upwards: Sequence[int], reads: Statement, queries: Queries
) -> tuple[Statement, Statement]:
    """Precede reads by a query for the oldest commit under way, for upward listings.

    In this order: what ends between the two is seen by the second.
    """
    at: list[float] = []

    def read_settled(rows: Rows, _outcomes: list[Any]) -> None:
        at.append(rows[0][0])

    def read(rows: Rows, outcomes: list[Any]) -> None:
        reads.read(rows, outcomes)
        for index in upwards:
            outcomes[index] = replace(outcomes[index], settled=at[-1])

    return Statement(queries.settled, (), read_settled), Statement(reads.query, reads.params, read)


def _parts(ops: Sequence[Fetch], queries: Queries) -> tuple[list[str], list[Any]]:
    """Return a few usual fetches as parts of a statement, each in its plainest form."""
    parts: list[str] = []
    params: list[Any] = []
    for number, op in enumerate(ops, 1):
        address = [escape(part) for part in op.entity]
        if op.log is not None and op.log.first is not None:
            parts.append(queries.part_beginning)
            params += [number, _most(op.log.first), *address]
        elif op.log is not None:
            parts.append(queries.part_tail)
            params += [number, _most(op.log.last), *address]
        elif op.all_documents:
            parts.append(queries.part_documents)
            params += [number, *address]
        else:
            parts.append(queries.part_named)
            params += [number, TextArray([escape(name) for name in op.documents]), *address]
    return parts, params


def _fetch_params(ops: Sequence[Fetch]) -> list[Any]:
    logs = [op.log for op in ops]
    upto = [None if log is None or log.upto is None else min(log.upto, MOST) for log in logs]
    first = [None if log is None or log.last is not None else _most(log.first) for log in logs]
    last = [None if log is None or log.last is None else _most(log.last) for log in logs]
    return [
        *addresses([op.entity for op in ops]),
        BigintArray([min(log.after, MOST) if log else 0 for log in logs]),
        BigintArray(upto),
        BigintArray(first),
        BigintArray(last),
        TextArray([escape_or_none(log.stamp) if log else None for log in logs]),
        BooleanArray([log is not None and log.details for log in logs]),
        BooleanArray([op.all_documents for op in ops]),
        TextArray([_names(op.documents) if op.documents else None for op in ops]),
        TextArray([_known(op) if op.known else None for op in ops]),
    ]


def whole(index: int, op: Fetch, queries: Queries) -> Statement:
    """Return the fetch of a whole log, which backups request one at a time."""
    log = op.log
    assert log is not None
    params = (
        min(log.after, MOST),
        _most(log.upto),
        _most(log.first),
        escape_or_none(log.stamp),
        op.all_documents,
        _names(op.documents),
    )
    absent = Fetched(Head(), reset=log.stamp is not None)
    return _one(index, op, queries.fetch_whole, params, read_whole, absent)


def _most(limit: int | None) -> int:
    return MOST if limit is None else min(limit, MOST)


def _names(names: Sequence[str]) -> str:
    return _encode([escape(name) for name in dict.fromkeys(names)]).decode()


def _known(fetch: Fetch) -> str:
    assert fetch.known is not None
    return _encode(
        {escape(name): (version, escape(stamp)) for name, (version, stamp) in fetch.known.items()}
    ).decode()


def _is_tail(op: Fetch) -> bool:
    """Return True for a fetch of the newest entries alone, the most frequent one."""
    log = op.log
    return (
        log is not None
        and log.last is not None
        and not (log.after or log.details or op.documents or op.all_documents)
        and log.upto is None
        and log.stamp is None
    )


def _is_beginning(op: Fetch) -> bool:
    """Return True for a fetch of the oldest entries with their details alone."""
    log = op.log
    return (
        log is not None
        and log.first is not None
        and log.details
        and not (log.after or op.documents or op.all_documents)
        and log.upto is None
        and log.stamp is None
    )


def _is_plain(op: Fetch) -> bool:
    """Return True for a tail, a beginning, or documents alone, without known versions."""
    return (
        _is_tail(op)
        or _is_beginning(op)
        or (op.log is None and not op.known and bool(op.all_documents or op.documents))
    )


def _is_head(op: Fetch) -> bool:
    return op.log is None and not (op.documents or op.all_documents)


def _head(fetches: Numbered, queries: Queries) -> Statement:
    ((index, op),) = fetches
    return _one(index, op, queries.fetch_head, (), read_head)


def _heads(fetches: Numbered, queries: Queries) -> Statement:
    return _several(fetches, queries.fetch_heads, (), read_head)


def _is_news(op: Fetch) -> bool:
    """Return whether only the entries after a known one are asked for."""
    log = op.log
    return (
        log is not None
        and log.last is not None
        and log.details
        and log.stamp is not None
        and log.upto is None
        and not (log.whole or op.documents or op.all_documents)
    )


def _news(index: int, op: Fetch, queries: Queries) -> Statement:
    assert op.log is not None
    bounds = (min(op.log.after, MOST), _most(op.log.last))
    return _one(index, op, queries.fetch_news, bounds, read_news, Fetched(Head(), reset=True))


def _tail(fetches: Numbered, queries: Queries) -> Statement:
    ((index, op),) = fetches
    assert op.log is not None
    return _one(index, op, queries.fetch_tail, (_most(op.log.last),), read_tail)


def _tails(fetches: Numbered, queries: Queries) -> Statement:
    lasts = BigintArray([_most(op.log.last) if op.log else 0 for _, op in fetches])
    return _several(fetches, queries.fetch_tails, (lasts,), read_tail)


def _one(
    index: int,
    op: Fetch,
    query: str,
    params: tuple[Any, ...],
    read_row: ReadRow,
    absent: Fetched | None = None,
) -> Statement:
    """A fetch by a query whose last parameters are the address of its entity."""
    address = [escape(part) for part in op.entity]

    def outcome(rows: Rows) -> Fetched | NotYours:
        return read_row(op, rows[0]) if rows else absent or Fetched(Head())

    return statement_of(index, query, (*params, *address), outcome)


def _several(
    fetches: Numbered, query: str, params: tuple[Any, ...], read_row: ReadRow
) -> Statement:
    """Fetches by a query that gives their places in its rows, and none for what is absent."""

    def read(rows: Rows, outcomes: list[Any]) -> None:
        for index, _ in fetches:
            outcomes[index] = Fetched(Head())
        for row in rows:
            index, op = fetches[row[-1] - 1]
            outcomes[index] = read_row(op, row)

    return Statement(query, (*addresses([op.entity for _, op in fetches]), *params), read)


def documents(index: int, op: List, queries: Queries) -> Statement:
    query, args = documents_query(op)
    return statement_of(index, queries.adapted(query), args, partial(read_documents, op))


def tally(index: int, op: List, queries: Queries) -> Statement:
    query, args = tally_query(op)
    return statement_of(index, queries.adapted(query), args, partial(read_tally, op))


def versions(entities: Sequence[Entity], queries: Queries) -> tuple[str, tuple[TextArray, ...]]:
    """The statement that says where logs stand."""
    return queries.versions, addresses(entities)
