"""Work on a store written once for both colours: a plan yields operations and gets outcomes.

A framework asks the same object now with `await` and now without. A `Plan` is a generator that
yields batches of operations and is sent their outcomes; `Bridge` carries them out, on the event
loop through the store it was given, and for blocking callers through a blocking twin of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Self, TypeVar

import stateward
from stateward import sync
from stateward.codec import Limits
from stateward.errors import InvalidInput
from stateward.ops import Op, Outcome
from stateward.state.scope import Scope
from stateward.sync.state.scope import Scope as BlockingScope
from stateward.world import World

T = TypeVar("T")
Plan = Generator[Sequence[Op], list[Outcome], T]
AnyStore = stateward.Store | sync.Store


class Bridge:
    """A store in both colours. Does no I/O before its first plan.

    Blocking callers get a store that `blocking` makes or, without it, a sibling of this one.
    """

    def __init__(self, store: AnyStore, blocking: Callable[[], sync.Store] | None = None) -> None:
        if not isinstance(store, stateward.Store | sync.Store):
            raise InvalidInput(
                "this takes an open store, e.g. stateward.open('sqlite:///agents.db'); with a URL "
                f"use from_url(...), not {type(store).__name__}"
            )
        self._lock = threading.Lock()
        self._own: sync.Store | None = None  # the blocking twin, made at its first use
        self._make_own = blocking or self._sibling
        self._store = store
        scope: Scope | BlockingScope = store._scope
        self._async = scope if isinstance(scope, Scope) else None
        self._blocking = scope if isinstance(scope, BlockingScope) else None
        self.namespace: str = scope.namespace
        self.limits: Limits = scope.limits
        self.world: World = scope.world
        self.page: int = scope.capabilities.page

    @classmethod
    def at(cls, url: str | None, options: Mapping[str, Any]) -> Self:
        """A store of its own at a URL, opened in the colour that is asked for."""
        store = stateward.open(url, **options)
        if not store._scope.capabilities.durable:
            return cls(store)  # it lives in this process: a second one would be another
        return cls(store, lambda: sync.open(url, **options))

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out, blocking."""
        scope = self._blocking or self._twin()
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
        try:
            ops = next(plan)
            while True:
                ops = plan.send(await scope.execute(ops))
        except StopIteration as done:
            result: T = done.value
            return result

    def _twin(self) -> BlockingScope:
        """The same engine with connections of its own: any thread may wait for it."""
        with self._lock:
            if self._blocking is None:
                self._own = self._make_own()
                self._blocking = self._own._scope
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
            world=self.world,
        )

    def close(self, *, whole: bool) -> None:
        """Let go of the blocking twin; with `whole` also of a blocking store itself."""
        if self._own is not None:
            self._own.close()
        if whole and isinstance(self._store, sync.Store):
            self._store.close()

    async def aclose(self, *, whole: bool) -> None:
        """The same on the event loop; with `whole` also of an async store."""
        await asyncio.to_thread(self.close, whole=whole)
        if whole and isinstance(self._store, stateward.Store):
            await self._store.close()


class Bridged:
    """Something of a framework that stands on a `Bridge`, and is closed or used as a context."""

    _backing: Bridge
    _owned: bool  # the store was opened here

    def close(self) -> None:
        """Let go of what blocking calls have used; a store that was passed in stays open."""
        self._backing.close(whole=self._owned)

    async def aclose(self) -> None:
        """Let go of everything; a store that was passed in stays open."""
        await self._backing.aclose(whole=self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
