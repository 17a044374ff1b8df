"""Redis and Valkey: one script an entity, one pipeline a batch.

The round trip belongs to the engine: a caller that is cancelled stops waiting, and what it asked
for is carried to its end all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from hiredis import ReplyError

from stateward.engine import Capabilities, Description, SyncEngine
from stateward.engines.redis.addresses import addresses_of  # async only
from stateward.engines.redis.batch import Batch, Pipeline
from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.pool import Pool
from stateward.engines.redis.client.topology import ClusterServers, OneServer, SentinelServer
from stateward.engines.redis.describe import description_of, info_of
from stateward.engines.redis.failures import refused
from stateward.engines.redis.fast import FastWay, fast_way
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.notify import Notifications
from stateward.engines.redis.outcomes import head_of
from stateward.engines.redis.plans import Clock, Seen, SeenMembers, Traits
from stateward.engines.redis.purge import purge
from stateward.engines.redis.settings import Server, parse_server
from stateward.engines.redis.steps import PlanStep
from stateward.engines.url import EngineURL
from stateward.errors import StoreUnavailable
from stateward.ops import Entity, Op, Outcome
from stateward.world import World

# sync only: from stateward.engines.redis.client.connection_sync import until

T = TypeVar("T")

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    native_notify=True,
    parallel_batches=2,
    batch=50,  # so that two flights share 100 callers: one is packed while the server has the other
    networked=True,
    purges=True,
    system="redis",
)


class RedisEngine:
    """The contract over one server, over the primary of a sentinel's service, or over a cluster."""

    capabilities = CAPABILITIES

    def __init__(self, server: Server, clock: Clock | None = None) -> None:
        """`clock` is for tests only: it tells the time instead of the server."""
        self._server = server
        self._setting = Traits(
            inline=not server.cluster,
            replicas=server.wait_replicas,
            clock=clock,
            known=Seen(),
            listed=SeenMembers(),
        )
        self._servers = _servers_of(server)
        self._watch = Notifications(server, self._servers.address, self._has_moved)
        self._tasks: set[asyncio.Task[Any]] = set()  # async only

    async def open(self) -> None:
        await self._servers.open()
        (info,) = await self._servers.ask(("INFO", "memory"))
        if isinstance(info, ReplyError):
            raise refused(info, self._servers.name)
        # A server that evicts keys with a time to live must not find one on what is alive.
        evicts = info_of(info).get("maxmemory_policy", "").startswith("volatile")
        self._setting = self._setting._replace(net=not evicts)

    async def close(self) -> None:
        # async only: begin
        loop = asyncio.get_running_loop()
        while mine := [task for task in self._tasks if task.get_loop() is loop]:
            await asyncio.wait(mine)
        self._tasks.clear()  # those of an event loop that has ended will not go on
        # async only: end
        await self._watch.close()
        await self._servers.close()

    def execute(
        self, ops: Sequence[Op], *, deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        return self._execute_fast(ops)  # async only
        # sync only: with until(deadline):
        # sync only:     return self._execute_fast(ops)

    async def _execute_fast(self, ops: Sequence[Op]) -> list[Outcome]:
        if not ops:
            return []
        short = fast_way(ops, self._setting)
        ready = None if short is None else self._servers.idle(short)
        if short is None or ready is None:
            return await self._execute(ops)
        pool, link = ready
        # async only: begin
        answer = link.hand_over(short.packed, short.replies)
        try:
            replies = await answer
        except asyncio.CancelledError:
            self._keep(self._land_later(short, pool, link, link.taken_over(answer)))
            raise
        except StoreUnavailable:
            pool.give_back(link)
            self._servers.doubt()
            raise
        pool.give_back(link)
        if short.land(replies, self._servers):
            return short.outcomes
        return await self._own(self._settle(short))
        # async only: end
        # sync only: try:
        # sync only:     link.hand_over(short.packed, short.replies)
        # sync only:     replies = link.answer()
        # sync only: except StoreUnavailable:
        # sync only:     self._servers.doubt()
        # sync only:     raise
        # sync only: finally:
        # sync only:     pool.give_back(link)
        # sync only: if short.land(replies, self._servers):
        # sync only:     return short.outcomes
        # sync only: return self._settle(short)

    async def _settle(self, short: FastWay) -> list[Outcome]:
        """The ordinary way, for what the short one did not settle."""
        try:
            return short.settle(await self._fly(Batch(short.unsettled(), self._setting)))
        except StoreUnavailable as error:
            if short.wrote:
                error.applied = "unknown"
            raise

    async def _execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """By their courses."""
        flight = Batch(ops, self._setting)
        # async only: begin
        ready = self._servers.idle(flight)
        if ready is None:
            return await self._own(self._fly(flight))
        pool, link = ready
        trip = self._servers.round(flight.steps)
        try:
            answer = link.send(trip.commands)
        except BaseException:  # e.g. what is no text: nothing was sent
            pool.give_back(link)
            raise
        try:
            replies = await answer
        except asyncio.CancelledError:
            self._keep(self._fly_on(flight, trip, pool, link, link.taken_over(answer)))
            raise
        except StoreUnavailable:
            pool.give_back(link)
            self._servers.doubt()
            raise
        if not trip.take(replies):
            return await self._own(self._fly_on(flight, trip, pool, link, answer))
        pool.give_back(link)
        self._servers.check(trip)
        outcomes = flight.land(trip.answers)
        return await self._own(self._fly(flight)) if outcomes is None else outcomes
        # async only: end
        # sync only: return self._fly(flight)

    # async only: begin
    async def _own(self, work: Coroutine[Any, Any, T]) -> T:
        """Work that goes on though its caller may be cancelled."""
        return await asyncio.shield(self._keep(work))

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited was told; if nobody waits, nobody is to be told

    async def _land_later(
        self, short: FastWay, pool: Pool, link: Connection, answer: asyncio.Future[list[Any]]
    ) -> None:
        """The rest of a request whose caller does not wait any more."""
        try:
            replies = await answer
        except StoreUnavailable:
            self._servers.doubt()
            raise
        finally:
            pool.give_back(link)
        if not short.land(replies, self._servers):
            await self._settle(short)

    async def _fly_on(
        self,
        flight: Batch,
        trip: Pipeline,
        pool: Pool,
        link: Connection,
        answer: asyncio.Future[list[Any]],
    ) -> list[Outcome]:
        """The rest of a flight whose first request is already on its way."""
        try:
            if not trip.take(await answer):
                await self._servers.repeat(link, trip)
        except StoreUnavailable:
            self._servers.doubt()
            raise
        finally:
            pool.give_back(link)
        numbers = self._servers.elsewhere(trip)
        if numbers:
            await self._redirect(trip, numbers)
        self._servers.check(trip)
        outcomes = flight.land(trip.answers)
        return await self._fly(flight) if outcomes is None else outcomes

    async def _redirect(self, trip: Pipeline, numbers: Sequence[int]) -> None:
        """Some steps belong to other nodes than the one that was asked."""
        try:
            answers = await self._servers.trip([trip.steps[number] for number in numbers])
        except StoreUnavailable as error:
            if trip.wrote:
                error.applied = "unknown"
            raise
        trip.settle(numbers, answers)

    # async only: end

    async def _fly(self, flight: Batch) -> list[Outcome]:
        """Round after round until every course has landed."""
        while True:
            try:
                outcomes = flight.land(await self._servers.trip(flight.steps))
            except StoreUnavailable as error:
                if flight.wrote:
                    error.applied = "unknown"
                raise
            if outcomes is not None:
                return outcomes

    # --- waiting --------------------------------------------------------------------

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await self._watch.wait(cursors, timeout)

    async def _has_moved(self, cursors: Mapping[Entity, int]) -> bool:
        """Whether any log has left its cursor (also backwards: a new life)."""
        heads = [keys_of(entity).keys[0] for entity in cursors]
        steps = [PlanStep(head, (("HGETALL", head),), timed=True) for head in heads]
        answers = await self._own(self._servers.trip(steps))  # async only
        # sync only: answers = self._servers.trip(steps)
        for cursor, (time, flat) in zip(cursors.values(), answers, strict=True):
            head, _ = head_of(flat, self._setting.now(time))
            if head.version != cursor:
                return True
        return False

    # --- the server itself ----------------------------------------------------------

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.redis.engine import RedisEngine as Sibling

        return Sibling(self._server, self._setting.clock)

    # async only: begin
    async def addresses(self) -> Sequence[tuple[str, int]]:
        return await addresses_of(self._server)

    def through(self, url: str, ports: Sequence[int]) -> str:
        return url

    # async only: end

    async def migrate(self) -> Sequence[str]:
        return ()

    async def purge(self, namespace: str) -> int:
        course = purge(namespace)
        steps = next(course)
        while True:
            answers = await self._servers.trip(steps) if steps else []
            try:
                steps = course.send(answers)
            except StopIteration as ended:
                return int(ended.value)

    async def describe(self) -> Description:
        told = await self._servers.ask_each(
            ("INFO",),
            ("CONFIG", "GET", "appendonly"),
            ("CONFIG", "GET", "appendfsync"),
            ("CONFIG", "GET", "maxclients"),
        )
        infos: list[dict[str, str]] = []
        config: dict[str, str] = {}
        for info, *settings in told:
            if isinstance(info, ReplyError):
                raise refused(info, self._servers.name)
            infos.append(info_of(info))
            for reply in settings:
                if not isinstance(reply, ReplyError) and len(reply) == 2:  # blocked where managed
                    config[reply[0].decode()] = reply[1].decode()
        return description_of(infos, config, self._server.wait_replicas)


def _servers_of(server: Server) -> OneServer:
    if server.cluster:
        return ClusterServers(server)
    return SentinelServer(server) if server.service else OneServer(server)


def create(url: EngineURL, world: World) -> RedisEngine:
    """redis://host:6379, rediss:// (TLS), unix:///path, redis+cluster:// or redis+sentinel://

    Their options are in `settings.py`.
    """
    return RedisEngine(parse_server(url, world))
