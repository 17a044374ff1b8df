"""The driver that Stateward uses for PostgreSQL, by hand: blocking, and in a pool on an event loop.

One statement a call, prepared, in autocommit: as few round trips as there can be.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg

from bench.contestants.raw import decode, documents, documents_of, encode, work
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import Change, Message, Population, Turn, turn

CONNECTIONS = 10  # of the pool: more did not help on 2 cores

TABLES = """
CREATE TABLE messages (
    thread text NOT NULL, seq bigint NOT NULL, body text NOT NULL, PRIMARY KEY (thread, seq)
);
CREATE TABLE documents (
    id text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, value text NOT NULL
);
CREATE TABLE work ("user" text, id text, state text NOT NULL, PRIMARY KEY ("user", id));
"""
APPEND = """INSERT INTO messages (thread, seq, body)
    SELECT %(thread)s, newest.seq + told.place, told.body
    FROM (SELECT coalesce(max(seq), 0) AS seq FROM messages WHERE thread = %(thread)s) AS newest,
         (VALUES (1, %(question)s), (2, %(answer)s)) AS told (place, body)"""
LAST = "SELECT body FROM messages WHERE thread = %s ORDER BY seq DESC LIMIT %s"
GET = "SELECT version, value FROM documents WHERE id = %s"
# One statement, and so one round trip and one moment.
CONTEXT = """(SELECT 1 AS part, seq::text AS id, body AS value FROM messages
     WHERE thread = %s ORDER BY seq DESC LIMIT %s)
    UNION ALL SELECT 2, id, value FROM documents WHERE id >= %s AND id < %s
    UNION ALL SELECT 3, id, state FROM work WHERE "user" = %s"""
SWAP = "UPDATE documents SET version = version + 1, value = %s WHERE id = %s AND version = %s"


def _appended(thread: str, turn: Turn) -> dict[str, str]:
    return {"thread": thread, "question": encode(turn[0]), "answer": encode(turn[1])}


def read_context(rows: list[tuple[int, str, str]]) -> Any:
    return (
        [decode(value) for part, _, value in reversed(rows) if part == 1],
        {id_: decode(value) for part, id_, value in rows if part == 2},
        {id_: decode(value) for part, id_, value in rows if part == 3},
    )


class RawPsycopg(Blocking):
    """Each thread has a connection of its own."""

    name = "psycopg"
    layout = "raw"
    colour = "sync"

    def __init__(self, path: str) -> None:
        self._url = path
        self._mine = threading.local()
        self._all: list[psycopg.Connection[Any]] = []
        # The server takes no hundred connections: threads wait for one of these.
        self._idle: list[psycopg.Connection[Any]] = []
        self._free = threading.Semaphore(CONNECTIONS)

    def open(self) -> None:
        self._run(GET, ("",))

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _run(self, query: str, values: Any) -> psycopg.Cursor[Any]:
        with self._free:
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                return connection.execute(query, values, binary=True)  # type: ignore[call-overload,no-any-return]
            finally:
                self._idle.append(connection)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._url, autocommit=True, prepare_threshold=0)
        self._all.append(connection)
        return connection

    def append(self, thread: str, user: str, turn: Turn) -> None:
        self._run(APPEND, _appended(thread, turn))

    def last(self, thread: str, user: str, count: int) -> list[Message]:
        rows = self._run(LAST, (thread, count)).fetchall()
        return [decode(body) for (body,) in reversed(rows)]

    def get(self, user: str) -> dict[str, Any]:
        ((_version, value),) = self._run(GET, (user,)).fetchall()
        return decode(value)  # type: ignore[no-any-return]

    def update(self, user: str, change: Change) -> None:
        while True:
            ((version, text),) = self._run(GET, (user,)).fetchall()
            value = decode(text)
            change(value)
            if self._run(SWAP, (encode(value), user, version)).rowcount:
                return

    def context(self, thread: str, user: str, count: int) -> Any:
        asked = (thread, count, *documents_of(user), user)
        return read_context(self._run(CONTEXT, asked).fetchall())


class RawPsycopgPool(Awaited):
    """A pool of connections, as an application would have it."""

    name = "psycopg pool"
    layout = "raw"
    colour = "async"

    def __init__(self, path: str) -> None:
        self._url = path

    async def open(self) -> None:
        self._all = [
            await psycopg.AsyncConnection.connect(self._url, autocommit=True, prepare_threshold=0)
            for _ in range(CONNECTIONS)
        ]
        self._idle: asyncio.LifoQueue[psycopg.AsyncConnection[Any]] = asyncio.LifoQueue()
        for connection in self._all:
            self._idle.put_nowait(connection)

    async def close(self) -> None:
        for connection in self._all:
            await connection.close()

    async def _run(self, query: str, values: Any) -> psycopg.AsyncCursor[Any]:
        connection = await self._idle.get()
        try:
            return await connection.execute(query, values, binary=True)  # type: ignore[call-overload,no-any-return]
        finally:
            self._idle.put_nowait(connection)

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._run(APPEND, _appended(thread, turn))

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        rows = await (await self._run(LAST, (thread, count))).fetchall()
        return [decode(body) for (body,) in reversed(rows)]

    async def get(self, user: str) -> dict[str, Any]:
        ((_version, value),) = await (await self._run(GET, (user,))).fetchall()
        return decode(value)  # type: ignore[no-any-return]

    async def update(self, user: str, change: Change) -> None:
        while True:
            ((version, text),) = await (await self._run(GET, (user,))).fetchall()
            value = decode(text)
            change(value)
            if (await self._run(SWAP, (encode(value), user, version))).rowcount:
                return

    async def context(self, thread: str, user: str, count: int) -> Any:
        asked = (thread, count, *documents_of(user), user)
        return read_context(await (await self._run(CONTEXT, asked)).fetchall())


def fill(url: str, population: Population) -> None:
    """A database with these tables and conversations."""
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
        cursor = connection.cursor()
        with cursor.copy("COPY messages FROM STDIN") as rows:
            for thread, _user, history in population.owners():
                bodies = (encode(m) for n in range(history // 2) for m in turn(n))
                for seq, body in enumerate(bodies, 1):
                    rows.write_row((thread, seq, body))
        with cursor.copy("COPY documents FROM STDIN") as rows:
            for id_, value in documents(population):
                rows.write_row((id_, 1, value))
        with cursor.copy("COPY work FROM STDIN") as rows:
            for each in work(population):
                rows.write_row(each)
