"""Between a framework and a store: whose store it is, and in which colour it is asked.

Some frameworks call from an event loop, some from blocking code, and some ask the same object now
with `await` and now without. What must serve both ways is written once as a `Plan`: a generator
that yields batches of operations and is sent their outcomes. `Bridge` carries plans out, on the
event loop through the store it was given, and for blocking callers through a blocking twin of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from inspect import signature
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from msgspec.structs import replace

import stateward
from stateward import sync
from stateward.codec import Limits
from stateward.context.compaction import Compaction, check_compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds
from stateward.errors import InvalidInput, StatewardError
from stateward.integrations.tool_effects import handle_of
from stateward.integrations.turns import TTL, AgentRun, RunTurn, Turns
from stateward.ops import (
    Commit,
    Entity,
    Head,
    List,
    Listed,
    NotDroppedSince,
    Op,
    Outcome,
    SetHead,
)
from stateward.state.handle import Handle
from stateward.state.scope import Scope
from stateward.sync.state.handle import Handle as BlockingHandle
from stateward.sync.state.scope import Scope as BlockingScope
from stateward.world import World

T = TypeVar("T")
S = TypeVar("S", bound="OnBridge")
P = ParamSpec("P")
Plan = Generator[Sequence[Op], list[Outcome], T]
AnyStore = stateward.Store | sync.Store

MESSAGES_ONLY = ("redact", "listener", "retain", "shape")  # options of a store that concern no plan
IN_FLIGHT = 64  # plans in flight: more of them would only wait for each other
CLOCK = 1e-6  # seconds: no engine's clock goes by less


_holds_up: ContextVar[bool] = ContextVar("_holds_up", default=False)  # the caller may be held up


# --- whose store it is ------------------------------------------------------------------


class OnStore:
    """Something of a framework that stands on a store: one that it was given, or its own."""

    _owned = False  # the store was opened here

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return stateward.open(url, **options)

    @classmethod
    def from_url(cls, url: str | None = None, *args: Any, **options: Any) -> Self:
        """Open a store at this URL: close it. Several should share one store.

        `options` are those of this class and of `stateward.open`. Does no I/O.
        """
        of_store = signature(stateward.open).parameters.keys() - signature(cls).parameters.keys()
        store = cls._open(url, {name: options.pop(name) for name in options.keys() & of_store})
        made: Self = cast(Any, cls)(store, *args, **options)
        made._owned = True
        return made


class OnAnyStore(OnStore):
    """Asked from an event loop, over a store of either colour."""

    def __init__(self, store: AnyStore) -> None:
        self._store: Any = store
        self._blocking = not isinstance(store, stateward.Store)

    async def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._owned:
            await self._store.close()

    async def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A blocking store works from any event loop, on a thread each."""
        if self._blocking:
            if _holds_up.get():
                return method(*args, **kwargs)
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)

    def _block(self, call: Coroutine[Any, Any, T]) -> T:
        """Carry a method out that awaits only the store, from blocking code and without a loop."""
        if not self._blocking:
            call.close()
            raise InvalidInput(
                "this was called from blocking code: call it with await (invoke() is ainvoke() "
                "then), or pass a store of stateward.sync.open(url), which serves both"
            )
        before = _holds_up.set(True)
        try:
            call.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            _holds_up.reset(before)
        raise AssertionError("this awaits more than the store")

    async def _wait_for_turn(self, handle: Any, run: AgentRun, wait: float | None) -> bool:
        """Let another run that is in progress come to its end, and take the turn then.

        False: there is none. Raises `LeaseHeld` after `wait` seconds.
        """
        turns = Turns.of(handle.scope)
        if turns.get(handle.entity, run) is not None:
            return False
        head = (await self._call(handle.fetch)).head
        if not turns.is_taken(handle.entity, run, head.lease):
            return False
        lease, asked = await self._call(
            handle.scope.leases.acquire, handle.entity, ttl=TTL, wait=wait, owner=handle.owner
        )
        turns.taken(handle.entity, run, lease, asked)
        return True

    async def _give_turn_back(self, handle: Any, turn: RunTurn) -> None:
        """A run that has failed holds up no one; if the turn was lost, others have it already."""
        Turns.of(handle.scope).end(turn)
        await self._call(handle.commit, (turn.release,))

    async def _each(self, listing: Any) -> AsyncIterator[Any]:
        """What a listing of the store's gives, in either colour."""
        if self._blocking:
            end = object()
            while (each := await self._call(next, listing, end)) is not end:
                yield each
        else:
            async for each in listing:
                yield each


class OnBlockingStore(OnStore):
    """Asked from blocking code, over a blocking store."""

    def __init__(self, store: sync.Store) -> None:
        if not isinstance(store, sync.Store):
            raise InvalidInput(
                "this is called from blocking code: pass a store of stateward.sync.open(url), or "
                f"use from_url(url); this is {type(store).__name__}"
            )
        self._store = store

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return sync.open(url, **options)

    def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._owned:
            self._store.close()


