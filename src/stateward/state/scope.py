"""A namespace of a store, and the way down to its engine, for every kind of state."""

from __future__ import annotations

import asyncio

# sync only: import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from copy import copy
from typing import Any, Self
from weakref import WeakValueDictionary

from msgspec.structs import replace

from stateward.codec import ID_BYTES, Limits, check_id
from stateward.context.compaction import Compaction
from stateward.context.window import Bounds

# sync only: from stateward.layers.leases.term import check_held
from stateward.layers.layer import Execute, Way  # async only
from stateward.layers.stack import Stack
from stateward.ops import Entity, Fetch, Fetched, List, Listed, Op, Outcome
from stateward.records import Redact, Shaper
from stateward.state.background import Background
from stateward.state.beginnings import PlainBeginnings
from stateward.state.leases import Leases
from stateward.state.past import Keep
from stateward.state.prune_plan import Prunings
from stateward.state.refusals import refuse
from stateward.state.thread_listener import ThreadListener
from stateward.state.window_record import Context
from stateward.world import World

ReadContext = Callable[[str, str, Bounds, Compaction | None, bool], Coroutine[Any, Any, Context]]


class Scope:
    """A namespace over one stack of layers."""

    def __init__(
        self,
        namespace: str,
        stack: Stack,
        *,
        world: World,
        limits: Limits,
        redact: Redact | None = None,
        listener: ThreadListener | None = None,
        shaper: Shaper | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.namespace = check_id(namespace, "a namespace")
        self.stack = stack
        self._way = stack.way
        self._here = stack.here
        self.wait = stack.wait
        self.capabilities = stack.capabilities
        self.world = world
        self.limits = limits
        self.redact = redact
        self.listener = listener
        self.shaper = shaper
        self.keep = keep or Keep()
        self.prunings = Prunings()
        self.counters = stack.counters
        self.counters.effects.setdefault("unknown", 0)  # a rate needs a 0 to start from
        self.background = Background()
        self.leases = Leases(
            self.execute, stack.execute_past_breaker, stack.renewals, self.background, world
        )
        self.beginnings = PlainBeginnings()
        self.log_heads: dict[str, tuple[int, str]] = {}  # last entries of operations logs, as read
        self.context: ReadContext | None = None  # reads the other sections of its store too
        self._queues: WeakValueDictionary[tuple[Entity, str], asyncio.Lock] = WeakValueDictionary()

    def within(self, namespace: str) -> Self:
        """Return a scope of another namespace over the same stack."""
        other = copy(self)
        other.namespace = check_id(namespace, "a namespace")
        return other

    # async only: begin
    def guard(self, around: Callable[[Execute], Execute]) -> None:
        """Pass every operation through this from now on. Appends are no longer spilled.

        For a scope of `within` that is one caller's: others over the same stack stay as they are.
        """
        stack = self.stack
        execute, here = around(stack.way.execute), around(stack.here.execute)
        self._way, self._here = Way(execute, execute), Way(here, here)
        self.leases = Leases(
            self.execute, stack.execute_past_breaker, stack.renewals, self.background, self.world
        )

    # async only: end
    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute operations by `deadline`; blocking code first checks the leases it holds."""
        # sync only: check_held()
        return self._way.execute(ops, deadline)

    def append(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute an append whose messages may be spilled."""
        # sync only: check_held()
        return self._way.append(ops, deadline)

    def execute_here(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute operations on entities that another replica may have a right to."""
        # sync only: check_held()
        return self._here.execute(ops, deadline)

    async def fetch(self, fetch: Fetch) -> Fetched:
        """Fetch an entity; raises for one of another user."""
        outcome = (await self.execute((fetch,)))[0]
        if type(outcome) is not Fetched:
            refuse(outcome, fetch.entity)
        return outcome

    async def pages(
        self, op: List, *, here: bool = False, limit: int | None = None
    ) -> AsyncIterator[Listed]:
        """Yield the pages of a listing, with `limit` entities in all.

        With `here`, includes entities that another replica has a right to.
        """
        execute = self.execute_here if here else self.execute
        after, left, size = op.after, limit, self.capabilities.page
        while True:
            page = replace(op, after=after, limit=size if left is None else min(size, left))
            listed = (await execute((page,)))[0]
            assert isinstance(listed, Listed)
            yield listed
            if left is not None:
                left -= len(listed.entities)
            if listed.next is None or left == 0:
                return
            after = listed.next

    async def close(self) -> None:
        """Finish background work and release leases, then close the engine."""
        if self.stack.is_open():
            await self.background.finish()
            await self.leases.release_all()
        await self.stack.close()

    def queue(self, entity: Entity, name: str) -> asyncio.Lock:
        """Return this process's lock for callers that met a conflict over one document.

        It only keeps the tasks of one replica from racing each other; the version check is what
        prevents lost updates.
        """
        return self._queues.setdefault((entity, name), asyncio.Lock())

    def entity(self, kind: str, id: str) -> Entity:
        """Return the address of an entity in this namespace."""
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= ID_BYTES:
            check_id(id, f"the id of a {kind}")
        return Entity(self.namespace, kind, id)
