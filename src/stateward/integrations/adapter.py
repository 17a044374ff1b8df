"""Adapters: objects that a framework calls, over a store of the caller or of their own.

Some frameworks call from an event loop, some from blocking code; `bridge` has those that are called
now with `await` and now without.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextvars import ContextVar
from inspect import signature
from typing import Any, Self, TypeVar, cast

import stateward
from stateward import sync
from stateward.errors import InvalidInput
from stateward.integrations.turns import TTL, AgentRun, RunTurn, Turns

T = TypeVar("T")
AnyStore = stateward.Store | sync.Store

_holds_up: ContextVar[bool] = ContextVar("_holds_up", default=False)  # the caller may block


class OnStore:
    """An object of a framework over a store of the caller or of its own."""

    _owned = False  # the store was opened here

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return stateward.open(url, **options)

    @classmethod
    def from_url(cls, url: str | None = None, *args: Any, **options: Any) -> Self:
        """Open a store at this URL; the caller has to close the adapter. Prefer one shared store.

        `options` are those of this class and of `stateward.open`. Does no I/O.
        """
        of_store = signature(stateward.open).parameters.keys() - signature(cls).parameters.keys()
        store = cls._open(url, {name: options.pop(name) for name in options.keys() & of_store})
        made: Self = cast(Any, cls)(store, *args, **options)
        made._owned = True
        return made


class OnAnyStore(OnStore):
    """An adapter for an event loop, over a store of either colour."""

    def __init__(self, store: AnyStore) -> None:
        self._store: Any = store
        self._blocking = not isinstance(store, stateward.Store)

    async def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._owned:
            await self._store.close()

    async def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Carry a call out; a blocking store does its I/O on a thread, from any event loop."""
        if self._blocking:
            if _holds_up.get():
                return method(*args, **kwargs)
            return await asyncio.to_thread(method, *args, **kwargs)
        return await method(*args, **kwargs)

    def _block(self, call: Coroutine[Any, Any, T]) -> T:
        """Carry out a coroutine that awaits only the store, from blocking code without a loop."""
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
        """Wait for another run that is in progress to end, and then take the turn.

        Return False if there is no other run. Raises `LeaseHeld` after `wait` seconds.
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
        """Give back the turn of a failed run; a lost turn belongs to another run already."""
        Turns.of(handle.scope).end(turn)
        released = await self._call(handle.commit, (turn.release,))
        await self._call(handle.scope.leases.end_empty, handle.entity, released)

    async def _each(self, listing: Any) -> AsyncIterator[Any]:
        """Yield the items of a store's listing, in either colour."""
        if self._blocking:
            end = object()
            while (each := await self._call(next, listing, end)) is not end:
                yield each
        else:
            async for each in listing:
                yield each


class OnBlockingStore(OnStore):
    """An adapter for blocking code, over a blocking store."""

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
