"""The calls of an engine over HTTP: batches of operations, waits and the store's description."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from stateward.bounds import check_op, check_request
from stateward.engine import Description
from stateward.errors import InvalidInput, NotPermitted, NotReplicated, StoreUnavailable, TooLarge
from stateward.ops import Commit, Entity, Fetched, Op, Outcome
from stateward.server.asker import Asker, executed
from stateward.server.operators import OperatorBatches
from stateward.server.rates import Rates
from stateward.server.reply import Reply
from stateward.store import Store
from stateward.wire import (
    EXECUTE_BODY,
    JSON,
    WAIT_BODY,
    WIRE,
    Body,
    ExecuteBody,
    Format,
    StoreFacts,
    encode,
)
from stateward.world import World

T = TypeVar("T")

AT_ONCE = 100  # operations of a longer batch that the store is asked together
LONGEST_WAIT = 30.0  # seconds that one wait may take


class ServiceCall(NamedTuple):
    """One request that was let in."""

    asker: Asker
    body: Body
    gone: Callable[[], Awaitable[None]]  # returns when the client hangs up


class StoreCalls:
    """The answers to agents, whose own layers stand before the store of the service."""

    def __init__(
        self, store: Store, world: World, rates: Rates, largest_answer: int, stopping: asyncio.Event
    ) -> None:
        self._stack = store.sections["workflows"].stack
        self._world = world
        self._rates = rates
        self._largest_answer = largest_answer  # bytes, of a batch that is executed in parts
        self._stopping = stopping
        self._operators = OperatorBatches(store, world)

    async def execute(self, call: ServiceCall) -> Reply:
        """Execute a batch; a long one in parts, so that others have their turn in between."""
        asked = _decoded(call.body, EXECUTE_BODY)
        check_request(asked)
        self._rates.spend(call.asker, len(asked.ops) - 1)
        if call.asker.user is not None:
            for op in asked.ops:
                check_op(op)
            raise NotPermitted(
                "this key is for one user, and operations are for agents: use the REST API, such "
                "as GET /v1/threads"
            )
        if len(asked.ops) <= AT_ONCE:
            deadline = None if asked.within is None else self._world.monotonic() + asked.within
            outcomes = await self._executed(call.asker, asked.ops, deadline)
        else:
            outcomes = await self._in_parts(call.asker, asked)
        return Reply(200, encode(outcomes, call.body.kind))

    async def _in_parts(self, asker: Asker, asked: ExecuteBody) -> list[Outcome]:
        """Execute a long batch, of which nothing is refused once a part of it is applied."""
        deadline = None if asked.within is None else self._world.monotonic() + asked.within
        parts = [asked.ops[at : at + AT_ONCE] for at in range(0, len(asked.ops), AT_ONCE)]
        for part in parts:
            for op in part:
                asker.permitted(op)
            await asyncio.sleep(0)
        outcomes: list[Outcome] = []
        size, has_written = 0, False
        for part in parts:
            try:
                if size > self._largest_answer:
                    raise TooLarge(
                        f"the answer has more than {self._largest_answer:,} bytes: ask for it in "
                        "several batches"
                    )
                answered = await self._executed(asker, part, deadline)
            except StoreUnavailable as error:
                if has_written:
                    error.applied = "unknown"
                raise
            except Exception as error:
                if has_written:
                    raise StoreUnavailable(str(error), applied="unknown") from error
                raise
            has_written = has_written or any(isinstance(op, Commit) for op in part)
            size += len(encode(answered).data)
            outcomes += answered
        return outcomes

    async def _executed(
        self, asker: Asker, ops: Sequence[Op], deadline: float | None
    ) -> list[Outcome]:
        if asker.is_operator and asker.is_credential:
            for op in ops:
                asker.permitted(op)
            await self._operators.record(asker, ops)
        return await executed(asker, ops, self._confirmed, deadline)

    async def _confirmed(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """Execute a batch; the client's own layers decide about unconfirmed writes."""
        try:
            return await self._stack.execute(ops, deadline)
        except NotReplicated as error:
            return [*error.outcomes]

    async def wait(self, call: ServiceCall) -> Reply:
        """Wait for news of some entities, until the client or the service leaves."""
        asked = _decoded(call.body, WAIT_BODY)
        check_request(asked)
        cursors = dict(asked.cursors)
        questions = call.asker.questions(list(cursors))
        if questions:
            for outcome in await self._stack.execute(questions):
                if not isinstance(outcome, Fetched) or not outcome.head.exists:
                    raise NotPermitted("this key is for one user, and that is another's")
        timeout = min(max(0.0, asked.timeout), LONGEST_WAIT)
        with self._rates.stream(call.asker):
            return await self._waited(cursors, timeout, call)

    async def _waited(
        self, cursors: Mapping[Entity, int], timeout: float, call: ServiceCall
    ) -> Reply:
        ways = [self._stack.wait(cursors, timeout), self._stopping.wait(), call.gone()]
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                await tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return Reply(204)

    async def describe(self, call: ServiceCall) -> Reply:
        """Return the description of the store; to keys of some namespaces without its size."""
        if call.asker.user is not None:
            raise NotPermitted("this key is for one user, and this is about the whole store")
        description = await self._stack.describe()
        if call.asker.namespaces is not None:  # the rest is of other tenants, too
            description = Description(
                description.engine, description.version, description.schema, description.durability
            )
        return Reply(200, encode(StoreFacts(WIRE, description), call.body.kind or JSON))


def _decoded(body: Body, format: Format[T]) -> T:
    try:
        return format.decode(*body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not what this takes: {error}") from error
