"""Where to send what: one server, the primary that sentinels name, or a cluster's nodes."""

from __future__ import annotations

import asyncio

# sync only: import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from hiredis import ReplyError

from stateward.engines.redis.batch import BLOCK, Pipeline, failure_of
from stateward.engines.redis.client.cluster import Topology
from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.pool import Pool
from stateward.engines.redis.commit import Command
from stateward.engines.redis.failures import code_of, refused
from stateward.engines.redis.scripts import ALL
from stateward.engines.redis.settings import Address, Server
from stateward.engines.redis.steps import PlanStep
from stateward.errors import StoreUnavailable

TRIES = 5  # to give a server its scripts, while somebody makes it forget them
LOAD: list[Command] = [("SCRIPT", "LOAD", script.text) for script in ALL]
REDIRECTIONS = 8  # times that a step may be sent elsewhere before it is given up
TRYING = 0.05  # seconds before a step is tried again that the cluster is about to move
DEMOTED = ("READONLY", "MASTERDOWN", "LOADING", "UNBLOCKED")


class Request(Protocol):
    """What is asked in one round."""

    @property
    def keys(self) -> list[str]: ...


class OneServer:
    """One server. Also what the others are made of."""

    _block = BLOCK

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pool = Pool(server, server.addresses[0])

    @property
    def name(self) -> str:
        return str(self._pool.address)

    async def open(self) -> None:
        """Nothing to find out: the first connection is made when it is needed."""
        self._pool = Pool(self._server, self._pool.address)

    async def close(self) -> None:
        await self._pool.close()

    async def address(self) -> Address:
        """A server that can be listened to."""
        return self._pool.address

    def idle(self, request: Request) -> tuple[Pool, Connection] | None:
        """A connection for all that is asked, if one waits."""
        link = self._pool.idle()
        return None if link is None else (self._pool, link)

    def round(self, steps: Sequence[PlanStep]) -> Pipeline:
        return Pipeline(steps, self._server.wait_replicas, self._server.timeout, self._block)

    async def trip(self, steps: Sequence[PlanStep]) -> list[list[Any]]:
        """The replies to every step, from one pipeline on one connection."""
        pool = self._pool
        link = await pool.borrow()
        try:
            trip = self.round(steps)
            if not trip.take(await link.trip(trip.commands)):
                await self.repeat(link, trip)
        finally:
            pool.give_back(link)
        self.check(trip)
        return trip.answers

    async def repeat(self, link: Connection, trip: Pipeline) -> None:
        """A server that was restarted, or told SCRIPT FLUSH, is given its scripts again."""
        for _ in range(TRIES):  # it may be told so again at any moment
            numbers = trip.forgotten()
            if not numbers:
                return
            again = self.round([trip.steps[number] for number in numbers])
            replies = await link.trip([*LOAD, *again.commands])
            again.take(replies[len(LOAD) :])
            trip.replace(numbers, again)

    def elsewhere(self, trip: Pipeline) -> Sequence[int]:
        """The numbers of the steps that another server must be asked for."""
        return ()

    def check(self, trip: Pipeline) -> None:
        """Raise if anything failed."""
        if trip.may_have_failed:
            trip.check(self.name)

    def doubt(self) -> None:
        """A round trip failed: perhaps it went to the wrong place."""

    async def ask_each(self, *commands: Command) -> list[list[Any]]:
        """The replies of every primary there is."""
        return [await self.ask(*commands)]

    async def ask(self, *commands: Command) -> list[Any]:
        """The replies to a few commands of our own."""
        pool = self._pool
        link = await pool.borrow()
        try:
            return await link.trip(commands)
        finally:
            pool.give_back(link)


