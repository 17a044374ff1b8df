"""A sound memory in PostgreSQL, with psycopg and its pool."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg_pool import AsyncConnectionPool

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
    read_file,
    write_file,
)
from stateward.audit.targets.memory import Refused, VersionConflict

CALL = 2.5  # seconds that a call may take
ONE_AT_A_TIME = 7162534  # for the advisory lock under which the tables are made
SCHEMA = """
create table if not exists threads (thread text primary key, last bigint not null);
create table if not exists messages
    (thread text, number bigint, body text, primary key (thread, number));
create table if not exists keys (thread text, key text, primary key (thread, key));
create table if not exists users ("user" text primary key, body text, version bigint);
create table if not exists tasks
    (id text primary key, holder text, until timestamptz, result text);
create table if not exists workflows
    (id text primary key, holder text, until timestamptz, result text);
create table if not exists steps (id text, name text, result text, primary key (id, name));
create table if not exists locks
    (thread text primary key, token bigint, held boolean, until timestamptz);
"""
TABLES = ("threads", "messages", "keys", "users", "tasks", "workflows", "steps", "locks")
CLAIM = """
insert into {table} as t (id, holder, until)
values (%(id)s, %(me)s, clock_timestamp() + %(lease)s * interval '1 s')
on conflict (id) do update set holder = excluded.holder, until = excluded.until
where t.result is null and (t.holder is null or t.until < clock_timestamp())
returning 1
"""
ACQUIRE = """
insert into locks as l values (%(thread)s, 1, true, clock_timestamp() + %(ttl)s * interval '1 s')
on conflict (thread) do update
set token = l.token + 1, held = true, until = excluded.until
where not l.held or l.until < clock_timestamp()
returning token
"""


class PostgresMemory:
    """A schema of its own; every method is one transaction, and ends within 2.5 seconds."""

    provides = ("threads", "users", "versions", "tasks", "workflows", "locks", "metrics", "sizes")
    unavailable = (OSError, TimeoutError, psycopg.OperationalError)

    def __init__(self, namespace: str, url: str) -> None:
        self.namespace = namespace
        self.lookups = LookupTimes()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._pool: Any = AsyncConnectionPool(
            url,
            min_size=2,
            max_size=6,
            timeout=2.0,
            open=False,
            configure=self._configure,
            check=AsyncConnectionPool.check_connection,
            reconnect_timeout=10.0,
            kwargs={"connect_timeout": 2},
        )

    async def _configure(self, connection: Any) -> None:
        schema = sql.Identifier(self.namespace)
        await connection.execute(sql.SQL("set search_path to {}").format(schema))
        await connection.commit()

    async def open(self) -> None:
        await self._pool.open()
        async with self._pool.connection() as db:
            await db.execute("select pg_advisory_xact_lock(%s)", (ONE_AT_A_TIME,))
            schema = sql.Identifier(self.namespace)
            await db.execute(sql.SQL("create schema if not exists {}").format(schema))
            await db.execute(SCHEMA)

    async def close(self) -> None:
        await self._pool.close()

    async def clean(self) -> None:
        async with self._pool.connection() as db:
            schema = sql.Identifier(self.namespace)
            await db.execute(sql.SQL("drop schema if exists {} cascade").format(schema))

    async def backup(self, folder: str) -> None:
        """All of one moment, while others write."""
        async with self._pool.connection() as db:
            await db.execute("set transaction isolation level repeatable read")
            for table in TABLES:
                async with db.cursor().copy(f"copy {table} to stdout") as rows:
                    data = b"".join([bytes(row) async for row in rows])
                write_file(folder, table, data)

    async def restore(self, folder: str) -> None:
        async with self._pool.connection() as db:
            for table in TABLES:
                async with db.cursor().copy(f"copy {table} from stdin") as rows:
                    await rows.write(read_file(folder, table))

    async def _do(self, transaction: Callable[[Any], Awaitable[Any]]) -> Any:
        """What it returns, or an error in time: the driver itself waits for ever."""

        async def on_a_connection() -> Any:
            async with self._pool.connection() as db:
                return await transaction(db)

        task = asyncio.create_task(on_a_connection())
        done, _ = await asyncio.wait({task}, timeout=CALL)
        if not done:
            task.cancel()
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
            raise TimeoutError(f"no answer from PostgreSQL within {CALL} s")
        return task.result()

    async def _rows(self, statement: Any, *values: Any, **named: Any) -> list[Any]:
        async def transaction(db: Any) -> list[Any]:
            cursor = await db.execute(statement, named or values)
            return [] if cursor.description is None else await cursor.fetchall()

        found: list[Any] = await self._do(transaction)
        return found

    # --- threads --------------------------------------------------------------------

    async def append(self, thread: str, messages: list[Json], key: str, fence: Any = None) -> None:
        async def transaction(db: Any) -> None:
            if fence is not None:
                held = await db.execute(
                    "select token, held from locks where thread = %s for share", (thread,)
                )
                if await held.fetchone() != (fence, True):
                    raise Refused(f"the lock of {thread!r} is not held with token {fence}")
            # The row of the thread is locked: whoever appends to it waits here.
            counted = await db.execute(
                "insert into threads as t values (%s, 0) on conflict (thread) "
                "do update set last = t.last returning last",
                (thread,),
            )
            (last,) = await counted.fetchone()
            new = await db.execute(
                "insert into keys values (%s, %s) on conflict do nothing", (thread, key)
            )
            if new.rowcount == 0:
                return
            await db.execute(
                "insert into messages select %s, %s + n, body "
                "from unnest(%s::text[]) with ordinality as given (body, n)",
                (thread, last, [dumped(each) for each in messages]),
            )
            await db.execute(
                "update threads set last = last + %s where thread = %s", (len(messages), thread)
            )

        await self._do(transaction)

    async def load(self, thread: str, last: int | None) -> list[Json]:
        start = time.monotonic()
        rows = await self._rows(
            "select body from messages where thread = %s order by number desc limit %s",
            thread,
            last,
        )
        self.lookups.add(time.monotonic() - start)
        return [json.loads(body) for (body,) in rows][::-1]

    # --- users ----------------------------------------------------------------------

    async def get_user(self, user: str) -> tuple[Json, int]:
        rows = await self._rows('select body, version from users where "user" = %s', user)
        return (json.loads(rows[0][0]), rows[0][1]) if rows and rows[0][0] else ({}, 0)

    async def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        def put(found: Json, version: int) -> Json:
            if expect is not None and expect != version:
                said = f"user {user!r} is at version {version}, not {expect}"
                raise VersionConflict(said, expect, version)
            return value

        return await self._change(user, put)

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        def update(found: Json, version: int) -> Json:
            changed = change(found)
            return found if changed is None else changed

        await self._change(user, update)

    async def _change(self, user: str, change: Callable[[Json, int], Json]) -> int:
        """Under a lock of the row; gives the new version."""

        async def transaction(db: Any) -> int:
            locked = await db.execute(
                'insert into users as u values (%s, null, 0) on conflict ("user") '
                "do update set version = u.version returning body, version",
                (user,),
            )
            body, version = await locked.fetchone()
            value = change({} if body is None else json.loads(body), version)
            await db.execute(
                'update users set body = %s, version = %s where "user" = %s',
                (dumped(value), version + 1, user),
            )
            return int(version) + 1

        done: int = await self._do(transaction)
        return done

    # --- tasks ----------------------------------------------------------------------

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        me = uuid.uuid4().hex
        while not await self._claimed("tasks", task, me):
            rows = await self._rows("select result from tasks where id = %s", task)
            if rows and rows[0][0] is not None:
                return json.loads(rows[0][0])
            await asyncio.sleep(LOOK)
        try:
            async with kept_alive(lambda: self._renew("tasks", task, me)):
                result = await acted(("task", task), function)
        except BaseException:  # whoever is next may try again
            await self._let_go("tasks", task, me)
            raise
        await self._rows(
            "update tasks set result = %s, holder = null where id = %s and holder = %s",
            dumped(result),
            task,
            me,
        )
        return result

    async def _claimed(self, table: str, id: str, me: str) -> bool:
        claim = sql.SQL(CLAIM).format(table=sql.Identifier(table))
        return bool(await self._rows(claim, id=id, me=me, lease=LEASE))

    async def _renew(self, table: str, id: str, me: str) -> None:
        await self._rows(
            sql.SQL(
                "update {} set until = clock_timestamp() + %s * interval '1 s' "
                "where id = %s and holder = %s"
            ).format(sql.Identifier(table)),
            LEASE,
            id,
            me,
        )

    async def _let_go(self, table: str, id: str, me: str) -> None:
        statement = sql.SQL("update {} set holder = null where id = %s and holder = %s")
        await self._rows(statement.format(sql.Identifier(table)), id, me)

    # --- workflows ------------------------------------------------------------------

    async def run_workflow(self, id: str, steps: Any) -> Json:
        me = uuid.uuid4().hex
        while not await self._claimed("workflows", id, me):  # noqa: ASYNC110 (it is another process that is waited for)
            await asyncio.sleep(LOOK)
        results: Json = {}
        try:
            async with kept_alive(lambda: self._renew("workflows", id, me)):
                done = dict(await self._rows("select name, result from steps where id = %s", id))
                for name, function in steps:
                    if name not in done:
                        done[name] = dumped(await acted(("step", id, name), function))
                        await self._finish_step(id, me, name, done[name])
                    results[name] = json.loads(done[name])
        finally:
            await self._let_go("workflows", id, me)
        return results

    async def _finish_step(self, id: str, me: str, name: str, result: str) -> None:
        rows = await self._rows(
            "insert into steps select %s, %s, %s from workflows "
            "where id = %s and holder = %s returning name",
            id,
            name,
            result,
            id,
            me,
        )
        if not rows:
            raise Refused(f"workflow {id!r} is driven by another replica")

    # --- locks ----------------------------------------------------------------------

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[int]:
        end = time.monotonic() + WAIT
        while not (rows := await self._rows(ACQUIRE, thread=thread, ttl=ttl)):
            if time.monotonic() > end:
                raise TimeoutError(f"the lock of {thread!r} is held by another")
            await asyncio.sleep(LOOK)
        token = int(rows[0][0])
        try:
            yield token
        finally:
            await self._rows(
                "update locks set held = false where thread = %s and token = %s", thread, token
            )

    # --- for agents, and against them ----------------------------------------------

    def effect_key(self) -> str:
        return act_key()

    async def context(self, thread: str, last: int) -> list[Json]:
        return fitted(await self.load(thread, None), last)

    async def erase(self, user: str, threads: list[str]) -> None:
        async def transaction(db: Any) -> None:
            await db.execute('delete from users where "user" = %s', (user,))
            for table in ("messages", "keys", "threads"):
                await db.execute(f"delete from {table} where thread = any(%s)", (threads,))

        await self._do(transaction)

    async def traces(self, text: str) -> list[str]:
        async def transaction(db: Any) -> list[str]:
            found = []
            for table in TABLES:
                query = f"select 1 from {table} as t where t::text like %s limit 1"
                if await (await db.execute(query, (f"%{text}%",))).fetchone():
                    found.append(table)
            return found

        found: list[str] = await self._do(transaction)
        return found

    # --- figures --------------------------------------------------------------------

    async def metrics(self) -> Json:
        return self.lookups.told()

    async def describe(self) -> Json:
        names = ("fsync", "synchronous_commit", "full_page_writes")
        settings = {name: (await self._rows(f"show {name}"))[0][0] for name in names}
        rows = await self._rows(
            "select sum(pg_total_relation_size(c.oid))::bigint, version() from pg_class c "
            "where relkind = 'r' and relnamespace = (%s::text)::regnamespace",
            f'"{self.namespace}"',
        )
        return {
            "engine": "postgres",
            "version": rows[0][1].split()[1],
            "durability": "an acknowledged write survives a crash",
            "bytes": rows[0][0],
            "capacity": None,
            "settings": settings,
        }
