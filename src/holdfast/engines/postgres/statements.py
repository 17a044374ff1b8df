"""What a batch of operations asks of the database, and how its answers become outcomes.

No I/O: both colours send the statements and hand back the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from psycopg.types.numeric import Int4, Int8

from holdfast.engines.postgres.arrays import (
    BigintArray,
    BooleanArray,
    FloatArray,
    IntegerArray,
    TextArray,
)
from holdfast.engines.postgres.listing import (
    documents_query,
    entities_query,
    read_documents,
    read_entities,
)
from holdfast.engines.postgres.outcomes import (
    read_commit,
    read_fetch,
    read_head,
    read_news,
    read_tail,
    read_whole,
)
from holdfast.engines.postgres.schema import Queries
from holdfast.engines.postgres.text import all_stored, stored, stored_or_none
from holdfast.ops import (
    Append,
    Applied,
    Check,
    Commit,
    Entity,
    Fetch,
    Fetched,
    Head,
    List,
    Op,
    Outcome,
    Restore,
    Sweep,
    Swept,
    Write,
    check_shape,
    digest_of,
)

Rows = Sequence[Sequence[Any]]

MOST = 1 << 62  # larger numbers mean the same, and would not fit
MOST_PARTS = 4  # fetches that are said one by one: more are cheaper together
MOST_SWEPT = 100_000  # rows in one step, whatever was asked for

_encode = msgspec.json.Encoder().encode


class Spec(msgspec.Struct):
    """What a commit holds besides its address, its op and the bodies it appends."""

    checks: tuple[Check, ...]
    writes: tuple[Write, ...]
    reading: tuple[str, ...]


class Statement:
    """One statement, and the places in the batch that its rows answer."""

    __slots__ = ("params", "query", "read")

    def __init__(
        self, query: str, params: Sequence[Any], read: Callable[[Rows, list[Any]], None]
    ) -> None:
        self.query = query
        self.params = params
        self.read = read


class Batch:
    """A batch as few statements: one for all commits, and mostly one for all reads."""

    def __init__(self, ops: Sequence[Op], queries: Queries) -> None:
        self.writes = False
        self.statements: list[Statement] = []
        self._size = len(ops)
        commits: list[tuple[int, Commit]] = []
        restores: list[tuple[int, Commit]] = []
        fetches: list[tuple[int, Fetch]] = []
        listings: list[tuple[int, List]] = []
        for place, op in enumerate(ops):
            if type(op) is Commit:
                check_shape(op)
                if type(op.writes[0]) is Restore:
                    restores.append((place, op))
                else:
                    commits.append((place, op))
            elif type(op) is Fetch and op.log is not None and op.log.whole:
                self.statements.append(_whole(place, op, queries))
            elif type(op) is Fetch:
                fetches.append((place, op))
            elif type(op) is List and op.within is None:
                listings.append((place, op))
            elif type(op) is List:
                self.statements.append(_documents(place, op, queries))
            elif type(op) is Sweep:
                self.writes = True
                self.statements.append(_sweep(place, op, queries))
        if commits:
            self.writes = True
            send = _commits if len(commits) > 1 else _commit_alone
            self.statements.insert(0, send(commits, queries))
        if restores:
            self.writes = True
            restores.sort(key=lambda item: item[1].entity)
            self.statements += [_restore(place, commit, queries) for place, commit in restores]
        if fetches and not listings and all(_is_tail(op) for _, op in fetches):
            ask = _tails if len(fetches) > 1 else _tail
            self.statements.append(ask(fetches, queries))
        elif fetches and not listings and all(_is_head(op) for _, op in fetches):
            ask = _heads if len(fetches) > 1 else _head
            self.statements.append(ask(fetches, queries))
        elif len(fetches) == 1 and not listings and _is_news(fetches[0][1]):
            self.statements.append(_news(*fetches[0], queries))
        elif fetches or listings:
            self.statements.append(_reads(fetches, listings, queries))

    def outcomes(self, answers: Sequence[Rows]) -> list[Outcome]:
        """In the order of the operations, from each statement's rows."""
        found: list[Any] = [None] * self._size
        for statement, rows in zip(self.statements, answers, strict=True):
            statement.read(rows, found)
        return found


# --- commits ----------------------------------------------------------------------------


def _commits(commits: list[tuple[int, Commit]], queries: Queries) -> Statement:
    # Every process locks heads in this order.
    commits.sort(key=lambda item: item[1].entity)
    specs = [_spec(commit) for _, commit in commits]
    appends = [_append(commit) for _, commit in commits]
    lines = ["\n".join(append.bodies) if append is not None else None for append in appends]
    params = (
        *_addresses([commit.entity for _, commit in commits]),
        TextArray([stored(commit.op) for _, commit in commits]),
        TextArray([stored_or_none(commit.owner) for _, commit in commits]),
        FloatArray([commit.retain for _, commit in commits]),
        TextArray([stored_or_none(append.key) if append else None for append in appends]),
        BigintArray(
            [
                None if append is None or append.key is None else digest_of((text or "",))
                for append, text in zip(appends, lines, strict=True)
            ]
        ),
        IntegerArray([append and len(append.bodies) for append in appends]),
        TextArray(lines),
        TextArray(specs),
    )

    def read(rows: Rows, found: list[Any]) -> None:
        now, plain, versions, others, outcomes = rows[0]
        if plain:
            for at, version in zip(plain, versions, strict=True):
                place, commit = commits[at - 1]
                found[place] = Applied(version, commit.op, now)
        if others:
            for at, text in zip(others, outcomes, strict=True):
                place, commit = commits[at - 1]
                found[place] = read_commit(commit, text)

    return Statement(queries.commit_batch, params, read)


