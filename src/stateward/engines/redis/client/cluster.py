"""The nodes of a cluster: one pipeline for each that is concerned, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.migration import (
    alone,
    forms_of,
    is_there_already,
    keys_of_step,
    move,
    not_moved,
    probe,
    script_digest,
)
from stateward.engines.redis.client.pipeline import (
    ASKING,
    Answers,
    Pipeline,
    PipelineStep,
    failure_of,
)
from stateward.engines.redis.client.pool import Pool
from stateward.engines.redis.client.redirection import (
    MARGIN,
    REDIRECTIONS,
    TAKING_OVER,
    Redirections,
)
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.client.slots import SlotTable, node_address
from stateward.engines.redis.client.topology import Keyed, OneServer, ask_once
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.failures import code_of, refused
from stateward.errors import StoreUnavailable

TRYING = 0.05  # seconds before a step is tried again about which the nodes do not agree yet


class Share(NamedTuple):
    """Steps for one node: their numbers, and the connection that carries them."""

    numbers: list[int]
    pipeline: Pipeline
    pool: Pool
    connection: Connection


class ClusterServers(OneServer):
    """All primaries of a cluster, each with a pool of its own."""

    def __init__(self, server: Server, scripts: Sequence[str]) -> None:
        forms = forms_of(scripts)
        super().__init__(server, [*scripts, *forms])
        self._forms = dict(zip(map(script_digest, scripts), map(script_digest, forms), strict=True))
        self.name = f"redis+cluster://{server.addresses[0].host}"
        self._slots = SlotTable()
        self._pools: dict[Address, Pool] = {}
        self._doubted: set[Address] = set()  # nodes of which nobody knows what they hold now
        self._turn = 0

    def node_of(self, key: str) -> Address:
        return self._slots.primary_of(key) or self._server.addresses[0]

    def doubt(self, failure: BaseException | None = None, address: Address | None = None) -> None:
        """Note that one node may no longer hold its slots, or with no address that any may not."""
        if address is None:
            self._sure = False
        else:
            self._doubted.add(address)

    async def close(self) -> None:
        self.doubt()
        for pool in list(self._pools.values()):
            await pool.close()
        self._pools.clear()

    async def address(self) -> Address:
        """Return the address of another primary each time, as the last may not have answered."""
        await self._find()
        self._turn += 1
        well = [node for node in self._slots.primaries() if node not in self._doubted]
        nodes = well or self._slots.primaries()
        return nodes[self._turn % len(nodes)]

    async def ask(self, *commands: Command) -> list[Any]:
        await self._find()
        for _ in self._slots.primaries()[1:]:
            try:
                return await self._ask(self._pool_of(await self.address()), *commands)
            except StoreUnavailable:
                continue
        return await self._ask(self._pool_of(await self.address()), *commands)

    async def ask_each(self, *commands: Command) -> dict[str, list[Any]]:
        await self._find()
        return {str(pool.address): await self._ask(pool, *commands) for pool in self._primaries()}

    @property
    def version(self) -> int:
        """The version of the map of slots, which grows whenever a node may have been replaced."""
        return self._slots.version

    def nodes(self) -> list[Address]:
        """Return the primaries, as far as they are known."""
        return self._slots.primaries()

    async def replication_ids(self, deadline: float | None) -> str:
        """Return the ids of all primaries, which change when one is replaced or restarted."""
        await self._find(deadline)
        ids = []
        for pool in self._primaries():
            (reply,) = await self._ask(pool, ("INFO", "replication"), deadline=deadline)
            if isinstance(reply, ReplyError):
                raise refused(reply, str(pool.address))
            lines = reply.decode().splitlines()
            ids += [line.partition(":")[2] for line in lines if line.startswith("master_replid:")]
        return " ".join(sorted(ids))

    async def scan(
        self, address: Address, pattern: str, cursor: bytes, count: int, deadline: float | None
    ) -> tuple[list[str], bytes]:
        """Return some keys of one node that match, and where to continue; b"0" is the end."""
        return await self._scan(self._pool_of(address), pattern, cursor, deadline, count)

    def _primaries(self) -> list[Pool]:
        return [self._pool_of(address) for address in self._slots.primaries()]

    async def _ask(
        self, pool: Pool, *commands: Command, deadline: float | None = None
    ) -> list[Any]:
        try:
            return await super()._ask(pool, *commands, deadline=deadline)
        except StoreUnavailable:
            self.doubt(address=pool.address)
            raise

    def _pool_of(self, address: Address) -> Pool:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools.setdefault(address, Pool(self._server, address))
        return pool

    async def _find_anew(self, keys: Sequence[str], deadline: float | None) -> None:
        """Look for the nodes that hold these keys if in doubt. Other calls do not wait."""
        doubted = self._doubted
        if self._sure and (not doubted or doubted.isdisjoint(map(self._slots.primary_of, keys))):
            return
        await self._look_if(
            lambda: not self._sure or not doubted.isdisjoint(map(self._slots.primary_of, keys)),
            deadline,
        )

    async def _look(self, deadline: float | None) -> None:
        """Ask any node who holds what, those that did not answer of late last."""
        failure = StoreUnavailable(f"{self.name}: no node could be asked")
        nodes = dict.fromkeys([*self._slots.primaries(), *self._server.addresses])
        doubted = set(self._doubted)
        for address in sorted(nodes, key=lambda address: address in doubted):
            try:
                pool = self._pool_of(address)
                (reply,) = await self._ask(pool, ("CLUSTER", "SLOTS"), deadline=deadline)
                if isinstance(reply, ReplyError):
                    raise refused(reply, str(address))
            except StoreUnavailable as error:
                failure = error
                continue
            self._sure = self._slots.learn(reply, address)
            if self._sure:
                self._doubted -= doubted
                return
        if not self._slots.primaries():
            raise failure

    def idle(self, request: Keyed) -> tuple[Pool, Connection] | None:
        """Return an idle connection if one node holds all keys, as for most lone callers."""
        if not self._sure:
            return None
        first, *others = request.keys
        address = self._slots.primary_of(first)
        if address is None or address in self._doubted:
            return None
        for key in others:
            if self._slots.primary_of(key) != address:
                return None
        pool = self._pool_of(address)
        connection = pool.idle()
        return None if connection is None else (pool, connection)

    async def trip(self, steps: Sequence[PipelineStep], deadline: float | None = None) -> Answers:
        """The replies to every step, from all nodes that hold their keys."""
        world, trip, left = self._server.world, Redirections(steps), REDIRECTIONS
        end = world.monotonic() + TAKING_OVER
        end = end if deadline is None else min(end, deadline - MARGIN)
        while left:
            try:
                await self._find_anew(trip.keys, deadline)
                shares = await self._shares(trip, deadline)
                if trip.is_late(world.monotonic()):
                    _give_back(shares)
                    left -= 1
                    continue
                await self._deliver(shares, deadline)
                for share in shares:
                    if share.pipeline.wrote:
                        share.pipeline.check_wait(str(share.pool.address))
                await self._redirect(trip, shares, deadline)
            except StoreUnavailable as error:
                if trip.wrote:
                    error.applied = "unknown"
                raise
            if not trip.going:
                break
            if trip.is_down:
                if world.monotonic() + TRYING >= end:
                    break
                trip.is_down = False
                await world.pause(TRYING)
                continue
            left -= 1
            if trip.is_restless() and left:
                await world.pause(TRYING)
        if trip.errors:
            failure = failure_of(steps, trip.errors, self.name, cluster=True)
            if isinstance(failure, StoreUnavailable):
                for number in trip.errors:
                    self.doubt(address=self._slots.primary_of(steps[number].key))
            raise failure
        return Answers(trip.answers, trip.unreplicated)

    async def _redirect(
        self, trip: Redirections, shares: Sequence[Share], deadline: float | None
    ) -> None:
        """Find the steps to send again, and their nodes."""
        refused = []
        for share in shares:
            address = share.pool.address
            numbers = trip.take(share.numbers, share.pipeline, address, self._slots)
            refused += [(number, address) for number in numbers]
        trip.sent_to, trip.sent_at = {}, self._server.world.monotonic()
        for number, source in refused:
            refusal = trip.errors[number]
            to = await self._handed_over(trip.steps[number], refusal, source, deadline)
            if to is not None:
                trip.sent_to[number] = to

    async def _handed_over(
        self, step: PipelineStep, reply: Any, source: Address, deadline: float | None
    ) -> Address | None:
        """Return the node to ask for a step that was refused because its slot is handed over.

        All keys of the step are there then. None: the slot is not handed over any more.
        """
        pool, server = self._pool_of(source), self._server
        try:
            if code_of(reply) != "ASK":  # only ASK names the other node
                (reply,) = await self._ask(pool, probe(step), deadline=deadline)
            to = self._slots.named_in(reply, source)
            if to is None or len(keys_of_step(step)) == 1:
                return to
            login = None
            if server.login is not None:
                login = await server.world.offload(server.login)  # async only
                # sync only: login = server.login()
            (reply,) = await self._ask(pool, move(step, to, server, login), deadline=deadline)
            if is_there_already(reply) and await self._is_left_over(step, pool, to, deadline):
                again = move(step, to, server, login, replace=True)
                (reply,) = await self._ask(pool, again, deadline=deadline)
        except StoreUnavailable as error:
            error.applied = "no"  # the step was not asked for
            raise
        if not isinstance(reply, ReplyError):
            return to
        if code_of(reply) == "MOVED":
            return self._slots.named_in(reply, source)
        raise not_moved(reply, source, to)

    async def _is_left_over(
        self, step: PipelineStep, pool: Pool, to: Address, deadline: float | None
    ) -> bool:
        """Return whether the keys at the new node are only left over from an interrupted move."""
        began = ("HGET", step.key, "created")
        (here,) = await self._ask(pool, began, deadline=deadline)
        _, there = await self._ask(self._pool_of(to), ASKING, began, deadline=deadline)
        return not isinstance(here, bytes) or not isinstance(there, bytes) or here == there

    async def _shares(self, trip: Redirections, deadline: float | None) -> list[Share]:
        """Divide the trip by node. Nothing is sent unless all nodes can be reached."""
        by_node: dict[Address, list[int]] = {}
        for number in trip.going:
            address = trip.sent_to.get(number) or self._slots.primary_of(trip.steps[number].key)
            if address is None:
                self.doubt()
                raise StoreUnavailable(f"{self.name}: a slot is served by no node", applied="no")
            by_node.setdefault(address, []).append(number)
        shares: list[Share] = []
        try:
            for address in sorted(by_node):  # in one order: so nobody waits for each other
                numbers = by_node[address]
                some = [
                    alone(trip.steps[n], self._forms) if n in trip.sent_to else trip.steps[n]
                    for n in numbers
                ]
                pool = self._pool_of(address)
                pipeline = Pipeline(some, self._server, pool.replica_wait, deadline)
                shares.append(Share(numbers, pipeline, pool, await self._lent(pool, deadline)))
        except BaseException:
            _give_back(shares)
            raise
        return shares

    async def _lent(self, pool: Pool, deadline: float | None) -> Connection:
        try:
            return await pool.borrow(deadline)
        except StoreUnavailable as error:
            self.doubt(error, pool.address)
            raise

    async def _deliver(self, shares: Sequence[Share], deadline: float | None) -> None:
        """Send all, then wait for all: the nodes work at the same time."""
        failure: StoreUnavailable | None = None
        requests = []
        try:
            for share in shares:
                try:
                    pipeline = share.pipeline
                    share.connection.send(pipeline.packed, pipeline.replies, deadline)
                    requests.append(share)
                except StoreUnavailable as error:
                    self.doubt(error, share.pool.address)
                    failure = error
            for share in requests:
                try:
                    pipeline = share.pipeline
                    if not pipeline.take(await share.connection.answer()):
                        await self._repeat(share.connection, pipeline, share.pool, deadline)
                except StoreUnavailable as error:
                    self.doubt(error, share.pool.address)
                    failure = error
        finally:
            _give_back(shares)
        if failure is not None:
            if len(shares) > 1:
                failure.applied = "unknown"
            raise failure

    # async only: begin
    async def _others(self, asked: Address) -> list[Address]:
        """Return the addresses of all nodes, primaries and replicas."""
        (slots,) = await ask_once(self._server, asked, ("CLUSTER", "SLOTS"))
        return [node_address(node, asked) for _, _, *nodes in slots for node in nodes]

    # async only: end


def _give_back(shares: Sequence[Share]) -> None:
    for share in shares:
        share.pool.give_back(share.connection)
