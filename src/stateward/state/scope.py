"""A namespace of a store, and the way down to its engine: what every kind of state needs."""

from __future__ import annotations

import asyncio

# sync only: import threading
from collections.abc import AsyncIterator, Callable, Coroutine  # async only

# sync only: from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Self
from weakref import WeakValueDictionary

from msgspec.structs import replace

from stateward.codec import ID_BYTES, Limits, check_id
from stateward.context.compaction import Compaction
from stateward.context.window import Bounds

# sync only: from stateward.layers.leases.held import check_held
from stateward.layers.layer import Execute  # async only
from stateward.layers.stack import Stack
from stateward.ops import Entity, Fetch, Fetched, List, Listed

# sync only: from stateward.ops import Op, Outcome
from stateward.records import Context, Redact, Shaper, ThreadListener
from stateward.state.background import Background
from stateward.state.beginnings import PlainBeginnings
from stateward.state.leases import Leases
from stateward.state.past import Keep, Prunings
from stateward.state.refusals import refuse
from stateward.world import World

# sync only: Outcomes = list[Outcome]

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
        self.execute = stack.execute  # async only
        self.append = stack.append  # async only
        self.execute_here = stack.execute_here  # async only
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
        self.context: ReadContext | None = None  # reads the other sections of its store too
        self._queues: WeakValueDictionary[tuple[Entity, str], asyncio.Lock] = WeakValueDictionary()

    def within(self, namespace: str) -> Self:
        """Another namespace over the same stack: only its name is its own."""
        other = copy(self)
        other.namespace = check_id(namespace, "a namespace")
        return other

    # async only: begin
    def guard(self, around: Callable[[Execute], Execute]) -> None:
        """From now on all that it asks goes through this. An append is not kept locally any more.

        For a scope of `within` that is one caller's: others over the same stack stay as they are.
        """
        stack = self.stack
        self.execute = self.append = around(stack.execute)
        self.execute_here = around(stack.execute_here)
        self.leases = Leases(
            self.execute, stack.execute_past_breaker, stack.renewals, self.background, self.world
        )

    # async only: end
    # sync only: def execute(self, ops: Sequence[Op], deadline: float | None = None) -> Outcomes:
    # sync only:     """Down to the engine, unless this thread has lost a lease it works under."""
    # sync only:     check_held()
    # sync only:     return self.stack.execute(ops, deadline)

    # sync only: def append(self, ops: Sequence[Op], deadline: float | None = None) -> Outcomes:
    # sync only:     """The same for an append that may be kept locally."""
    # sync only:     check_held()
    # sync only:     return self.stack.append(ops, deadline)

    # sync only: def execute_here(
    # sync only:     self, ops: Sequence[Op], deadline: float | None = None
    # sync only: ) -> Outcomes:
    # sync only:     """The same for what another replica may have a right to."""
    # sync only:     check_held()
    # sync only:     return self.stack.execute_here(ops, deadline)

    async def fetch(self, fetch: Fetch) -> Fetched:
        """One fetch; another's entity raises."""
        outcome = (await self.execute((fetch,)))[0]
        if type(outcome) is not Fetched:
            refuse(outcome, fetch.entity)
        return outcome

    async def pages(self, op: List, *, here: bool = False) -> AsyncIterator[Listed]:
        """Every page of a listing; with `here` also what another replica has a right to."""
        execute = self.execute_here if here else self.execute
        after = op.after
        while True:
            page = replace(op, after=after, limit=self.capabilities.page)
            listed = (await execute((page,)))[0]
            assert isinstance(listed, Listed)
            yield listed
            if listed.next is None:
                return
            after = listed.next

    async def close(self) -> None:
        """Give everything back, then let go of the engine."""
        if self.stack.is_open():
            await self.background.finish()
            await self.leases.release_all()
        await self.stack.close()

    def queue(self, entity: Entity, name: str) -> asyncio.Lock:
        """A lock within this process for those who have met a conflict over one document.

        Only a courtesy: it keeps a hundred tasks of one replica from racing each other. What
        keeps changes from getting lost is the version check.
        """
        return self._queues.setdefault((entity, name), asyncio.Lock())

    def entity(self, kind: str, id: str) -> Entity:
        """The address of a thing in this namespace."""
        if type(id) is not str or not id.isascii() or not 0 < len(id) <= ID_BYTES:
            check_id(id, f"the id of a {kind}")
        return Entity(self.namespace, kind, id)
