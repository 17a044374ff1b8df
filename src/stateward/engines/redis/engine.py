"""Redis and Valkey: one script an entity, one pipeline a batch.

The round trip belongs to the engine: a caller that is cancelled stops waiting, and what it asked
for is carried to its end all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hiredis import ReplyError
from msgspec.structs import replace

from stateward.engine import Capabilities, Description, SyncEngine
from stateward.engines.own_tasks import OwnTasks
from stateward.engines.redis.batch import Batch, plan_of
from stateward.engines.redis.client.cluster import ClusterServers
from stateward.engines.redis.client.connection import Connection  # async only
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.pool import Pool  # async only
from stateward.engines.redis.client.sentinel import SentinelServer
from stateward.engines.redis.client.server import Server
from stateward.engines.redis.client.topology import OneServer
from stateward.engines.redis.describe import description_of, info_of
from stateward.engines.redis.failures import refused
from stateward.engines.redis.fast import FastRequest, fast_request
from stateward.engines.redis.keys import (
    PARTS_OF_KINDS,
    WHOLE_KINDS,
    head_key,
    kind_index,
    namespace_of,
    owner_index,
    part_of,
)
from stateward.engines.redis.notify import Notifications
from stateward.engines.redis.outcomes import head_of
from stateward.engines.redis.plans import Clock, Latest, Plan, SeenMembers, Traits
from stateward.engines.redis.purge import purge
from stateward.engines.redis.reindex import IndexRepair
from stateward.engines.redis.scripts import ALL
from stateward.engines.redis.settings import parse_server
from stateward.engines.redis.traces import traces  # async only
from stateward.engines.url import EngineURL
from stateward.errors import StoreUnavailable
from stateward.ops import Commit, Entity, Fetch, List, Op, Outcome
from stateward.world import World

Request = FastRequest | Batch
LOOKS = 3  # times that a listing is read, while nodes of the cluster are being replaced

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    native_notify=True,
    parallel_batches=2,
    batch=50,  # two batches for 100 callers: one is packed while the server has the other
    networked=True,
    purges=True,
    system="redis",
)


class RedisEngine:
    """The contract over one server, over the primary of a sentinel's service, or over a cluster."""

    def __init__(self, server: Server, clock: Clock | None = None) -> None:
        """`clock` is for tests only, and replaces the time of the server."""
        self.capabilities = replace(
            CAPABILITIES, parts=server.cluster, replicates=server.wait_replicas > 0
        )
        self._server = server
        members = SeenMembers(5_000)
        self._traits = Traits(
            server, not server.cluster, clock, Latest(20_000), Latest(20_000), members, set(), set()
        )
        self._servers = _servers_of(server)
        self._repair: IndexRepair | None = None
        if isinstance(self._servers, ClusterServers):
            self._repair = IndexRepair(self._servers, self._traits, self._run)
        self._notifications = Notifications(server, self._servers.address, self._has_moved)
        self._tasks = OwnTasks()  # async only

    async def open(self) -> None:
        await self._servers.open()
        (pong,) = await self._servers.ask(("PING",))
        if isinstance(pong, ReplyError):
            raise refused(pong, self._servers.name)

    async def close(self) -> None:
        await self._tasks.finish()  # async only
        await self._notifications.close()
        await self._servers.close()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if not ops:
            return []
        traits = self._traits
        request: Request | None = fast_request(ops, traits)
        if request is None:
            if self._repair is not None and any(type(op) is List and not op.within for op in ops):
                return await self._tasks.run(self._list(ops, deadline))  # async only
                # sync only: return self._list(ops, deadline)
            request = Batch([plan_of(op, traits) for op in ops], traits)
        lent = self._servers.idle(request)
        if lent is None:
            return await self._tasks.run(self._finish(request, deadline))  # async only
            # sync only: return self._finish(request, deadline)
        pool, connection = lent
        try:
            message = request.message(pool.replica_wait, deadline)
            replies = await connection.round_trip(message.packed, message.replies, deadline)
        # async only: begin
        except asyncio.CancelledError:
            self._tasks.start(self._go_on(request, pool, connection))
            raise
        # async only: end
        except BaseException as error:
            pool.give_back(connection)
            if isinstance(error, StoreUnavailable):
                self._servers.doubt(error, pool.address)
            raise
        pool.give_back(connection)
        try:
            if request.take(replies, self._servers.name):
                return request.outcomes
        except StoreUnavailable as error:
            self._servers.doubt(error, pool.address)
            raise
        return await self._tasks.run(self._finish(request, deadline))  # async only
        # sync only: return self._finish(request, deadline)

    def part_of(self, op: Op) -> Hashable:
        """Return the nodes of an operation, so that a hanging node delays no other operation.

        These are the nodes of the entity and of its part of the index, mostly the same, and for a
        new entity its owner's node. Listings ask all nodes.
        """
        if not isinstance(op, Commit | Fetch):
            return None
        entity, node_of = op.entity, self._servers.node_of
        node = node_of(head_key(entity))
        if type(op) is Fetch:
            return node
        its_index = node_of(kind_index(entity.namespace, entity.kind, part_of(entity)))
        if entity in self._traits.seen:
            return node if node == its_index else (node, its_index)
        theirs = node_of(owner_index(entity.namespace, op.owner)) if op.owner else None
        return node, its_index, theirs, "new"

    async def _finish(self, request: Request, deadline: float | None = None) -> list[Any]:
        """Send round after round, until every operation is settled."""
        batch = request.rest()
        settled = False
        while not settled:
            try:
                settled = batch.go_on(await self._servers.trip(batch.steps, deadline))
            except StoreUnavailable as error:
                if request.wrote or batch.wrote:
                    error.applied = "unknown"
                raise
        return request.settle(batch.outcomes)

    async def _list(self, ops: Sequence[Op], deadline: float | None) -> list[Any]:
        """Execute operations with listings on a cluster, once its index has what they look for."""
        repair = self._repair
        assert repair is not None
        outcomes: list[Any] = []
        for _ in range(LOOKS):
            await repair.advance(ops, deadline)
            version = repair.version
            batch = Batch([plan_of(op, self._traits) for op in ops], self._traits)
            outcomes = await self._finish(batch, deadline)
            if batch.wrote or repair.version == version:
                break  # no node was replaced meanwhile
        return outcomes

    async def _run(self, plan: Plan[Any], deadline: float | None) -> Any:
        """Carry out a plan of the engine's own."""
        (outcome,) = await self._finish(Batch([plan], self._traits), deadline)
        return outcome

    # async only: begin
    async def _go_on(self, request: Request, pool: Pool, connection: Connection) -> None:
        """Complete a request that was sent before its caller was cancelled."""
        try:
            try:
                replies = await connection.taken_over()
            finally:
                pool.give_back(connection)
            settled = request.take(replies, self._servers.name)
        except StoreUnavailable as error:
            self._servers.doubt(error, pool.address)
            raise
        if not settled:
            await self._finish(request)

    # async only: end

    # --- waiting --------------------------------------------------------------------

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await self._notifications.wait(cursors, timeout)

    async def _has_moved(self, cursors: Mapping[Entity, int]) -> bool:
        """Return True if any log has left its cursor (also backwards: a new life)."""
        heads = [head_key(entity) for entity in cursors]
        steps = [PipelineStep(head, (("HGETALL", head),), timed=True) for head in heads]
        answers = await self._tasks.run(self._servers.trip(steps))  # async only
        # sync only: answers = self._servers.trip(steps)
        for cursor, (time, flat) in zip(cursors.values(), answers.replies, strict=True):
            head, _ = head_of(flat, self._traits.now(time))
            if head.version != cursor:
                return True
        return False

    # --- the server itself ----------------------------------------------------------

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.redis.engine import RedisEngine as Sibling

        return Sibling(self._server, self._traits.clock)

    # async only: begin
    async def addresses(self) -> Sequence[tuple[str, int]]:
        return await self._servers.addresses()

    def through(self, url: str, ports: Sequence[int]) -> str:
        return url

    async def traces(self, text: str) -> Sequence[str]:
        addresses = await self._servers.addresses() or self._server.addresses
        return await traces(self._server, addresses, text)

    # async only: end

    async def migrate(self) -> Sequence[str]:
        """Do nothing: there is no schema."""
        return ()

    async def namespaces(self) -> Sequence[str]:
        like = WHOLE_KINDS if self._traits.inline else PARTS_OF_KINDS
        indexes = await self._servers.keys_like(like)
        return sorted(set(map(namespace_of, indexes)), key=str.encode)

    async def purge(self, namespace: str) -> int:
        count: int = await self._run(purge(namespace, self._traits), None)
        return count

    async def describe(self) -> Description:
        replies = await self._servers.ask_each(
            ("INFO",),
            ("CONFIG", "GET", "appendonly"),
            ("CONFIG", "GET", "appendfsync"),
            ("CONFIG", "GET", "maxclients"),
        )
        nodes: dict[str, dict[str, str]] = {}
        for name, (info, *settings) in replies.items():
            if isinstance(info, ReplyError):
                raise refused(info, self._servers.name)
            nodes[name] = info_of(info)
            for reply in settings:
                if not isinstance(reply, ReplyError) and len(reply) == 2:  # blocked where managed
                    nodes[name][reply[0].decode()] = reply[1].decode()
        return description_of(nodes, self._server.wait_replicas)


def _servers_of(server: Server) -> OneServer:
    kind = ClusterServers if server.cluster else SentinelServer if server.service else OneServer
    return kind(server, [script.text for script in ALL])


def create(url: EngineURL, world: World) -> RedisEngine:
    """Create the engine for redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://.

    Their options are in `settings.py`.
    """
    return RedisEngine(parse_server(url, world))
