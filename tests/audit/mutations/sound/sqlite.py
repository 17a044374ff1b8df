"""A sound memory in one SQLite file, with the standard library's driver."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from audit.mutations.sound.common import (
    LEASE,
    LOOK,
    WAIT,
    Json,
    LookupTimes,
    act_key,
    acted,
    dumped,
    fitted,
    kept_alive,
    now,
)
from stateward.audit.targets.memory import Refused, VersionConflict

SCHEMA = """
create table if not exists messages
    (thread text, number integer, body text, primary key (thread, number)) without rowid;
create table if not exists keys (thread text, key text, primary key (thread, key)) without rowid;
create table if not exists users (user text primary key, body text, version integer);
create table if not exists tasks (task text primary key, holder text, until real, result text);
create table if not exists workflows (id text primary key, holder text, until real);
create table if not exists steps (id text, name text, result text, primary key (id, name));
create table if not exists locks
    (thread text primary key, token integer, held integer, until real);
"""
COPY = "memory.db"


class SqliteMemory:
    """Every method is one transaction, which takes the write lock at its beginning."""

    provides = ("threads", "users", "versions", "tasks", "workflows", "locks", "metrics", "sizes")
    unavailable = (OSError, TimeoutError, sqlite3.OperationalError)
    synchronous = "full"

    def __init__(self, namespace: str, url: str) -> None:
        self.path = f"{urlsplit(url).path}.{namespace}"
        self.lookups = LookupTimes()
        self._own = threading.local()
        self._made: list[sqlite3.Connection] = []

    def open(self) -> None:
        self._connection()

    def close(self) -> None:
        for connection in self._made:
            connection.close()

    def clean(self) -> None:
        self.close()
        for path in (self.path, f"{self.path}-wal", f"{self.path}-shm"):
            if os.path.exists(path):
                os.remove(path)

    def backup(self, folder: str) -> None:
        """All of one moment, while others write."""
        with closing(sqlite3.connect(os.path.join(folder, COPY))) as copy:
            self._connection().backup(copy)

    def restore(self, folder: str) -> None:
        with closing(sqlite3.connect(os.path.join(folder, COPY))) as copy:
            copy.backup(self._connection())

    def _connection(self) -> sqlite3.Connection:
        """One for each thread."""
        if not hasattr(self._own, "connection"):
            connection = sqlite3.connect(
                self.path, timeout=5.0, isolation_level=None, check_same_thread=False
            )
            connection.execute("pragma journal_mode = wal")
            connection.execute(f"pragma synchronous = {self.synchronous}")
            connection.execute("pragma secure_delete = on")
            connection.executescript(SCHEMA)
            self._own.connection = connection
            self._made.append(connection)
        found: sqlite3.Connection = self._own.connection
        return found

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        connection.execute("begin immediate")
        try:
            yield connection
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")

    def _one(self, statement: str, *values: Any) -> Any:
        return self._connection().execute(statement, values).fetchone()

    # --- threads --------------------------------------------------------------------

    def append(self, thread: str, messages: list[Json], key: str, fence: Any = None) -> None:
        with self._transaction() as db:
            if fence is not None:
                held = db.execute("select token, held from locks where thread = ?", (thread,))
                if held.fetchone() != (fence, 1):
                    raise Refused(f"the lock of {thread!r} is not held with token {fence}")
            if db.execute("insert or ignore into keys values (?, ?)", (thread, key)).rowcount == 0:
                return
            (last,) = db.execute(
                "select coalesce(max(number), 0) from messages where thread = ?", (thread,)
            ).fetchone()
            db.executemany(
                "insert into messages values (?, ?, ?)",
                [(thread, last + n, dumped(each)) for n, each in enumerate(messages, 1)],
            )

    def load(self, thread: str, last: int | None) -> list[Json]:
        start = time.monotonic()
        rows = self._connection().execute(
            "select body from messages where thread = ? order by number desc limit ?",
            (thread, -1 if last is None else last),
        )
        found = [json.loads(body) for (body,) in rows][::-1]
        self.lookups.add(time.monotonic() - start)
        return found

    # --- users ----------------------------------------------------------------------

    def get_user(self, user: str) -> tuple[Json, int]:
        found = self._one("select body, version from users where user = ?", user)
        return ({}, 0) if found is None else (json.loads(found[0]), found[1])

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        with self._transaction() as db:
            current = self.get_user(user)[1]
            if expect is not None and expect != current:
                said = f"user {user!r} is at version {current}, not {expect}"
                raise VersionConflict(said, expect, current)
            self._write_user(db, user, value, current + 1)
            return current + 1

    def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        with self._transaction() as db:
            value, version = self.get_user(user)
            changed = change(value)
            self._write_user(db, user, value if changed is None else changed, version + 1)

    def _write_user(self, db: sqlite3.Connection, user: str, value: Json, version: int) -> None:
        db.execute("insert or replace into users values (?, ?, ?)", (user, dumped(value), version))

    # --- tasks ----------------------------------------------------------------------

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        me = uuid.uuid4().hex
        while True:
            done, mine = await asyncio.to_thread(self._claim, "tasks", "task", task, me)
            if done is not None:
                return json.loads(done)
            if mine:
                break
            await asyncio.sleep(LOOK)
        try:
            async with kept_alive(
                lambda: asyncio.to_thread(self._renew, "tasks", "task", task, me)
            ):
                result = await acted(("task", task), function)
        except BaseException:  # whoever is next may try again
            await asyncio.to_thread(self._let_go, "tasks", "task", task, me)
            raise
        await asyncio.to_thread(self._finish, task, me, dumped(result))
        return result

    def _claim(self, table: str, name: str, id: str, me: str) -> tuple[str | None, bool]:
        """The result if there is one, and whether it is claimed by me now."""
        result = "result" if table == "tasks" else "null"
        with self._transaction() as db:
            found = db.execute(
                f"select holder, until, {result} from {table} where {name} = ?", (id,)
            ).fetchone()
            if found is not None and found[2] is not None:
                return found[2], False
            if found is not None and found[0] is not None and found[1] > now():
                return None, False
            db.execute(
                f"insert into {table} ({name}, holder, until) values (?, ?, ?) "
                f"on conflict ({name}) do update set holder = excluded.holder, "
                "until = excluded.until",
                (id, me, now() + LEASE),
            )
            return None, True

    def _renew(self, table: str, name: str, id: str, me: str) -> None:
        self._connection().execute(
            f"update {table} set until = ? where {name} = ? and holder = ?", (now() + LEASE, id, me)
        )

    def _let_go(self, table: str, name: str, id: str, me: str) -> None:
        self._connection().execute(
            f"update {table} set holder = null where {name} = ? and holder = ?", (id, me)
        )

    def _finish(self, task: str, me: str, result: str) -> None:
        self._connection().execute(
            "update tasks set result = ?, holder = null where task = ? and holder = ?",
            (result, task, me),
        )

    # --- workflows ------------------------------------------------------------------

    async def run_workflow(self, id: str, steps: Any) -> Json:
        me = uuid.uuid4().hex
        while not (await asyncio.to_thread(self._claim, "workflows", "id", id, me))[1]:  # noqa: ASYNC110 (it is another process that is waited for)
            await asyncio.sleep(LOOK)
        results: Json = {}
        try:
            async with kept_alive(
                lambda: asyncio.to_thread(self._renew, "workflows", "id", id, me)
            ):
                done = await asyncio.to_thread(self._steps, id)
                for name, function in steps:
                    if name not in done:
                        done[name] = dumped(await acted(("step", id, name), function))
                        await asyncio.to_thread(self._finish_step, id, me, name, done[name])
                    results[name] = json.loads(done[name])
        finally:
            await asyncio.to_thread(self._let_go, "workflows", "id", id, me)
        return results

    def _steps(self, id: str) -> dict[str, str]:
        rows = self._connection().execute("select name, result from steps where id = ?", (id,))
        return dict(rows.fetchall())

    def _finish_step(self, id: str, me: str, name: str, result: str) -> None:
        with self._transaction() as db:
            holder = db.execute("select holder from workflows where id = ?", (id,)).fetchone()
            if holder != (me,):
                raise Refused(f"workflow {id!r} is driven by another replica")
            db.execute("insert into steps values (?, ?, ?)", (id, name, result))

    # --- locks ----------------------------------------------------------------------

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[int]:
        end = time.monotonic() + WAIT
        while (token := await asyncio.to_thread(self._acquire, thread, ttl)) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"the lock of {thread!r} is held by another")
            await asyncio.sleep(LOOK)
        try:
            yield token
        finally:
            await asyncio.to_thread(self._release, thread, token)

    def _acquire(self, thread: str, ttl: float) -> int | None:
        with self._transaction() as db:
            found = db.execute(
                "select token, held, until from locks where thread = ?", (thread,)
            ).fetchone() or (0, 0, 0.0)
            token, held, until = found
            if held and until > now():
                return None
            db.execute(
                "insert or replace into locks values (?, ?, 1, ?)", (thread, token + 1, now() + ttl)
            )
            return int(token) + 1

    def _release(self, thread: str, token: int) -> None:
        self._connection().execute(
            "update locks set held = 0 where thread = ? and token = ?", (thread, token)
        )

    # --- for agents, and against them ----------------------------------------------

    def effect_key(self) -> str:
        return act_key()

    def context(self, thread: str, last: int) -> list[Json]:
        return fitted(self.load(thread, None), last)

    def erase(self, user: str, threads: list[str]) -> None:
        with self._transaction() as db:
            db.execute("delete from users where user = ?", (user,))
            for thread in threads:
                db.execute("delete from messages where thread = ?", (thread,))
                db.execute("delete from keys where thread = ?", (thread,))
        end = time.monotonic() + WAIT
        while self._one("pragma wal_checkpoint(truncate)")[0]:  # as long as somebody reads the log
            if time.monotonic() > end:
                raise TimeoutError("what was erased is still in the log: another process reads it")

    def traces(self, text: str) -> list[str]:
        files = [Path(self.path), Path(f"{self.path}-wal")]
        return [file.name for file in files if file.exists() and text.encode() in file.read_bytes()]

    # --- figures --------------------------------------------------------------------

    def metrics(self) -> Json:
        return self.lookups.told()

    def describe(self) -> Json:
        (mode,) = self._one("pragma journal_mode")
        (synchronous,) = self._one("pragma synchronous")
        (pages,), (size,) = self._one("pragma page_count"), self._one("pragma page_size")
        return {
            "engine": "sqlite",
            "version": sqlite3.sqlite_version,
            "durability": "every acknowledged write is synced to disk",
            "bytes": pages * size,
            "capacity": None,
            "settings": {"journal_mode": mode, "synchronous": synchronous},
        }
