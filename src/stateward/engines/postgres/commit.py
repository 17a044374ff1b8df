"""Statements that write: the commits of a batch as one, and outcomes from its answer."""

from __future__ import annotations

from typing import Any

import msgspec
from psycopg.types.numeric import Int4, Int8

from stateward.engines.postgres.arrays import BigintArray, FloatArray, IntegerArray, TextArray
from stateward.engines.postgres.escape import escape, escape_all, escape_or_none
from stateward.engines.postgres.outcomes import read_commit
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.statement import Rows, Statement, addresses, statement_of
from stateward.errors import InvalidInput
from stateward.ops import (
    Append,
    Applied,
    Check,
    Commit,
    CommitOutcome,
    Sweep,
    Swept,
    Write,
    digest_of,
)

MOST_SWEPT = 100_000  # rows in one step, whatever was asked for

_encode = msgspec.json.Encoder().encode


class Spec(msgspec.Struct):
    """A commit without its address, its op and the bodies it appends."""

    checks: tuple[Check, ...]
    writes: tuple[Write, ...]
    reading: tuple[str, ...]


def commit_batch(commits: list[tuple[int, Commit]], queries: Queries) -> Statement:
    # Every process locks heads in this order.
    commits.sort(key=lambda item: item[1].entity)
    specs = [_spec(commit) for _, commit in commits]
    appends = [_append(commit) for _, commit in commits]
    lines = [_lines(append) for append in appends]
    params = (
        *addresses([commit.entity for _, commit in commits]),
        TextArray([escape(commit.op) for _, commit in commits]),
        TextArray([escape_or_none(commit.owner) for _, commit in commits]),
        FloatArray([commit.retain for _, commit in commits]),
        TextArray([escape_or_none(append.key) if append else None for append in appends]),
        BigintArray(
            [
                None if append is None or append.key is None else digest_of((text or "",))
                for append, text in zip(appends, lines, strict=True)
            ]
        ),
        IntegerArray([append and len(append.bodies) for append in appends]),
        TextArray(lines),
        TextArray(specs),
        TextArray([append.note if append else None for append in appends]),
    )

    def read(rows: Rows, outcomes: list[Any]) -> None:
        now, plain, versions, others, texts = rows[0]
        if plain:
            for at, version in zip(plain, versions, strict=True):
                index, commit = commits[at - 1]
                outcomes[index] = Applied(version, commit.op, now)
        if others:
            for at, text in zip(others, texts, strict=True):
                index, commit = commits[at - 1]
                outcomes[index] = read_commit(commit, text)

    return Statement(queries.commit_batch, params, read)


def commit_alone(commits: list[tuple[int, Commit]], queries: Queries) -> Statement:
    ((index, commit),) = commits
    append = _append(commit)
    lines = _lines(append)
    key = append.key if append is not None else None
    params = (
        *[escape(part) for part in commit.entity],
        escape(commit.op),
        escape_or_none(commit.owner),
        None if commit.retain is None else float(commit.retain),
        escape_or_none(key),
        None if key is None else Int8(digest_of((lines or "",))),
        None if append is None else Int4(len(append.bodies)),
        lines,
        _spec(commit),
        None if append is None else append.note,
    )

    def outcome(rows: Rows) -> CommitOutcome:
        text = rows[0][0]
        if text[0] == "{":
            return read_commit(commit, text)
        version, now = text.split(" ")
        return Applied(int(version), commit.op, float(now))

    return statement_of(index, queries.commit_alone, params, outcome)


def _append(commit: Commit) -> Append | None:
    for write in commit.writes:
        if type(write) is Append:
            return write
    return None


def _lines(append: Append | None) -> str | None:
    """Return the bodies as the lines of a text, one for each; None if nothing is appended."""
    if append is None:
        return None
    lines = "\n".join(append.bodies)
    if lines.count("\n") >= len(append.bodies):
        raise InvalidInput("a body is one line of JSON: encode it without newlines")
    return lines


_APPEND_HERE = Append(())  # its bodies travel apart from the others' JSON


def _spec(commit: Commit) -> str | None:
    """Return the JSON of a commit; None for a plain append, which is the usual one."""
    writes = commit.writes
    if len(writes) == 1 and type(writes[0]) is Append and not (commit.checks or commit.reading):
        return None
    writes = tuple(_APPEND_HERE if type(write) is Append else write for write in writes)
    spec = Spec(commit.checks, writes, commit.reading)
    text = _encode(spec).decode()
    if "\\u000" in text:
        text = _encode(escape_all(spec)).decode()
    return text


def restore(index: int, commit: Commit, queries: Queries) -> Statement:
    address = [escape(part) for part in commit.entity]
    params = (*address, escape(commit.op), escape_or_none(commit.owner), _spec(commit))
    return statement_of(
        index, queries.restore, params, lambda rows: read_commit(commit, rows[0][0])
    )


def sweep(index: int, op: Sweep, queries: Queries) -> Statement:
    limit = max(1, min(op.limit, MOST_SWEPT))
    return statement_of(index, queries.sweep, (limit,), lambda rows: Swept(*rows[0]))