class OnBridge(OnStore):
    """Asked from an event loop and from blocking code; a context of both."""

    def __init__(self, store: AnyStore | Bridge) -> None:
        self._bridge = store if isinstance(store, Bridge) else Bridge(store)

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return Bridge.at(url, options)

    def close(self) -> None:
        """Let go of what blocking calls have used; a store that was passed in stays open."""
        self._bridge.close(whole=self._owned)

    async def aclose(self) -> None:
        """Let go of everything; a store that was passed in stays open."""
        await self._bridge.aclose(whole=self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


# --- what a conversation is made with ---------------------------------------------------


def window_options(
    last: int | None,
    turns: int | None,
    max_tokens: int | None,
    count: Count | None,
    summarize: Compaction | None,
) -> dict[str, Any]:
    """What `Thread.load` is told of the window that a run gets to see; checked now, not then."""
    Bounds.of(last, turns, max_tokens, count, "raise")
    check_compaction(summarize, None, None)
    return {
        "last": last,
        "turns": turns,
        "max_tokens": max_tokens,
        "count": count,
        "summarize": summarize,
    }


def check_conflict(conflict: str) -> str:
    """What happens to a run behind which someone else has written."""
    if conflict not in ("raise", "append"):
        raise InvalidInput(f'conflict= is "raise" or "append", not {conflict!r}')
    return conflict


# --- plans ------------------------------------------------------------------------------


class Bridge:
    """A store for async and blocking callers. Does no I/O before its first plan.

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
        self.awaits = self._async is not None  # else plans are carried out on threads
        self.namespace: str = scope.namespace
        self.limits: Limits = scope.limits
        self.retention: float | None = store.retention
        self.world: World = scope.world
        self.turns = Turns.of(scope)

    @classmethod
    def at(cls, url: str | None, options: Mapping[str, Any]) -> Self:
        """Its own store at a URL, async or blocking as asked for."""
        if idle := sorted(name for name in MESSAGES_ONLY if options.get(name) is not None):
            raise InvalidInput(
                f"{', '.join(idle)}: for messages of threads; it would have no effect here. Leave "
                "it out, and change what is to be stored before it gets here"
            )
        store = stateward.open(url, **options)
        if not store.sections["workflows"].capabilities.durable:
            return cls(store)  # it lives in this process: a second one would be another
        alone = {**options, "heartbeat": None}  # one of this process is enough
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
        async with self._turns:  # who waits for a turn is not waiting for the store
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
        """The same on the event loop."""
        if self._async is None:
            await asyncio.to_thread(self.wait_for_turn, entity, owner, run, wait)
            return
        granted = await self._async.leases.acquire(entity, ttl=TTL, wait=wait, owner=owner)
        self.turns.taken(entity, run, *granted)

    def handle(self, entity: Entity) -> Handle | BlockingHandle:
        """An entity, whoever's it is, for the event loop; blocking if the store is."""
        scope = self._async or self._blocking_scope()
        return handle_of(scope, entity, None, self.retention)

    def blocking_handle(self, entity: Entity) -> BlockingHandle:
        """The same for blocking callers."""
        return BlockingHandle(
            self._blocking or self._blocking_scope(), entity, None, self.retention
        )

    def _blocking_scope(self) -> BlockingScope:
        """The same engine with its own connections: any thread may wait for it."""
        with self._lock:
            if self._blocking is None:
                self._twin = self._make_twin()
                self._blocking = self._twin.sections["workflows"]
            return self._blocking

    def _sibling(self) -> sync.Store:
        """Over a store that was passed in. It brings no schema up to date: that one has."""
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
            heartbeat=None,  # the store that was passed in has its own
            world=self.world,
        )

    def close(self, *, whole: bool) -> None:
        """Let go of the blocking twin; with `whole` also of a blocking store itself."""
        if self._twin is not None:
            self._twin.close()
        if whole and isinstance(self._store, sync.Store):
            self._store.close()

    async def aclose(self, *, whole: bool) -> None:
        """The same on the event loop; with `whole` also of an async store."""
        await asyncio.to_thread(self.close, whole=whole)
        if whole and isinstance(self._store, stateward.Store):
            await self._store.close()


def pages(*listings: List) -> Plan[list[list[Listed]]]:
    """Every page of several listings, all listings concurrently."""
    found: list[list[Listed]] = [[] for _ in listings]
    open_ = dict(enumerate(listings))
    while open_:
        outcomes = yield tuple(open_.values())
        for (index, listing), page in zip(list(open_.items()), outcomes, strict=True):
            assert isinstance(page, Listed)
            found[index].append(page)
            if page.next is None:
                del open_[index]
            else:
                open_[index] = replace(listing, after=page.next)
    return found


def together(plans: Sequence[Plan[T]]) -> Plan[list[T | StatewardError]]:
    """Several plans concurrently: what each asks for next is one batch. A refused one gives why."""
    results: dict[int, T | StatewardError] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(plans)))  # None starts a plan
    while answers:
        asked: dict[int, Sequence[Op]] = {}
        for at, answer in answers.items():
            try:
                asked[at] = plans[at].send(answer)
            except StopIteration as done:
                results[at] = done.value
            except StatewardError as refusal:
                results[at] = refusal
        if not asked:
            break
        outcomes = iter((yield [op for ops in asked.values() for op in ops]))
        answers = {at: [next(outcomes) for _ in ops] for at, ops in asked.items()}
    return [results[at] for at in range(len(plans))]


def claims(entity: Entity, head: Head, user: str, op: str) -> Commit | None:
    """Gives what is no one's to a user, unless it is dropped first; None: it is someone's."""
    if head.owner:
        return None
    still_there = NotDroppedSince(head.dropped + CLOCK)
    return Commit(entity, op, (SetHead(owner=user),), (still_there,), owner="")


def in_both_colours(
    plan: Callable[Concatenate[S, P], Plan[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """A method that is a plan as the two that a framework calls: a blocking and an async one."""

    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._bridge.run(plan(self, *args, **kwargs))

    async def arun(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.arun(plan(self, *args, **kwargs))

    for method in (run, arun):
        update_wrapper(method, plan)
    return run, arun
