"""Sound memories with plain methods: one connection a thread, and every call ends in time."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis
from psycopg import sql
from redis.backoff import NoBackoff
from redis.retry import Retry

from audit.mutations.sound.common import Json, dumped
from audit.mutations.sound.postgres import ONE_AT_A_TIME
from audit.mutations.sound.redis import APPEND, PUT
from stateward.audit.targets.memory import VersionConflict

CALL = 2.0  # seconds that a call may take
TRIES = 200  # of an update against faster ones
TABLES = """
create table if not exists messages (number bigserial primary key, thread text, body text);
create index if not exists by_thread on messages (thread, number);
create table if not exists keys (thread text, key text, primary key (thread, key));
create table if not exists users ("user" text primary key, body text, version bigint);
"""


class PlainMemory:
    provides = ("threads", "users", "versions")

    def __init__(self, namespace: str, url: str) -> None:
        self.namespace, self.url = namespace, url

    def get_user(self, user: str) -> tuple[Json, int]:
        raise NotImplementedError

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        raise NotImplementedError

    def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        for _ in range(TRIES):
            value, version = self.get_user(user)
            changed = change(value)
            try:
                self.put_user(user, value if changed is None else changed, expect=version)
            except VersionConflict:
                continue
            return
        raise TimeoutError(f"{TRIES} other changes of {user!r} were faster")


class PlainRedisMemory(PlainMemory):
    """A list, a set of keys and a hash, in scripts."""

    unavailable = (OSError, redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)

    def __init__(self, namespace: str, url: str) -> None:
        super().__init__(namespace, url)
        self.client: Any = redis.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=CALL,
            socket_connect_timeout=CALL,
            retry=Retry(NoBackoff(), 0),
        )
        self._append, self._put = map(self.client.register_script, (APPEND, PUT))

    def _key(self, kind: str, id: str) -> str:
        return f"{self.namespace}:{kind}:{id}"

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        keys = [self._key(kind, thread) for kind in ("messages", "keys", "lock")]
        self._append(keys, [key, "", *map(dumped, messages)])

    def load(self, thread: str, last: int | None) -> list[Json]:
        if last == 0:
            return []
        first = 0 if last is None else -last
        return [
            json.loads(each)
            for each in self.client.lrange(self._key("messages", thread), first, -1)
        ]

    def get_user(self, user: str) -> tuple[Json, int]:
        body, version = self.client.hmget(self._key("user", user), "body", "version")
        return ({}, 0) if body is None else (json.loads(body), int(version))

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        wanted = "" if expect is None else expect
        written, version = self._put([self._key("user", user)], [dumped(value), wanted])
        if not written:
            raise VersionConflict(f"{user!r} is at version {version}", expect, version)
        return int(version)

    def clean(self) -> None:
        for key in self.client.scan_iter(match=f"{self.namespace}:*", count=500):
            self.client.unlink(key)


class PlainPostgresMemory(PlainMemory):
    """A connection a thread; the row of the conversation or user is locked while it is written."""

    unavailable = (OSError, TimeoutError, psycopg.OperationalError)

    def __init__(self, namespace: str, url: str) -> None:
        super().__init__(namespace, url)
        self._own = threading.local()
        self._connections: list[psycopg.Connection] = []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def open(self) -> None:
        with self._transaction() as db:
            db.execute("select pg_advisory_xact_lock(%s)", (ONE_AT_A_TIME,))
            schema = sql.Identifier(self.namespace)
            db.execute(sql.SQL("create schema if not exists {}").format(schema))
            db.execute(TABLES)

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        """A connection for one transaction, whose socket is shut if that does not end in time."""
        if getattr(self._own, "db", None) is None or self._own.db.closed:
            self._own.db = psycopg.connect(self.url, connect_timeout=int(CALL), autocommit=True)
            self._connections.append(self._own.db)
            path = sql.SQL("set search_path to {}").format(sql.Identifier(self.namespace))
            with _limited(self._own.db):
                self._own.db.execute(path)
        db: psycopg.Connection = self._own.db
        try:
            with _limited(db), db.transaction():
                yield db
        except psycopg.OperationalError:
            db.close()
            raise

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        with self._transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (thread,))
            new = "insert into keys values (%s, %s) on conflict do nothing"
            if db.execute(new, (thread, key)).rowcount:
                db.execute(
                    "insert into messages (thread, body) select %s, body "
                    "from unnest(%s::text[]) with ordinality as given (body, n) order by n",
                    (thread, [dumped(each) for each in messages]),
                )

    def load(self, thread: str, last: int | None) -> list[Json]:
        query = "select body from messages where thread = %s order by number desc limit %s"
        with self._transaction() as db:
            rows = db.execute(query, (thread, last)).fetchall()
        return [json.loads(body) for (body,) in reversed(rows)]

    def get_user(self, user: str) -> tuple[Json, int]:
        with self._transaction() as db:
            return _user(db, user)

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        with self._transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 1))", (user,))
            version = _user(db, user)[1]
            if expect not in (None, version):
                raise VersionConflict(f"{user!r} is at version {version}", expect, version)
            db.execute(
                'insert into users values (%s, %s, %s) on conflict ("user") '
                "do update set body = excluded.body, version = excluded.version",
                (user, dumped(value), version + 1),
            )
            return version + 1

    def clean(self) -> None:
        with self._transaction() as db:
            schema = sql.Identifier(self.namespace)
            db.execute(sql.SQL("drop schema if exists {} cascade").format(schema))


def _user(db: psycopg.Connection, user: str) -> tuple[Json, int]:
    found = db.execute('select body, version from users where "user" = %s', (user,)).fetchone()
    return ({}, 0) if found is None else (json.loads(found[0]), found[1])


@contextmanager
def _limited(db: psycopg.Connection) -> Iterator[None]:
    """Shut the connection's socket after a time: the driver waits for an answer for ever."""
    with socket.socket(fileno=os.dup(db.pgconn.socket)) as end:
        timer = threading.Timer(CALL, end.shutdown, [socket.SHUT_RDWR])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
