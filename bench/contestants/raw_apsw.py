"""The driver that Stateward itself uses: blocking, and on worker threads of an event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw

from bench.contestants.raw import (
    BUSY_SECONDS,
    DOCUMENTS,
    GET,
    INSERT_TURN,
    LAST,
    NEWEST_SEQ,
    SWAP,
    WORKING,
    decode,
    documents_of,
    encode,
)
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import Change, Message, Turn

READERS = 4  # worker threads for reads: more did not help on 2 cores


class RawApsw(Blocking):
    """Each thread has a connection of its own."""

    name = "apsw"
    layout = "raw"
    colour = "sync"

    def __init__(self, path: str) -> None:
        self._path = path
        self._mine = threading.local()
        self._all: list[apsw.Connection] = []

    def open(self) -> None:
        self._connection()

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _connection(self) -> Any:
        try:
            return self._mine.connection
        except AttributeError:
            connection = apsw.Connection(self._path)
            connection.set_busy_timeout(BUSY_SECONDS * 1000)
            connection.execute("PRAGMA synchronous = FULL")
            self._all.append(connection)
            self._mine.connection = connection
            return connection

    def append(self, thread: str, user: str, turn: Turn) -> None:
        question, answer = encode(turn[0]), encode(turn[1])
        execute = self._connection().execute
        execute("BEGIN IMMEDIATE")
        try:
            ((seq,),) = execute(NEWEST_SEQ, (thread,)).fetchall()
            execute(INSERT_TURN, (thread, seq + 1, question, thread, seq + 2, answer))
            execute("COMMIT")
        except BaseException:
            execute("ROLLBACK")
            raise

    def last(self, thread: str, user: str, count: int) -> list[Message]:
        rows = self._connection().execute(LAST, (thread, count)).fetchall()
        return [decode(body) for (body,) in reversed(rows)]

    def get(self, user: str) -> dict[str, Any]:
        ((_version, value),) = self._connection().execute(GET, (user,)).fetchall()
        return decode(value)  # type: ignore[no-any-return]

    def update(self, user: str, change: Change) -> None:
        connection = self._connection()
        while True:
            ((version, text),) = connection.execute(GET, (user,)).fetchall()
            value = decode(text)
            change(value)
            connection.execute(SWAP, (encode(value), user, version))
            if connection.changes():
                return

    def context(self, thread: str, user: str, count: int) -> Any:
        execute = self._connection().execute
        execute("BEGIN")
        try:
            messages = execute(LAST, (thread, count)).fetchall()
            documents = execute(DOCUMENTS, documents_of(user)).fetchall()
            working = execute(WORKING, (user,)).fetchall()
        finally:
            execute("ROLLBACK")
        return (
            [decode(body) for (body,) in reversed(messages)],
            {id_: decode(value) for id_, _version, value in documents},
            {id_: decode(state) for id_, state in working},
        )


class RawApswWorker(Awaited):
    """One hand-over a call: whole transactions on a writer thread, reads on a few others."""

    name = "apsw on a worker"
    layout = "raw"
    colour = "async"

    def __init__(self, path: str) -> None:
        self._raw = RawApsw(path)
        self._writer = ThreadPoolExecutor(1, "writer")
        self._readers = ThreadPoolExecutor(READERS, "reader")

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = self._loop.run_in_executor

    async def close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        self._raw.close()

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._call(self._writer, self._raw.append, thread, user, turn)

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        return await self._call(self._readers, self._raw.last, thread, user, count)

    async def get(self, user: str) -> dict[str, Any]:
        return await self._call(self._readers, self._raw.get, user)

    async def update(self, user: str, change: Change) -> None:
        await self._call(self._writer, self._raw.update, user, change)

    async def context(self, thread: str, user: str, count: int) -> Any:
        return await self._call(self._readers, self._raw.context, thread, user, count)