def _commit_alone(commits: list[tuple[int, Commit]], queries: Queries) -> Statement:
    ((place, commit),) = commits
    append = _append(commit)
    lines = "\n".join(append.bodies) if append is not None else None
    key = append.key if append is not None else None
    params = (
        *[stored(part) for part in commit.entity],
        stored(commit.op),
        stored_or_none(commit.owner),
        None if commit.retain is None else float(commit.retain),
        stored_or_none(key),
        None if key is None else Int8(digest_of((lines or "",))),
        None if append is None else Int4(len(append.bodies)),
        lines,
        _spec(commit),
    )

    def read(rows: Rows, found: list[Any]) -> None:
        now, version, text = rows[0]
        if version is not None:
            found[place] = Applied(version, commit.op, now)
        else:
            found[place] = read_commit(commit, text)

    return Statement(queries.commit_alone, params, read)


def _addresses(entities: Sequence[Entity]) -> tuple[TextArray, TextArray, TextArray]:
    return (
        TextArray([stored(entity.namespace) for entity in entities]),
        TextArray([stored(entity.kind) for entity in entities]),
        TextArray([stored(entity.id) for entity in entities]),
    )


def _append(commit: Commit) -> Append | None:
    for write in commit.writes:
        if type(write) is Append:
            return write
    return None


_APPEND_HERE = Append(())  # its bodies travel apart from the others' JSON


def _spec(commit: Commit) -> str | None:
    """None for a plain append, which is most of what there is."""
    writes = commit.writes
    if len(writes) == 1 and type(writes[0]) is Append and not (commit.checks or commit.reading):
        return None
    writes = tuple(_APPEND_HERE if type(write) is Append else write for write in writes)
    spec = Spec(commit.checks, writes, commit.reading)
    text = _encode(spec).decode()
    if "\\u000" in text:
        text = _encode(all_stored(spec)).decode()
    return text


def _restore(place: int, commit: Commit, queries: Queries) -> Statement:
    address = [stored(part) for part in commit.entity]
    spec = _spec(commit)
    params = (*address, stored(commit.op), stored_or_none(commit.owner), spec)

    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = read_commit(commit, rows[0][0])

    return Statement(queries.restore, params, read)


def _sweep(place: int, op: Sweep, queries: Queries) -> Statement:
    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = Swept(*rows[0])

    return Statement(queries.sweep, (max(1, min(op.limit, MOST_SWEPT)),), read)


# --- reading ----------------------------------------------------------------------------


def _reads(
    fetches: list[tuple[int, Fetch]], listings: list[tuple[int, List]], queries: Queries
) -> Statement:
    """All fetches and all listings: an agent's whole context is one statement."""
    plain = len(fetches) <= MOST_PARTS and all(_is_plain(op) for _, op in fetches)
    if plain:
        parts, params = _parts([op for _, op in fetches], queries)
    else:
        parts, params = [queries.fetch], _fetch_params([op for _, op in fetches])
    for number, (_, op) in enumerate(listings, 1):
        query, args = entities_query(op, -number)
        parts.append(f"({queries.adapted(query)})")
        params += args

    def read(rows: Rows, found: list[Any]) -> None:
        pages: list[list[Sequence[Any]]] = [[] for _ in listings]
        for place, _ in fetches:
            found[place] = Fetched(Head())  # a part gives no row for what is not there
        for row in rows:
            number = row[0]
            if number > 0:
                place, op = fetches[number - 1]
                found[place] = read_fetch(op, row, newest_first=not plain)
            else:
                pages[-number - 1].append(row)
        for (place, listing), page in zip(listings, pages, strict=True):
            found[place] = read_entities(listing, page)

    return Statement(" UNION ALL ".join(parts), params, read)


def _parts(ops: Sequence[Fetch], queries: Queries) -> tuple[list[str], list[Any]]:
    """A few everyday fetches as parts of a statement, as plain as each can be said."""
    parts: list[str] = []
    params: list[Any] = []
    for number, op in enumerate(ops, 1):
        address = [stored(part) for part in op.entity]
        if op.log is not None:
            parts.append(queries.part_tail)
            params += [number, _most(op.log.last), *address]
        elif op.all_documents:
            parts.append(queries.part_documents)
            params += [number, *address]
        else:
            parts.append(queries.part_named)
            params += [number, TextArray([stored(name) for name in op.documents]), *address]
    return parts, params


