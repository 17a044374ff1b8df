"""Plans: code for async and blocking callers, written once and carried out in either colour.

Some frameworks call the same object both with and without `await`. A `Plan` is a generator that
yields batches of operations and is sent their outcomes. `Bridge` carries plans out, on the event
loop through the store it was given, and for blocking callers through a blocking twin of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec.structs import replace

import stateward
from stateward import sync
from stateward.codec import Limits
from stateward.errors import InvalidInput, StatewardError
from stateward.integrations.adapter import AnyStore, OnStore
from stateward.integrations.tool_effects import handle_of
from stateward.integrations.turns import TTL, AgentRun, Turns
from stateward.ops import Commit, Entity, Head, List, Listed, NotDroppedSince, Op, Outcome, SetHead
from stateward.state.handle import Handle
from stateward.state.scope import Scope
from stateward.sync.state.handle import Handle as BlockingHandle
from stateward.sync.state.scope import Scope as BlockingScope
from stateward.world import World

T = TypeVar("T")
S = TypeVar("S", bound="OnBridge")
P = ParamSpec("P")
Plan = Generator[Sequence[Op], list[Outcome], T]

MESSAGES_ONLY = ("redact", "listener", "retain", "shape")  # options of a store that concern no plan
IN_FLIGHT = 64  # plans in flight; more plans would only wait for each other
CLOCK = 1e-6  # seconds, the finest step of any engine's clock


class Bridge:
    """A store for async and blocking callers. A bridge does no I/O before its first plan.

    Blocking callers get a store that `blocking` makes or, without it, a sibling of this one.
    """

    def __init__(self, store: AnyStore, blocking: Callable[[], sync.Store] | None = None) -> None:
        if not isinstance(store, stateward.Store | sync.Store):
            raise InvalidInput(
                "this takes an open store, e.g. stateward.open('sqlite:///agents.db'); with a URL "
                f"use from_url(...), not {type(store).__name__}"
            )
        self._lock = threading.Lock()
        self._twin: sync.Store | None = None  # for blocking callers, made at its first use
        self._make_twin = blocking or self._sibling
        self._turns = asyncio.Semaphore(IN_FLIGHT)
        self._store = store
        scope = store.sections["workflows"]
        self._async = scope if isinstance(scope, Scope) else None
        self._blocking = scope if isinstance(scope, BlockingScope) else None
        self.awaits = self._async is not None  # None: plans are carried out on threads
        self.namespace: str = scope.namespace
        self.limits: Limits = scope.limits
        self.retention: float | None = store.retention
        self.world: World = scope.world
        self.turns = Turns.of(scope)

    @classmethod
    def at(cls, url: str | None, options: Mapping[str, Any]) -> Self:
        """Open a bridge with its own store at a URL, async or blocking."""
        if idle := sorted(name for name in MESSAGES_ONLY if options.get(name) is not None):
            raise InvalidInput(
                f"{', '.join(idle)}: for messages of threads; it would have no effect here. Leave "
                "it out, and change what is to be stored before it gets here"
            )
        store = stateward.open(url, **options)
        if not store.sections["workflows"].capabilities.durable:
            return cls(store)  # a twin would be another store in memory
        alone = {**options, "heartbeat": None}  # one heartbeat for each process is enough
        return cls(store, lambda: sync.open(url, **alone))

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out, blocking."""
        scope = self._blocking or self._blocking_scope()
        try:
            ops = next(plan)
            while True:
                ops = plan.send(scope.execute(ops))
        except StopIteration as done:
            result: T = done.value
            return result

    async def arun(self, plan: Plan[T]) -> T:
        """Carry a plan out on the event loop; on a thread if the store is a blocking one."""
        scope = self._async
        if scope is None:
            return await asyncio.to_thread(self.run, plan)
        async with self._turns:  # waiting for a turn must not count as waiting for the store
            try:
                ops = next(plan)
                while True:
                    ops = plan.send(await scope.execute(ops))
            except StopIteration as done:
                result: T = done.value
                return result

    def wait_for_turn(
        self, entity: Entity, owner: str | None, run: AgentRun, wait: float | None
    ) -> None:
        """Take the turn of a conversation when no one has it; `LeaseHeld` after `wait` seconds."""
        scope = self._blocking or self._blocking_scope()
        granted = scope.leases.acquire(entity, ttl=TTL, wait=wait, owner=owner)
        self.turns.taken(entity, run, *granted)

    async def await_turn(
        self, entity: Entity, owner: str | None, run: AgentRun, wait: float | None
    ) -> None:
        """`wait_for_turn` on the event loop."""
        if self._async is None:
            await asyncio.to_thread(self.wait_for_turn, entity, owner, run, wait)
            return
        granted = await self._async.leases.acquire(entity, ttl=TTL, wait=wait, owner=owner)
        self.turns.taken(entity, run, *granted)

    def handle(self, entity: Entity) -> Handle | BlockingHandle:
        """Return a handle of an entity of any user for the event loop; blocking if the store is."""
        scope = self._async or self._blocking_scope()
        return handle_of(scope, entity, None, self.retention)

    def blocking_handle(self, entity: Entity) -> BlockingHandle:
        """Return a handle of an entity of any user for blocking callers."""
        return BlockingHandle(
            self._blocking or self._blocking_scope(), entity, None, self.retention
        )

    def _blocking_scope(self) -> BlockingScope:
        """Return a scope with its own connections to the engine, usable from any thread."""
        with self._lock:
            if self._blocking is None:
                self._twin = self._make_twin()
                self._blocking = self._twin.sections["workflows"]
            return self._blocking

    def _sibling(self) -> sync.Store:
        """Return a blocking store beside the caller's, which has migrated the schema already."""
        assert self._async is not None
        if self._async.stack.replica is not None:
            raise InvalidInput(
                "blocking calls need a blocking store here, because its state is divided among "
                "replicas: open it with stateward.sync.open(..., replica=…)"
            )
        return sync.Store(
            self._async.stack.engine.sibling(),
            namespace=self.namespace,
            policy=self._async.stack.policy,
            limits=self.limits,
            spill=False,
            heartbeat=None,  # the caller's store has its own heartbeat
            world=self.world,
        )

    def close(self, *, whole: bool) -> None:
        """Close the blocking twin; with `whole` also a blocking store itself."""
        if self._twin is not None:
            self._twin.close()
        if whole and isinstance(self._store, sync.Store):
            self._store.close()

    async def aclose(self, *, whole: bool) -> None:
        """Close the blocking twin on the event loop; with `whole` also the store itself."""
        await asyncio.to_thread(self.close, whole=whole)
        if whole and isinstance(self._store, stateward.Store):
            await self._store.close()


