"""Burr: the state is loaded, the turn is added, and it is saved as the next of its sequence.

What is there already is refused; then it is loaded again, after a moment, up to thirty times.
"""

from __future__ import annotations

import random
import sqlite3
from time import sleep
from typing import Any

import psycopg2
import redis
from burr.core import State
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_psycopg2 import PostgreSQLPersister
from burr.integrations.persisters.b_redis import RedisBasePersister
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, home, newest, server

ATTEMPTS = 30


class Persisters:
    keys = False
    taken: tuple[type[Exception], ...] = ()
    persister: Any

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        for attempt in range(ATTEMPTS):
            found = self.persister.load("audit", thread)
            sequence, state = (found["sequence_id"], found["state"]) if found else (0, State())
            said = [*state.get("messages", []), *messages]
            try:
                self.persister.save(
                    "audit", thread, sequence + 1, "reply", state.update(messages=said), "completed"
                )
                return
            except self.taken:
                self.undo()
                if attempt == ATTEMPTS - 1:
                    raise
                sleep(random.uniform(0, 0.01 * (attempt + 1)))

    def undo(self) -> None: ...

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = self.persister.load("audit", thread)
        return newest(found["state"].get("messages", []) if found else [], last)


class SqlitePersister(Persisters):
    taken = (sqlite3.IntegrityError,)
    unavailable = (sqlite3.OperationalError, OSError)

    def __init__(self, namespace: str) -> None: ...

    async def open(self) -> None:
        self.persister = SQLitePersister(str(home() / "burr.db"), table_name="burr_state")
        self.persister.initialize()

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        super().append(thread, messages, key)  # its connection is for the thread that opened it

    async def load(self, thread: str, last: int | None) -> list[Json]:
        return super().load(thread, last)

    def undo(self) -> None:
        self.persister.connection.rollback()


class PostgresPersister(Persisters):
    taken = (psycopg2.errors.UniqueViolation,)
    unavailable = (psycopg2.OperationalError, psycopg2.InterfaceError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self._server = server(url)

    def open(self) -> None:
        where = self._server
        self.persister = PostgreSQLPersister.from_values(
            db_name=where.path[1:],
            user=where.username,
            password=where.password,
            host=where.hostname,
            port=where.port,
            table_name="burr_state",
        )
        try:
            self.persister.initialize()
        except psycopg2.Error:  # another replica made the table meanwhile
            self.undo()

    def undo(self) -> None:
        self.persister.connection.rollback()


class RedisPersister(Persisters):
    taken = (ValueError,)
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self.persister = RedisBasePersister(redis.Redis.from_url(url), namespace="audit")