class SentinelServer(OneServer):
    """The primary of a service, wherever the sentinels say that it is now."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._sure = False
        self._finding = asyncio.Lock()

    async def open(self) -> None:
        await super().open()
        self._finding = asyncio.Lock()  # of the event loop that uses it from now on
        await self._find()

    def doubt(self) -> None:
        self._sure = False

    async def address(self) -> Address:
        await self._find()
        return self._pool.address

    def idle(self, request: Request) -> tuple[Pool, Connection] | None:
        return super().idle(request) if self._sure else None

    async def trip(self, steps: Sequence[PlanStep]) -> list[list[Any]]:
        await self._find()
        try:
            return await super().trip(steps)
        except StoreUnavailable:
            self._sure = False  # perhaps another one is the primary now
            raise

    def check(self, trip: Pipeline) -> None:
        if any(code_of(error) in DEMOTED for error in trip.errors.values()):
            self._sure = False
        super().check(trip)

    async def ask(self, *commands: Command) -> list[Any]:
        await self._find()
        return await super().ask(*commands)

    async def _find(self) -> None:
        """Ask the sentinels who the primary is, if there is a doubt."""
        if self._sure:
            return
        async with self._finding:
            if self._sure:
                return
            failure: StoreUnavailable | None = None
            for sentinel in self._server.addresses:
                try:
                    address = await self._ask_sentinel(sentinel)
                except StoreUnavailable as error:
                    failure = error
                    continue
                if address != self._pool.address:
                    old, self._pool = self._pool, Pool(self._server, address)
                    await old.close()
                self._sure = True
                return
            assert failure is not None
            raise failure

    async def _ask_sentinel(self, sentinel: Address) -> Address:
        link = Connection(self._server.without_login(), sentinel)
        await link.connect()
        try:
            service = self._server.service
            (reply,) = await link.trip([("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)])
        finally:
            await link.close()
        if isinstance(reply, ReplyError):
            raise refused(reply, str(sentinel))
        if reply is None:
            raise StoreUnavailable(f"the sentinel {sentinel} knows no primary called {service!r}")
        return Address(reply[0].decode(), int(reply[1]))


class Share(NamedTuple):
    """Steps for one node: their numbers, and the connection that carries them."""

    numbers: list[int]
    trip: Pipeline
    pool: Pool
    link: Connection


class ClusterServers(OneServer):
    """The nodes of a cluster: one pipeline for each that is concerned, all at once."""

    _block = 1  # a transaction holds keys of one slot

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._topology = Topology()
        self._pools: dict[Address, Pool] = {}
        self._sure = False
        self._finding = asyncio.Lock()

    @property
    def name(self) -> str:
        return f"redis+cluster://{self._server.addresses[0].host}"

    async def open(self) -> None:
        self._finding = asyncio.Lock()  # of the event loop that uses it from now on
        await self._find()

    def doubt(self) -> None:
        self._sure = False

    async def close(self) -> None:
        for pool in list(self._pools.values()):
            await pool.close()
        self._pools.clear()

    async def address(self) -> Address:
        await self._find()
        return self._topology.primaries()[0]

    async def ask_each(self, *commands: Command) -> list[list[Any]]:
        await self._find()
        return [await self._ask_node(node, *commands) for node in self._topology.primaries()]

    def idle(self, request: Request) -> tuple[Pool, Connection] | None:
        """Only if one node holds all of it: a lone caller's everyday."""
        if not self._sure:
            return None
        first, *others = request.keys
        address = self._topology.primary_of(first)
        if address is None:
            return None
        for key in others:
            if self._topology.primary_of(key) != address:
                return None
        pool = self._pool_of(address)
        link = pool.idle()
        return None if link is None else (pool, link)

    async def trip(self, steps: Sequence[PlanStep]) -> list[list[Any]]:
        answers: list[list[Any]] = [[] for _ in steps]
        errors: dict[int, ReplyError] = {}
        sent_to: dict[int, Address] = {}  # where the cluster wants a step to be sent, this once
        going = list(range(len(steps)))
        parcels: list[Share] = []
        for _ in range(REDIRECTIONS):
            await self._find()
            parcels = await self._parcels(going, steps, sent_to)
            await self._deliver(parcels)
            going = []
            sent_to = {}
            for parcel in parcels:
                for place, number in enumerate(parcel.numbers):
                    errors.pop(number, None)
                    answers[number] = parcel.trip.answers[place]
                    if place not in parcel.trip.errors:
                        continue
                    errors[number] = error = parcel.trip.errors[place]
                    if self._is_elsewhere(error, parcel.pool.address, number, sent_to):
                        going.append(number)
            if not going:
                break
            if any(code_of(errors[number]) == "TRYAGAIN" for number in going):
                await self._server.world.pause(TRYING)
        if errors:
            self._sure = False
            raise failure_of(steps, errors, self.name)
        for parcel in parcels:
            parcel.trip.check(str(parcel.pool.address))
        return answers

    def _is_elsewhere(
        self, error: ReplyError, asked: Address, number: int, sent_to: dict[int, Address]
    ) -> bool:
        """Whether the step is worth sending again, because it belongs to another node."""
        code = code_of(error)
        if code in ("MOVED", "ASK"):
            address = self._topology.move(str(error), asked)
            if code == "ASK":
                sent_to[number] = address
            return True
        return code == "TRYAGAIN"

    async def _parcels(
        self, going: Sequence[int], steps: Sequence[PlanStep], sent_to: dict[int, Address]
    ) -> list[Share]:
        """One for each node. Nothing is sent unless all nodes can be reached."""
        by_node: dict[Address, list[int]] = {}
        for number in going:
            address = sent_to.get(number) or self._topology.primary_of(steps[number].key)
            if address is None:
                self._sure = False
                raise StoreUnavailable(f"{self.name}: a slot is served by no node", applied="no")
            by_node.setdefault(address, []).append(number)
        parcels: list[Share] = []
        try:
            for address in sorted(by_node):  # in one order: so nobody waits for each other
                numbers = by_node[address]
                pool = self._pool_of(address)
                some = [steps[n]._replace(asking=n in sent_to) for n in numbers]
                parcels.append(Share(numbers, self.round(some), pool, await pool.borrow()))
        except BaseException:
            self._sure = False
            for parcel in parcels:
                parcel.pool.give_back(parcel.link)
            raise
        return parcels

    async def _deliver(self, parcels: Sequence[Share]) -> None:
        """Send all, then wait for all: the nodes work at the same time."""
        failure: StoreUnavailable | None = None
        sent = []
        try:
            for parcel in parcels:
                try:
                    parcel.link.send(parcel.trip.commands)
                    sent.append(parcel)
                except StoreUnavailable as error:
                    failure = error
            for parcel in sent:
                try:
                    if not parcel.trip.take(await parcel.link.answer()):
                        await self.repeat(parcel.link, parcel.trip)
                except StoreUnavailable as error:
                    failure = error
        finally:
            for parcel in parcels:
                parcel.pool.give_back(parcel.link)
        if failure is not None:
            self._sure = False
            if len(parcels) > 1:
                failure.applied = "unknown"
            raise failure

    def elsewhere(self, trip: Pipeline) -> Sequence[int]:
        return trip.elsewhere()

    def check(self, trip: Pipeline) -> None:
        if trip.errors:
            self._sure = False
        super().check(trip)

    async def ask(self, *commands: Command) -> list[Any]:
        """Of any node."""
        return await self._ask_node(await self.address(), *commands)

    async def _ask_node(self, address: Address, *commands: Command) -> list[Any]:
        pool = self._pool_of(address)
        try:
            link = await pool.borrow()
        except StoreUnavailable:
            self._sure = False
            raise
        try:
            return await link.trip(commands)
        finally:
            pool.give_back(link)

    def _pool_of(self, address: Address) -> Pool:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools.setdefault(address, Pool(self._server, address))
        return pool

    async def _find(self) -> None:
        """Ask any node who holds what, if there is a doubt."""
        if self._sure:
            return
        async with self._finding:
            if self._sure:
                return
            failure = StoreUnavailable(f"{self.name}: no node could be asked")
            for address in dict.fromkeys([*self._topology.primaries(), *self._server.addresses]):
                try:
                    if await self._learn_from(address):
                        return
                except StoreUnavailable as error:
                    failure = error
            if not self._topology.primaries():
                raise failure

    async def _learn_from(self, address: Address) -> bool:
        (reply,) = await self._ask_node(address, ("CLUSTER", "SLOTS"))
        if isinstance(reply, ReplyError):
            raise refused(reply, str(address))
        self._sure = self._topology.learn(reply, address)
        return self._sure
