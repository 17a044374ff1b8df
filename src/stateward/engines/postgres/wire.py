"""One statement and its rows, through the driver's own connection but without its cursors.

A cursor looks at the types of all values and of all columns anew at each call, which took longer
than sending and reading them. Here a statement is prepared once it was used a few times, and keeps
what reads its rows. No I/O of its own: what waits is the generator's driver, in both colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import cache
from struct import Struct
from typing import Any

import psycopg
from psycopg import abc
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int4, Int8

from stateward.engines.postgres.arrays import (
    BigintArray,
    BooleanArray,
    FloatArray,
    IntegerArray,
    Packed,
    TextArray,
)

PREPARE_AFTER = 2  # uses of a statement on a connection before it is prepared
MOST_PREPARED = 100  # statements a connection; the shapes of listings have no end

Rows = list[tuple[Any, ...]]
_Kind = tuple[int, Callable[[Any], bytes]]

_bigint, _integer, _float = Struct("!q").pack, Struct("!i").pack, Struct("!d").pack


def _none(_: None) -> Any:
    return None


def _data(array: Packed) -> bytes:
    return array.data


# How a value is sent, by its type: as which type of the database, and as which bytes.
_KINDS: dict[type, _Kind] = {
    str: (25, str.encode),
    bool: (16, lambda value: b"\x01" if value else b"\x00"),
    Int4: (23, _integer),
    Int8: (20, _bigint),
    int: (20, _bigint),
    float: (701, _float),
    type(None): (0, _none),  # any type fits
    **{
        kind: (kind.array, _data)
        for kind in (TextArray, BigintArray, IntegerArray, FloatArray, BooleanArray)
    },
}


def _kinds_of(values: Sequence[Any]) -> list[_Kind]:
    try:
        return [_KINDS[type(value)] for value in values]
    except KeyError:  # a subclass of str
        return [
            next(how for kind, how in _KINDS.items() if isinstance(value, kind)) for value in values
        ]


@cache
def _numbered(query: str) -> bytes:
    """A query as the server reads it: with $1, $2 … for the driver's %s and %b."""
    parts = re.split("%[sb]", query)
    return "".join([parts[0], *(f"${n}{part}" for n, part in enumerate(parts[1:], 1))]).encode()


class _Statement:
    """A statement with values of certain types, as one connection knows it."""

    __slots__ = ("formats", "name", "reader", "text", "uses")

    def __init__(self, query: str, values: int, reader: abc.Transformer) -> None:
        self.text = _numbered(query)
        self.formats = [Format.BINARY] * values
        self.name = b""  # while it is not prepared
        self.reader = reader
        self.uses = 0


class Wire:
    """The statements that one connection has met, prepared once they are used often."""

    def __init__(self, link: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
        self._link = link
        self._pgconn = link.pgconn
        self._prepares = link.prepare_threshold is not None
        self._statements: dict[tuple[str, tuple[int, ...]], _Statement] = {}
        self._prepared = 0

    def ask(self, query: str, params: Sequence[Any]) -> Generator[Any, Any, Rows]:
        """The rows of one statement, as a generator for the driver's waits."""
        kinds = _kinds_of(params)
        values = [how(value) for (_, how), value in zip(kinds, params, strict=True)]
        key = query, tuple([oid for oid, _ in kinds])
        statement = self._statements.get(key) or self._meet(key)
        if not statement.name and self._is_worth_preparing(statement):
            yield from self._prepare(statement, key[1])
        if statement.name:
            self._pgconn.send_query_prepared(
                statement.name, values, statement.formats, Format.BINARY
            )
        else:
            self._pgconn.send_query_params(
                statement.text, values, key[1], statement.formats, Format.BINARY
            )
        result = yield from self._answer(ExecStatus.TUPLES_OK)
        reader = statement.reader
        reader.set_pgresult(result, set_loaders=not statement.uses)
        statement.uses += 1
        rows = reader.load_rows(0, result.ntuples, tuple)
        reader.set_pgresult(None, set_loaders=False)  # frees the result before the next query
        return rows

    def _answer(self, expected: ExecStatus) -> Generator[Any, Any, PGresult]:
        results: list[PGresult] = yield from execute(self._pgconn)
        if not results:
            raise psycopg.OperationalError("the server gave no answer")
        if results[0].status != expected:
            raise error_from_result(results[0])
        return results[0]

    def _meet(self, key: tuple[str, tuple[int, ...]]) -> _Statement:
        query, types = key
        statement = _Statement(query, len(types), Transformer(self._link))
        if len(self._statements) < 2 * MOST_PREPARED:
            self._statements[key] = statement
        return statement

    def _is_worth_preparing(self, statement: _Statement) -> bool:
        return self._prepares and statement.uses >= PREPARE_AFTER and self._prepared < MOST_PREPARED

    def _prepare(self, statement: _Statement, types: tuple[int, ...]) -> Generator[Any, Any, None]:
        name = b"stateward_%d" % self._prepared
        self._pgconn.send_prepare(name, statement.text, types)
        yield from self._answer(ExecStatus.COMMAND_OK)
        statement.name = name
        self._prepared += 1
