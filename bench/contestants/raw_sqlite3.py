"""The driver of the standard library, blocking: each thread has a connection of its own."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from bench.contestants.raw import (
    BUSY_SECONDS,
    GET,
    INSERT_TURN,
    LAST,
    NEWEST_SEQ,
    SWAP,
    decode,
    encode,
)
from bench.contestants.shape import Blocking
from bench.conversations import Change, Message, Turn


class RawSqlite3(Blocking):
    name = "sqlite3"
    layout = "raw"
    colour = "sync"

    def __init__(self, path: str) -> None:
        self._path = path
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []

    def open(self) -> None:
        self._connection()

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        try:
            return self._mine.connection  # type: ignore[no-any-return]
        except AttributeError:
            connection = sqlite3.connect(
                self._path, BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
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
        execute = self._connection().execute
        while True:
            ((version, text),) = execute(GET, (user,)).fetchall()
            value = decode(text)
            change(value)
            if execute(SWAP, (encode(value), user, version)).rowcount:
                return
