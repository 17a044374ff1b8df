"""A service somewhere else as an engine: one round trip a batch, the operations as they are.

The exchange belongs to the engine: a caller that is cancelled stops waiting, and what it asked for
is carried to its end all the same. What is tried again is harmless: a commit carries its op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from stateward.engine import Capabilities, Description, SyncEngine
from stateward.engines.http.answer import Answer
from stateward.engines.http.connection import Connection
from stateward.engines.http.failures import Silent, Unanswered
from stateward.engines.http.settings import TRUSTED, Endpoint, parse_service
from stateward.engines.own_tasks import OwnTasks
from stateward.engines.url import EngineURL
from stateward.errors import SchemaError, StoreUnavailable
from stateward.ops import Entity, Op, Outcome
from stateward.wire import (
    EXECUTE,
    FACTS,
    JSON,
    MSGPACK,
    OUTCOMES,
    STORE,
    WAIT,
    WIRE,
    Body,
    ExecuteBody,
    Format,
    StoreFacts,
    WaitBody,
    encode,
    failure_of,
)
from stateward.world import World

T = TypeVar("T")
IDLE = 16  # connections that are kept for later

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    native_notify=True,
    parallel_batches=2,
    batch=100,
    networked=True,
    replicates=True,  # perhaps: the service answers as its store does
    system="stateward",
)


class HttpEngine:
    """The contract by way of a service."""

    def __init__(self, service: Endpoint) -> None:
        self.capabilities = CAPABILITIES
        self._service = service
        self._is_open = False
        self._idle: list[Connection] = []  # the last used on top
        self._waiting: set[Connection] = set()
        self._tasks = OwnTasks()  # async only

    async def open(self) -> None:
        facts = await self._facts()
        if facts.wire != WIRE:
            raise SchemaError(
                f"{self._service.name} speaks version {facts.wire} of the service's language, and "
                f"this release {WIRE}: bring the older of the two up to date"
            )
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        await self._tasks.finish()  # async only
        for waiting in list(self._waiting):
            waiting.drop()
        while self._idle:
            await self._idle.pop().close()

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if not ops:
            return []
        within = None if deadline is None else max(0.0, self._service.left(deadline))
        body = encode(ExecuteBody(tuple(ops), within))
        end = self._service.deadline(deadline)
        answer = await self._tasks.run(self._ask(f"POST {EXECUTE}", body, end))  # async only
        # sync only: answer = self._ask(f"POST {EXECUTE}", body, end)
        return self._decoded(answer, OUTCOMES)

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Wait until the service answers, which it does on a change, or earlier."""
        body = encode(WaitBody(tuple(cursors.items()), timeout))
        end = self._service.world.monotonic() + timeout + self._service.timeout
        connection = await self._connected(end)
        self._waiting.add(connection)
        try:
            answer = await connection.ask(f"POST {WAIT}", body, end)
        except StoreUnavailable:
            if self._is_open:
                raise
            return
        finally:
            self._waiting.discard(connection)
            connection.drop()
        if answer.status != 204:
            raise failure_of(answer.status, answer.body, self._service.name)

    async def migrate(self) -> Sequence[str]:
        """Do nothing: the service migrates its own store."""
        return ()

    async def describe(self) -> Description:
        return (await self._facts()).description

    def sibling(self) -> SyncEngine:
        from stateward.sync.engines.http.engine import HttpEngine as Sibling

        return Sibling(self._service)

    # async only: begin
    async def addresses(self) -> Sequence[tuple[str, int]]:
        return [(self._service.host, self._service.port)]

    def through(self, url: str, ports: Sequence[int]) -> str:
        return url

    # async only: end

    # --- exchanges ------------------------------------------------------------------

    async def _facts(self) -> StoreFacts:
        end = self._service.deadline(None)
        nothing = Body(b"", MSGPACK)
        answer = await self._tasks.run(self._ask(f"GET {STORE}", nothing, end))  # async only
        # sync only: answer = self._ask(f"GET {STORE}", nothing, end)
        return self._decoded(answer, FACTS)

    async def _ask(self, what: str, body: Body, deadline: float) -> Answer:
        """Exchange one request; repeat for each idle connection that turns out to be closed.

        One that is silent costs a short try: the others that were idle for as long are not tried.
        """
        service = self._service
        is_retry = False
        while True:
            reused = self._top()
            try:
                connection = reused or await self._connected(deadline)
            except StoreUnavailable as error:
                if is_retry:
                    error.applied = "unknown"  # an earlier request may have arrived
                raise
            end = deadline
            if reused is not None:
                end = service.first_try(reused.idle_since, deadline)
            try:
                answer = await connection.ask(what, body, end)
            except BaseException as error:
                connection.drop()
                is_retry = reused is not None and isinstance(error, Unanswered)
                if not is_retry or service.left(deadline) <= 0:
                    raise
                if isinstance(error, Silent):
                    self._drop_idle(connection.idle_since)
                continue
            if answer.status == 401 and reused is not None and self._service.login is not None:
                connection.drop()  # expired credentials: a new connection asks for others
                continue
            if answer.last or not self._is_open or len(self._idle) >= IDLE:
                connection.drop()
            else:
                connection.idle_since = service.world.monotonic()
                self._idle.append(connection)
            return answer._replace(tried=is_retry)

    def _drop_idle(self, since: float) -> None:
        """Drop the connections that have been idle for as long."""
        for connection in [each for each in self._idle if each.idle_since <= since + TRUSTED]:
            with suppress(ValueError):  # another thread was faster
                self._idle.remove(connection)
                connection.drop()

    def _top(self) -> Connection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not connection.is_stale():
                return connection
            connection.drop()
        return None

    async def _connected(self, deadline: float) -> Connection:
        connection = Connection(self._service)
        try:
            await connection.connect(deadline)
        except BaseException:
            connection.drop()
            raise
        return connection

    def _decoded(self, answer: Answer, format: Format[T]) -> T:
        if answer.status != 200:
            failure = failure_of(answer.status, answer.body, self._service.name)
            if answer.tried and isinstance(failure, StoreUnavailable):
                failure.applied = "unknown"
            raise failure
        try:
            return format.decode(answer.body, JSON if answer.kind == JSON.encode() else MSGPACK)
        except msgspec.DecodeError as error:
            raise StoreUnavailable(
                f"{self._service.name} answered what is not understood: is it a Stateward service, "
                "and of this release?",
                applied="unknown",
            ) from error


def create(url: EngineURL, world: World) -> HttpEngine:
    """Create the engine for https://KEY@host or local http://; `settings.py` has the options."""
    return HttpEngine(parse_service(url, world))