def _fetch_params(ops: Sequence[Fetch]) -> list[Any]:
    logs = [op.log for op in ops]
    upto = [None if log is None or log.upto is None else min(log.upto, MOST) for log in logs]
    first = [None if log is None or log.last is not None else _most(log.first) for log in logs]
    last = [None if log is None or log.last is None else _most(log.last) for log in logs]
    return [
        *_addresses([op.entity for op in ops]),
        BigintArray([min(log.after, MOST) if log else 0 for log in logs]),
        BigintArray(upto),
        BigintArray(first),
        BigintArray(last),
        TextArray([stored_or_none(log.stamp) if log else None for log in logs]),
        BooleanArray([log is not None and log.details for log in logs]),
        BooleanArray([op.all_documents for op in ops]),
        TextArray([_names(op.documents) if op.documents else None for op in ops]),
        TextArray([_known(op) if op.known else None for op in ops]),
    ]


def _whole(place: int, op: Fetch, queries: Queries) -> Statement:
    """For backups, which ask for one at a time."""
    log = op.log
    assert log is not None
    params = (
        min(log.after, MOST),
        _most(log.upto),
        _most(log.first),
        stored_or_none(log.stamp),
        op.all_documents,
        _names(op.documents),
        *[stored(part) for part in op.entity],
    )

    def read(rows: Rows, found: list[Any]) -> None:
        absent = Fetched(Head(), reset=log.stamp is not None)
        found[place] = read_whole(op, rows[0]) if rows else absent

    return Statement(queries.fetch_whole, params, read)


def _most(limit: int | None) -> int:
    return MOST if limit is None else min(limit, MOST)


def _names(names: Sequence[str]) -> str:
    return _encode([stored(name) for name in dict.fromkeys(names)]).decode()


def _known(fetch: Fetch) -> str:
    assert fetch.known is not None
    return _encode(
        {stored(name): (version, stored(stamp)) for name, (version, stamp) in fetch.known.items()}
    ).decode()


def _is_tail(op: Fetch) -> bool:
    """The everyday load: the newest entries and nothing else."""
    log = op.log
    return (
        log is not None
        and log.last is not None
        and not (log.after or log.details or op.documents or op.all_documents)
        and log.upto is None
        and log.stamp is None
    )


def _is_plain(op: Fetch) -> bool:
    """A tail, or documents and nothing else, of which nothing is known."""
    return _is_tail(op) or (
        op.log is None and not op.known and bool(op.all_documents or op.documents)
    )


def _is_head(op: Fetch) -> bool:
    return op.log is None and not (op.documents or op.all_documents)


def _head(fetches: list[tuple[int, Fetch]], queries: Queries) -> Statement:
    ((place, op),) = fetches
    address = [stored(part) for part in op.entity]

    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = read_head(op, rows[0]) if rows else Fetched(Head())

    return Statement(queries.fetch_head, address, read)


def _heads(fetches: list[tuple[int, Fetch]], queries: Queries) -> Statement:
    def read(rows: Rows, found: list[Any]) -> None:
        for place, _ in fetches:
            found[place] = Fetched(Head())
        for row in rows:
            place, op = fetches[row[-1] - 1]
            found[place] = read_head(op, row)

    return Statement(queries.fetch_heads, _addresses([op.entity for _, op in fetches]), read)


def _is_news(op: Fetch) -> bool:
    """What came after a known place, and nothing else."""
    log = op.log
    return (
        log is not None
        and log.last is not None
        and log.details
        and log.stamp is not None
        and log.upto is None
        and not (log.whole or op.documents or op.all_documents)
    )


def _news(place: int, op: Fetch, queries: Queries) -> Statement:
    assert op.log is not None
    address = [stored(part) for part in op.entity]
    params = (Int8(min(op.log.after, MOST)), Int8(_most(op.log.last)), *address)

    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = read_news(op, rows[0]) if rows else Fetched(Head(), reset=True)

    return Statement(queries.fetch_news, params, read)


def _tail(fetches: list[tuple[int, Fetch]], queries: Queries) -> Statement:
    ((place, op),) = fetches
    assert op.log is not None
    address = [stored(part) for part in op.entity]

    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = read_tail(op, rows[0]) if rows else Fetched(Head())

    return Statement(queries.fetch_tail, (_most(op.log.last), *address), read)


def _tails(fetches: list[tuple[int, Fetch]], queries: Queries) -> Statement:
    ops = [op for _, op in fetches]
    lasts = BigintArray([_most(op.log.last) if op.log else 0 for op in ops])

    def read(rows: Rows, found: list[Any]) -> None:
        for place, _ in fetches:
            found[place] = Fetched(Head())
        for row in rows:
            place, op = fetches[row[-1] - 1]
            found[place] = read_tail(op, row)

    params = (*_addresses([op.entity for op in ops]), lasts)
    return Statement(queries.fetch_tails, params, read)


def _documents(place: int, op: List, queries: Queries) -> Statement:
    query, args = documents_query(op)

    def read(rows: Rows, found: list[Any]) -> None:
        found[place] = read_documents(op, rows)

    return Statement(queries.adapted(query), args, read)


def versions(entities: Sequence[Entity], queries: Queries) -> tuple[str, tuple[TextArray, ...]]:
    """The statement that says where logs stand."""
    return queries.versions, _addresses(entities)
