"""Round trips to one server, and the search for its successor after a failover."""

from __future__ import annotations

import asyncio  # async only
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hiredis import ReplyError

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.client.pipeline import Answers, Pipeline, PipelineStep
from stateward.engines.redis.client.pool import Pool
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.client.wire import Command, pack
from stateward.engines.redis.failures import Demoted, refused
from stateward.errors import StoreUnavailable

# sync only: from stateward.engines.permits import Permits
# sync only: from stateward.engines.redis.failures import unreachable

TRIES = 5  # to give a server its scripts, while somebody makes it forget them
FORGOTTEN = ("NOSCRIPT",)
SCANNED = 1000  # keys that a server looks at before it does something else


class Keyed(Protocol):
    """A request of one round, with the keys that it names."""

    @property
    def keys(self) -> list[str]: ...


class OneServer:
    """One server. Subclasses for clusters and sentinels differ in how they find the server.

    `scripts` are what a server is given that says that it does not know one.
    """

    def __init__(self, server: Server, scripts: Sequence[str]) -> None:
        self._server = server
        self.name = str(server.addresses[0])  # as shown in errors
        self._pool = Pool(server, server.addresses[0])
        self._load = pack([("SCRIPT", "LOAD", script) for script in scripts])
        self._scripts = len(scripts)
        self._sure = False  # True: the server's address is certain
        self._finding = asyncio.Lock()  # async only
        # sync only: self._finding = Permits(1)

    async def open(self) -> None:
        self._pool = Pool(self._server, self._pool.address)
        # async only: begin
        self._finding = asyncio.Lock()  # for the event loop in use from now on
        # async only: end
        await self._find()

    async def close(self) -> None:
        self.doubt()
        await self._pool.close()

    async def address(self) -> Address:
        """A server that can be listened to."""
        await self._find()
        return self._pool.address

    def node_of(self, key: str) -> Address:
        """The server that has a key, as far as is known."""
        return self._pool.address

    def doubt(self, failure: BaseException | None = None, address: Address | None = None) -> None:
        """Note a failed round trip (to this `address`), as it may have gone to a former primary.

        A server that is no primary any more keeps the connections it has, while new ones to the
        same name or address may lead to the one that took over: so none of the old is used again.
        """
        self._sure = False
        if isinstance(failure, Demoted):
            old, self._pool = self._pool, Pool(self._server, self._pool.address)
            old.retire()

    async def _find(self, deadline: float | None = None) -> None:
        """Ask where it is, if there is a doubt."""
        if not self._sure:
            await self._look_if(lambda: not self._sure, deadline)

    async def _look_if(self, in_doubt: Callable[[], bool], deadline: float | None) -> None:
        """Look for the server in one task at a time; later ones mostly need no look of their own.

        A blocking caller waits for its turn until its own deadline, whatever that of the others.
        """
        # async only: begin
        async with self._finding:
            if in_doubt():
                await self._look(deadline)
        # async only: end
        # sync only: finder = object()
        # sync only: try:
        # sync only:     if not self._finding.take(finder, deadline):
        # sync only:         raise unreachable(TimeoutError("still being looked for"), self.name)
        # sync only:     if in_doubt():
        # sync only:         self._look(deadline)
        # sync only: finally:
        # sync only:     self._finding.lent.discard(finder)
        # sync only:     self._finding.release()

    async def _look(self, deadline: float | None) -> None:
        self._sure = True

    def idle(self, request: Keyed) -> tuple[Pool, Connection] | None:
        """Return a connection for the whole request, if one is idle."""
        if not self._sure:
            return None
        connection = self._pool.idle()
        return None if connection is None else (self._pool, connection)

    async def trip(self, steps: Sequence[PipelineStep], deadline: float | None = None) -> Answers:
        """The replies to every step, from one pipeline on one connection."""
        try:
            await self._find(deadline)
            pool = self._pool
            connection = await pool.borrow(deadline)
            pipeline = Pipeline(steps, self._server, pool.replica_wait, deadline)
            try:
                sent = connection.round_trip(pipeline.packed, pipeline.replies, deadline)
                if not pipeline.take(await sent):
                    await self._repeat(connection, pipeline, pool, deadline)
            finally:
                pool.give_back(connection)
            pipeline.check(self.name)
        except StoreUnavailable as error:
            self.doubt(error)
            raise
        return Answers(pipeline.answers, pipeline.unreplicated)

    async def _repeat(
        self, connection: Connection, pipeline: Pipeline, pool: Pool, deadline: float | None
    ) -> None:
        """Send again, in another form, the steps that the server did not take.

        A server that was restarted or flushed its scripts gets them again; a server that is out of
        memory is read without a transaction.
        """
        for _ in range(TRIES):  # scripts may be flushed again at any moment
            forgotten, unread = pipeline.failed_with(FORGOTTEN), pipeline.unread()
            numbers = forgotten or unread
            if not numbers:
                return
            steps = [pipeline.steps[number] for number in numbers]
            wait = pool.replica_wait
            again = Pipeline(steps, self._server, wait, deadline, full=not forgotten)
            packed, count = again.packed, again.replies
            if forgotten:
                packed, count = self._load + packed, self._scripts + count
            replies = await connection.round_trip(packed, count, deadline)
            again.take(replies[count - again.replies :])
            pipeline.replace(numbers, again)

    async def ask(self, *commands: Command) -> list[Any]:
        """The replies to a few commands that any server can answer."""
        await self._find()
        return await self._ask(self._pool, *commands)

    async def ask_each(self, *commands: Command) -> dict[str, list[Any]]:
        """The replies of every primary there is, by its name."""
        return {self.name: await self.ask(*commands)}

    async def keys_like(self, pattern: str) -> list[str]:
        """The names of keys that match, of every primary. Each is walked in short steps."""
        await self._find()
        keys: set[str] = set()
        for pool in self._primaries():
            names, cursor = await self._scan(pool, pattern, b"0")
            keys.update(names)
            while cursor != b"0":
                names, cursor = await self._scan(pool, pattern, cursor)
                keys.update(names)
        return sorted(keys)

    async def _scan(
        self,
        pool: Pool,
        pattern: str,
        cursor: bytes,
        deadline: float | None = None,
        count: int = SCANNED,
    ) -> tuple[list[str], bytes]:
        """Return some of one server's keys that match, and where to continue; b"0" is the end."""
        asked: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", count)
        (reply,) = await self._ask(pool, asked, deadline=deadline)
        if isinstance(reply, ReplyError):
            raise refused(reply, str(pool.address))
        cursor, names = reply
        return [name.decode() for name in names], cursor

    def _primaries(self) -> list[Pool]:
        """Return the pools of all primaries."""
        return [self._pool]

    async def _ask(
        self, pool: Pool, *commands: Command, deadline: float | None = None
    ) -> list[Any]:
        connection = await pool.borrow(deadline)
        try:
            return await connection.round_trip(pack(commands), len(commands), deadline)
        finally:
            pool.give_back(connection)

    # async only: begin
    async def addresses(self) -> list[Address]:
        """Return the addresses of all servers, the named ones first; none for a local socket.

        Needs no `open`, and leaves no connection behind.
        """
        named = [address for address in self._server.addresses if address.port]
        failure: StoreUnavailable | None = None
        for address in named:
            try:
                return list(dict.fromkeys([*named, *await self._others(address)]))
            except StoreUnavailable as error:
                failure = error
        if failure is not None:
            raise failure
        return []

    async def _others(self, asked: Address) -> list[Address]:
        """Return the servers that this one knows of."""
        return []

    # async only: end


async def ask_once(
    server: Server, address: Address, *commands: Command, deadline: float | None = None
) -> list[Any]:
    """Send a few commands over a new connection, return the replies; raises on an error reply."""
    connection = Connection(server, address)
    await connection.connect(deadline)
    try:
        replies = await connection.round_trip(pack(commands), len(commands), deadline)
    finally:
        await connection.close()
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise refused(reply, str(address)) from reply
    return replies