def pages(*listings: List) -> Plan[list[list[Listed]]]:
    """Fetch every page of several listings, all listings concurrently."""
    listed: list[list[Listed]] = [[] for _ in listings]
    open_ = dict(enumerate(listings))
    while open_:
        outcomes = yield tuple(open_.values())
        for (index, listing), page in zip(list(open_.items()), outcomes, strict=True):
            assert isinstance(page, Listed)
            listed[index].append(page)
            if page.next is None:
                del open_[index]
            else:
                open_[index] = replace(listing, after=page.next)
    return listed


def together(plans: Sequence[Plan[T]]) -> Plan[list[T | StatewardError]]:
    """Carry out plans concurrently in joint batches; return each result or its refusal."""
    results: dict[int, T | StatewardError] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(plans)))  # None starts a plan
    while answers:
        requests: dict[int, Sequence[Op]] = {}
        for at, answer in answers.items():
            try:
                requests[at] = plans[at].send(answer)
            except StopIteration as done:
                results[at] = done.value
            except StatewardError as refusal:
                results[at] = refusal
        if not requests:
            break
        outcomes = iter((yield [op for ops in requests.values() for op in ops]))
        answers = {at: [next(outcomes) for _ in ops] for at, ops in requests.items()}
    return [results[at] for at in range(len(plans))]


def claims(entity: Entity, head: Head, user: str, op: str) -> Commit | None:
    """Return the commit that gives an entity without an owner to a user; None: it has one."""
    if head.owner:
        return None
    still_there = NotDroppedSince(head.dropped + CLOCK)
    return Commit(entity, op, (SetHead(owner=user),), (still_there,), owner="")


class OnBridge(OnStore):
    """An adapter for an event loop and for blocking code, and a context manager of both."""

    def __init__(self, store: AnyStore | Bridge) -> None:
        self._bridge = store if isinstance(store, Bridge) else Bridge(store)

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return Bridge.at(url, options)

    def close(self) -> None:
        """Close the connections of blocking calls; a store of the caller stays open."""
        self._bridge.close(whole=self._owned)

    async def aclose(self) -> None:
        """Close all connections; a store of the caller stays open."""
        await self._bridge.aclose(whole=self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def in_both_colours(
    plan: Callable[Concatenate[S, P], Plan[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Return a blocking and an async method that carry out the plan of a method."""

    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._bridge.run(plan(self, *args, **kwargs))

    async def arun(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.arun(plan(self, *args, **kwargs))

    for method in (run, arun):
        update_wrapper(method, plan)
    return run, arun
