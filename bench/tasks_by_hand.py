"""A run-once task as a competent engineer would write it by hand, on each engine.

Without leases, retries or fences: a claim that one caller gets, and a result that is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import apsw

from bench.contestants.raw_psycopg import RawPsycopg, RawPsycopgPool
from bench.contestants.raw_redis import RawRedis, RawRedisAsync

WHAT = ("task", "hit", "step")

TABLES = """CREATE TABLE task (id TEXT PRIMARY KEY, status TEXT NOT NULL, result TEXT);
    CREATE TABLE step (workflow TEXT, name TEXT, value TEXT)"""
CLAIM = "INSERT INTO task VALUES (%s, 'running', NULL)"
FINISH = "UPDATE task SET status = 'done', result = '1' WHERE id = %s"
LOOK = "SELECT status, result FROM task WHERE id = %s"
STEP = "INSERT INTO step VALUES ('w', %s, '1')"


class Tasks(Protocol):
    """Two writes, a read, a write."""

    def task(self, id: str) -> Any: ...
    def hit(self, id: str) -> Any: ...
    def step(self, id: str) -> Any: ...


class SqliteTasks:
    """Each write is a durable transaction of its own."""

    name = "apsw"

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.pragma("journal_mode", "wal")
        self._connection.execute(f"PRAGMA synchronous = FULL; {TABLES}").fetchall()

    def task(self, id: str) -> None:
        self._write(CLAIM, id)
        self._write(FINISH, id)

    def hit(self, id: str) -> None:
        self._connection.execute(LOOK.replace("%s", "?"), (id,)).fetchall()

    def step(self, id: str) -> None:
        self._write(STEP, id)

    def close(self) -> None:
        self._connection.close()

    def _write(self, query: str, id: str) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(query.replace("%s", "?"), (id,))
        self._connection.execute("COMMIT")


class RedisTasks(RawRedis):
    """A key for each task."""

    name = "redis-py, blocking"

    def task(self, id: str) -> None:
        assert self._client.set(f"task:{id}", "running", nx=True)
        self._client.set(f"task:{id}", "done 1")

    def hit(self, id: str) -> None:
        self._client.get(f"task:{id}")

    def step(self, id: str) -> None:
        self._client.rpush("workflow:w", f"{id} 1")


class RedisTasksAsync(RawRedisAsync):
    """The same on an event loop."""

    name = "redis-py"

    async def task(self, id: str) -> None:
        assert await self._client.set(f"task:{id}", "running", nx=True)
        await self._client.set(f"task:{id}", "done 1")

    async def hit(self, id: str) -> None:
        await self._client.get(f"task:{id}")

    async def step(self, id: str) -> None:
        await self._client.rpush("workflow:w", f"{id} 1")


class PostgresTasks(RawPsycopg):
    """One prepared statement a write, each committed by itself."""

    name = "psycopg, blocking"

    def open(self) -> None:
        with self._connect() as connection:
            connection.execute(TABLES, prepare=False)

    def task(self, id: str) -> None:
        self._run(CLAIM, (id,))
        self._run(FINISH, (id,))

    def hit(self, id: str) -> None:
        self._run(LOOK, (id,)).fetchall()

    def step(self, id: str) -> None:
        self._run(STEP, (id,))


class PostgresTasksAsync(RawPsycopgPool):
    """The same on an event loop, with a pool."""

    name = "psycopg pool"

    async def open(self) -> None:
        await super().open()
        await self._all[0].execute(TABLES, prepare=False)

    async def task(self, id: str) -> None:
        await self._run(CLAIM, (id,))
        await self._run(FINISH, (id,))

    async def hit(self, id: str) -> None:
        await (await self._run(LOOK, (id,))).fetchall()

    async def step(self, id: str) -> None:
        await self._run(STEP, (id,))


def timed(ids: list[str], tasks: Tasks) -> dict[str, float]:
    """The median seconds of each kind of call."""
    found = {}
    for what in WHAT:
        call: Callable[[str], Any] = getattr(tasks, what)
        took = []
        for id_ in ids:
            start = perf_counter()
            call(id_)
            took.append(perf_counter() - start)
        found[what] = median(took)
    return found


async def timed_awaited(ids: list[str], tasks: Tasks) -> dict[str, float]:
    """The same of calls on an event loop."""
    found = {}
    for what in WHAT:
        call: Callable[[str], Awaitable[Any]] = getattr(tasks, what)
        took = []
        for id_ in ids:
            start = perf_counter()
            await call(id_)
            took.append(perf_counter() - start)
        found[what] = median(took)
    return found


class ByHand:
    """A blocking contestant."""

    def __init__(self, tasks: Any) -> None:
        self.name: str = tasks.name
        self._tasks = tasks
        if hasattr(tasks, "open"):
            tasks.open()

    def play(self, _number: int, ids: list[str]) -> dict[str, float]:
        return timed(ids, self._tasks)

    def close(self) -> None:
        self._tasks.close()


class ByHandAwaited:
    """A contestant with an event loop of its own."""

    def __init__(self, tasks: Any) -> None:
        self.name: str = tasks.name
        self._tasks = tasks
        self._loop = asyncio.Runner()
        self._loop.run(tasks.open())

    def play(self, _number: int, ids: list[str]) -> dict[str, float]:
        return self._loop.run(timed_awaited(ids, self._tasks))

    def close(self) -> None:
        self._loop.run(self._tasks.close())
        self._loop.close()
