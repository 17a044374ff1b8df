"""Statements and their rows, through the driver's own connection but without its cursors.

A cursor looks at the types of all values and of all columns anew at each call, which took longer
than sending and reading them. Here a statement is prepared once it was used a few times, and keeps
what reads its rows. No I/O of its own: what waits is the generator's driver, in both colours.

A server sends the rows of a statement before it commits, so rows alone prove nothing: a request is
answered when all its results have come, and any of them that is an error is its answer.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Sequence
from functools import cache
from struct import Struct
from struct import error as PackError
from typing import Any

import psycopg
from psycopg import abc
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute, fetch, send
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int4, Int8
from psycopg.waiting import Ready, Wait

from stateward.engines.postgres.arrays import (
    BigintArray,
    BooleanArray,
    FloatArray,
    IntegerArray,
    Packed,
    TextArray,
)
from stateward.engines.postgres.failures import Demoted

PREPARE_AFTER = 2  # uses of a statement on a connection before it is prepared
MOST_PREPARED = 100  # statements a connection; the shapes of listings have no end
NOT_SENDABLE = (PackError, UnicodeEncodeError)  # too large a number, half of a character

Connection = psycopg.AsyncConnection[Any] | psycopg.Connection[Any]
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

    def rows(self, result: PGresult) -> Rows:
        reader = self.reader
        reader.set_pgresult(result, set_loaders=not self.uses)
        self.uses += 1
        rows = reader.load_rows(0, result.ntuples, tuple)
        reader.set_pgresult(None, set_loaders=False)  # frees the result before the next query
        return rows


class Standing:
    """Reports of a server beside its answers: that these may be old, or lost with it."""

    def __init__(self, link: Connection, wants_writer: bool) -> None:
        self._pgconn = link.pgconn
        self._wants_writer = wants_writer
        self._not_waited = False
        link.add_notice_handler(self._hear)

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        # By its place in the server's source: its words are in the language of the database.
        if notice.source_function == "SyncRepWaitForLSN":
            self._not_waited = True

    def check(self) -> None:
        """Raise, and end the connection, instead of giving the answer that has just come.

        A server says before the end of the next answer that it was made read-only.
        """
        if self._not_waited:
            self._pgconn.finish()
            raise psycopg.OperationalError("the commit was cancelled before a standby confirmed it")
        if (
            self._wants_writer
            and self._pgconn.parameter_status(b"default_transaction_read_only") == b"on"
        ):
            self._pgconn.finish()
            raise Demoted("the server takes no writes any more")


class Wire:
    """The statements that one connection has met, prepared once they are used often."""

    def __init__(self, link: Connection, prepares: bool, standing: Standing) -> None:
        self._prepares = prepares
        self._standing = standing
        self._link = link
        self._pgconn = link.pgconn
        self._statements: dict[tuple[str, tuple[int, ...]], _Statement] = {}
        # Behind a pooler a name could lead to the statement of another client. None has this one.
        self._nonce = secrets.token_hex(16).encode()
        self._prepared = 0

    def ask(self, query: str, params: Sequence[Any]) -> Generator[Any, Any, Rows]:
        """The rows of one statement, as a generator for the driver's waits."""
        statement, types, values = yield from self._ready(query, params)
        self._send(statement, types, values)
        results: list[PGresult] = yield from execute(self._pgconn)
        check(results, 1)
        self._standing.check()
        return statement.rows(results[0])

    def ask_together(
        self, queries: Sequence[tuple[str, Sequence[Any]]]
    ) -> Generator[Any, Any, list[Rows]]:
        """The rows of several statements, which are sent together and are one transaction."""
        ready = []
        for query, params in queries:
            ready.append((yield from self._ready(query, params)))
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        for each in ready:
            self._send(*each)
        pgconn.pipeline_sync()
        yield from send(pgconn)
        results: list[PGresult] = []
        while pgconn.pipeline_status != PipelineStatus.OFF:
            result = yield from fetch(pgconn)
            if result is None:  # the end of one statement's results
                if pgconn.status != ConnStatus.OK:
                    break
            elif result.status == ExecStatus.PIPELINE_SYNC:
                pgconn.exit_pipeline_mode()
            else:
                results.append(result)
        check(results, len(ready))
        self._standing.check()
        return [each[0].rows(result) for each, result in zip(ready, results, strict=True)]

    def _ready(
        self, query: str, params: Sequence[Any]
    ) -> Generator[Any, Any, tuple[_Statement, tuple[int, ...], list[Any]]]:
        """A statement with its values as they are sent, prepared if that is worth it."""
        kinds = _kinds_of(params)
        values = [how(value) for (_, how), value in zip(kinds, params, strict=True)]
        types = tuple([oid for oid, _ in kinds])
        statement = self._statements.get((query, types)) or self._meet(query, types)
        if not statement.name and self._is_worth_preparing(statement):
            yield from self._prepare(statement, types)
        return statement, types, values

    def _send(self, statement: _Statement, types: tuple[int, ...], values: list[Any]) -> None:
        if statement.name:
            self._pgconn.send_query_prepared(
                statement.name, values, statement.formats, Format.BINARY
            )
        else:
            self._pgconn.send_query_params(
                statement.text, values, types, statement.formats, Format.BINARY
            )

    def _meet(self, query: str, types: tuple[int, ...]) -> _Statement:
        statement = _Statement(query, len(types), Transformer(self._link))
        if len(self._statements) < 2 * MOST_PREPARED:
            self._statements[query, types] = statement
        return statement

    def _is_worth_preparing(self, statement: _Statement) -> bool:
        return self._prepares and statement.uses >= PREPARE_AFTER and self._prepared < MOST_PREPARED

    def _prepare(self, statement: _Statement, types: tuple[int, ...]) -> Generator[Any, Any, None]:
        name = b"stateward_%s_%d" % (self._nonce, self._prepared)
        self._pgconn.send_prepare(name, statement.text, types)
        check((yield from execute(self._pgconn)), 1, ExecStatus.COMMAND_OK)
        statement.name = name
        self._prepared += 1


def check(
    results: Sequence[PGresult], count: int, expected: ExecStatus = ExecStatus.TUPLES_OK
) -> None:
    """Raise unless there are so many results and all are as expected.

    After the rows of a statement comes one result more if its commit was refused.
    """
    for result in results:
        if result.status != expected:
            raise error_from_result(result)
    if len(results) != count:
        raise psycopg.OperationalError("the server gave no answer")


def ping(pgconn: PGconn) -> Generator[Any, Any, None]:
    """Ask for nothing."""
    pgconn.send_query(b"")
    yield from execute(pgconn)


def rest(pgconn: PGconn) -> Generator[Any, Any, None]:
    """Read what is left of the answer to a request, however much of it was read already."""
    while pgconn.transaction_status == TransactionStatus.ACTIVE:
        ready = yield Wait.RW if pgconn.flush() else Wait.R
        if not ready or not ready & Ready.R:
            continue
        pgconn.consume_input()
        ends = 0  # two in a row: nothing more has come
        while ends < 2 and not pgconn.is_busy():
            ends = 0 if pgconn.get_result() is not None else ends + 1
