"""PostgreSQL: a batch is one statement, so one round trip and one transaction.

What a commit means is decided by functions in the database (migrations/), under the locks of the
heads it touches. The round trip runs in a task of the engine's own: a caller that is cancelled
only stops waiting for it, and no connection is left between a request and its reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from stateward.engine import Capabilities, Description, Reader, SyncEngine
from stateward.engines.own_tasks import OwnTasks
from stateward.engines.postgres.addresses import addresses_of, through  # async only
from stateward.engines.postgres.batch import Batch
from stateward.engines.postgres.connection import Query, connect
from stateward.engines.postgres.describe import describe
from stateward.engines.postgres.escape import unescape
from stateward.engines.postgres.failures import RETRIED, ConnectionLost, explain, is_from_pooler
from stateward.engines.postgres.fetch import versions
from stateward.engines.postgres.notify import Listener
from stateward.engines.postgres.pool import Pool
from stateward.engines.postgres.schema import Queries, pending, quoted, script
from stateward.engines.postgres.settings import Settings, read_settings
from stateward.engines.postgres.snapshot import Snapshot
from stateward.engines.postgres.traces import traces  # async only
from stateward.engines.postgres.wire import NOT_SENDABLE, Rows
from stateward.engines.url import EngineURL
from stateward.errors import SchemaError, StatewardError
from stateward.ops import Entity, Op, Outcome
from stateward.world import World

PURGED_TOGETHER = 200  # entities in one transaction
# Loads in a batch, two of which are under way: the server gathers messages while the client decodes
# those of the last one. In one batch of a hundred the two took turns, and waited for each other.
READ_TOGETHER = 34
RETRIES = 5  # of a batch that the database ended to resolve a deadlock
FIRST_POLL, LONGEST_POLL = 0.02, 0.25  # seconds between looks while waiting for a change
LONGEST_LISTEN = 2.0  # the same while listening


class PostgresEngine:
    """The contract over one schema."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queries = Queries(settings.schema)
        self._pool: Pool | None = None
        self._listener: Listener | None = None
        self.capabilities = self._capabilities()
        self._under_way = OwnTasks()  # async only

    async def open(self) -> None:
        self._pool = Pool(self._settings, self._settings.queriers)
        try:
            await self._bring_up_to_date()
        except BaseException:
            await self.close()
            raise
        if self._settings.listens:
            self._listener = Listener(self._settings, self._queries)
        self.capabilities = self._capabilities()

    def _capabilities(self) -> Capabilities:
        return Capabilities(
            durable=True,
            shared=True,
            native_notify=self._settings.listens,
            snapshots=True,
            parallel_reads=2,
            read_batch=READ_TOGETHER,
            networked=True,
            purges=True,
            migrates=True,
            schemas=True,
            system="postgresql",
        )

    async def _bring_up_to_date(self) -> None:
        about = await self._about()
        missing = pending(about, self._settings.schema)
        if missing and not self._settings.migrate:
            names = ", ".join(step.name for step in missing)
            raise SchemaError(
                f"{self._settings.safe}: the schema {self._settings.schema!r} lacks {names} "
                f"and was opened with migrate=off; run: stateward migrate URL",
                missing=not about,
            )
        if missing:
            await self.migrate()

    async def close(self) -> None:
        await self._under_way.finish()  # async only
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    # --- operations -----------------------------------------------------------------

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        try:
            batch = Batch(ops, self._queries)
            queries = batch.queries
            if not queries:
                return []
            return batch.outcomes(await self._ask(queries, batch.writes, deadline))
        except NOT_SENDABLE as error:
            raise self._failure(psycopg.DataError(str(error)), writes=False) from error

    async def _ask(
        self, queries: Sequence[Query], writes: bool = False, deadline: float | None = None
    ) -> list[Rows]:
        """Make one round trip, which goes on by itself if the caller is cancelled.

        Only a blocking caller waits for the connection itself, and so until its `deadline` alone.
        """
        # async only: begin
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[list[Rows]] = loop.create_future()
        if len(queries) > 1 or not self._fast_ask(reply, queries[0], writes):
            self._send(reply, queries, writes)
        return await reply
        # async only: end
        # sync only: return self._round_trip(queries, writes, deadline)

    # async only: begin
    def _fast_ask(self, reply: asyncio.Future[list[Rows]], query: Query, writes: bool) -> bool:
        """Send without a task if a connection is free; return False if none is.

        It never decides more than that: what was given up to resolve a deadlock goes the other way.
        """
        assert self._pool is not None, "open() comes first"
        landing: asyncio.Future[None] = reply.get_loop().create_future()

        def landed(rows: Rows, error: BaseException | None) -> None:
            self._under_way.discard(landing)
            landing.set_result(None)
            if error is not None and self._is_repeated(error):
                self._send(reply, [query], writes)
            elif reply.done():
                return
            elif error is None:
                reply.set_result([rows])
            elif isinstance(error, ConnectionLost | psycopg.Error):
                reply.set_exception(self._failure(error, writes))
            else:
                reply.set_exception(error)

        self._under_way.add(landing)
        if self._pool.fast_run(query, landed):
            return True
        self._under_way.discard(landing)
        return False

    def _send(
        self, reply: asyncio.Future[list[Rows]], queries: Sequence[Query], writes: bool
    ) -> None:
        """Send in a task, which answers those who still wait when it ends."""

        def delivered(task: asyncio.Task[list[Rows]]) -> None:
            if task.cancelled():  # the loop ends
                reply.cancel()
            elif reply.done():
                return
            elif (error := task.exception()) is None:
                reply.set_result(task.result())
            else:
                reply.set_exception(error)

        self._under_way.start(self._round_trip(queries, writes)).add_done_callback(delivered)

    # async only: end
    async def _round_trip(
        self, queries: Sequence[Query], writes: bool, deadline: float | None = None
    ) -> list[Rows]:
        """Make one round trip, and raise every failure as one of our errors."""
        assert self._pool is not None, "open() comes first"
        retries = 0
        while True:
            try:
                return await self._pool.run(queries, deadline)
            except (ConnectionLost, psycopg.Error) as error:
                retries += 1
                if retries > RETRIES or not self._is_repeated(error):
                    failure = self._failure(error, writes)
                    raise failure from failure.__cause__

    def _is_repeated(self, error: BaseException) -> bool:
        """Return whether nothing was applied, and another attempt may succeed immediately."""
        if self._settings.met.pooler and is_from_pooler(error):  # it is obeyed from now on
            return True
        return isinstance(error, RETRIED)

    def _failure(self, error: ConnectionLost | psycopg.Error, writes: bool) -> StatewardError:
        """Return the failure as one of our errors, which says what became of the batch and why."""
        cause, applied = (
            (error.error, writes) if isinstance(error, ConnectionLost) else (error, False)
        )
        safe, schema = self._settings.safe, self._settings.schema
        failure = explain(cause, "unknown" if applied else "no", safe, schema)
        failure.__cause__ = cause
        return failure

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Reader]:
        """Open a connection beyond those of the pool for reading one moment."""
        link = None
        try:
            try:
                link = await connect(self._settings)
                snapshot = Snapshot(link, self._settings, self._queries)
                await snapshot.begin()
            except psycopg.Error as error:
                raise explain(error, "no", self._settings.safe, self._settings.schema) from error
            yield snapshot
        finally:
            if link is not None:
                await link.close()

    # --- waiting --------------------------------------------------------------------

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Look, then listen; and look again from time to time, in case nothing was heard."""
        world, listener = self._settings.world, self._listener
        if not self._settings.listens:  # a pooler was met since
            listener = None
        waiter = None if listener is None else listener.join()
        end, pause = world.monotonic() + timeout, FIRST_POLL
        try:
            while True:
                listening = listener is not None and listener.ready  # before the look
                if waiter is not None:
                    waiter.ids = None
                ids, moved = await self._look(cursors)
                seconds = end - world.monotonic()
                if moved or seconds <= 0:
                    return
                if waiter is None:
                    await world.pause(min(pause, seconds))
                else:
                    waiter.ids = None if None in ids else frozenset(ids)  # type: ignore[arg-type]
                    heard = await waiter.wait(min(pause, seconds))
                    if heard and listening and waiter.ids is not None:
                        return
                pause = min(pause * 2, LONGEST_LISTEN if listening else LONGEST_POLL)
        finally:
            if listener is not None and waiter is not None:
                listener.leave(waiter)

    async def _look(self, cursors: Mapping[Entity, int]) -> tuple[list[int | None], bool]:
        """Return the entities' own numbers, and True if a log has left its cursor."""
        (rows,) = await self._ask([versions(list(cursors), self._queries)])
        places = [version for _, version in rows]
        return [id_ for id_, _ in rows], places != list(cursors.values())

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.postgres.engine import PostgresEngine as Sibling

        return Sibling(self._settings.for_sibling())

    # async only: begin
    async def addresses(self) -> Sequence[tuple[str, int]]:
        return addresses_of(self._settings.conninfo)

    def through(self, url: str, ports: Sequence[int]) -> str:
        return through(url, self._settings.conninfo, ports)

    async def traces(self, text: str) -> Sequence[str]:
        return await traces(self._settings, text)

    # async only: end

    # --- schema ---------------------------------------------------------------------

    async def _about(self) -> dict[str, str]:
        """Return the schema's table `about`; empty if there is no schema."""
        settings, queries = self._settings, self._queries
        looks = await self._ask([(queries.has_schema, ()), (queries.has_session, ())])
        ((encoding, isolation, _, ours),), ((has_session,),) = looks
        if not has_session and settings.adapts_now:
            settings.met.meet_pooler(settings.safe)  # one that swallows what a session is told
        if encoding != "UTF8":
            raise SchemaError(
                f"{self._settings.safe}: the database has the encoding {encoding}; create one with "
                "ENCODING 'UTF8'"
            )
        if isolation != "read committed":
            raise SchemaError(
                f"{self._settings.safe}: transactions are {isolation} here, and must see what they "
                "waited for; run: ALTER ROLE … SET default_transaction_isolation = 'read committed'"
            )
        if not ours:
            return {}
        (rows,) = await self._ask([(self._queries.about, ())])
        return dict(rows)

    async def migrate(self) -> Sequence[str]:
        """Migrate in one transaction, under a lock that other starting replicas wait for."""
        queries = self._queries
        async with self._alone() as cursor:
            await cursor.execute(queries.has_schema)
            ((_, _, there, ours),) = await cursor.fetchall()
            if not there:
                await cursor.execute(queries.create_schema)
            about: dict[str, str] = {}
            if ours:
                await cursor.execute(queries.about)
                about = dict(await cursor.fetchall())
            steps = pending(about, queries.schema)
            for step in steps:
                await cursor.execute(step.sql)
                await cursor.execute(queries.note_about, ("schema", str(step.number)))
                await cursor.execute(queries.note_about, ("oldest_release", step.oldest))
        return [step.name for step in steps]

    async def pending_sql(self) -> str:
        """The SQL that `migrate` would run, for people who run it themselves."""
        opened = self._pool is not None
        if not opened:
            self._pool = Pool(self._settings, 1)
        try:
            about = await self._about()
        finally:
            if not opened:
                await self.close()
        return script(pending(about, self._settings.schema), self._settings.schema)

    async def namespaces(self) -> Sequence[str]:
        (rows,) = await self._ask([(self._queries.namespaces, ())])
        return [unescape(name) for (name,) in rows]

    async def purge(self, namespace: str) -> int:
        count = 0
        while True:
            query = (self._queries.purge, (namespace, PURGED_TOGETHER))
            (((gone,),),) = await self._ask([query], writes=True)
            count += int(gone)
            if int(gone) < PURGED_TOGETHER:
                return count

    # --- whole stores apart -------------------------------------------------------------

    async def create_schema(self, note: str) -> None:
        async with self._alone() as cursor:
            await cursor.execute(self._queries.has_schema)
            ((_, _, there, _),) = await cursor.fetchall()
            if there:
                raise SchemaError(
                    f"{self._settings.safe}: the schema {self._settings.schema!r} is there already"
                )
            await cursor.execute(self._queries.create_schema)
            await cursor.execute(self._queries.put_note.replace("{note}", quoted(note)))

    async def marked_schemas(self, note: str) -> list[str]:
        async with self._alone() as cursor:
            await cursor.execute(self._queries.noted, (note,))
            return [str(name) for (name,) in await cursor.fetchall()]

    async def drop_schema(self, note: str) -> None:
        async with self._alone() as cursor:
            await cursor.execute(self._queries.has_schema)
            ((_, _, there, _),) = await cursor.fetchall()
            if not there:
                return
            await cursor.execute(self._queries.noted, (note,))
            if (self._settings.schema,) not in await cursor.fetchall():
                raise SchemaError(
                    f"{self._settings.safe}: the schema {self._settings.schema!r} does not carry "
                    f"the note {note!r}, so it is not removed"
                )
            await cursor.execute(self._queries.drop_schema)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[Any]:
        """Run a transaction on a connection of its own."""
        link = None
        try:
            link = await connect(self._settings)
            async with link.transaction():
                cursor = link.cursor()
                await cursor.execute(self._queries.be_patient)
                await cursor.execute(self._queries.lock_migrations)
                yield cursor
        except psycopg.Error as error:
            safe, schema = self._settings.safe, self._settings.schema
            raise explain(error, "no", safe, schema) from error
        finally:
            if link is not None:
                await link.close()

    async def describe(self) -> Description:
        (rows, about) = await self._ask([(self._queries.describe, ()), (self._queries.about, ())])
        return describe(rows[0], dict(about))


def create(url: EngineURL, world: World) -> PostgresEngine:
    """Create the engine for postgresql://user:password@host:5432/database."""
    return PostgresEngine(read_settings(url, world))
