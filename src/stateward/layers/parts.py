"""Coalescers and deadlines for each part of a store: a dead node holds up its own callers alone.

A cluster is such a store. What a call asks of several parts is asked of each by itself, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Literal

from stateward.engine import Engine, Parted
from stateward.errors import StoreUnavailable
from stateward.layers.coalescer import Coalescer
from stateward.layers.deadlines import Deadlines
from stateward.layers.gather import gather
from stateward.layers.layer import Execute, Layer
from stateward.layers.policy import Policy
from stateward.layers.queue import own
from stateward.observe.counters import Counters
from stateward.observe.recorder import Recorder
from stateward.ops import WRITES, Op, Outcome
from stateward.world import World


def coalescer_of(
    engine: Engine, recorder: Recorder | None = None, clock: Callable[[], float] = monotonic
) -> Coalescer | PartCoalescers:
    """Return the coalescer of an engine, or one for each of its parts."""
    make = partial(Coalescer, engine, recorder, clock)
    if isinstance(engine, Parted) and engine.capabilities.parts:
        return PartCoalescers(engine.part_of, make)
    return make()


class PartCoalescers:
    """A coalescer for each part: batches of one do not wait for those of another."""

    def __init__(self, part_of: Callable[[Op], Hashable], make: Callable[[], Coalescer]) -> None:
        self._part_of = part_of
        self._make = make
        self._parts: dict[Hashable, Coalescer] = {}

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute on the one part of these operations: `PartDeadlines` has divided them."""
        part = self._part_of(ops[0])
        coalescer = self._parts.get(part)
        if coalescer is None:
            coalescer = self._parts.setdefault(part, self._make())
        return coalescer.execute(ops, deadline)

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        for coalescer in list(self._parts.values()):
            await coalescer.drain()


def deadlines_of(
    engine: Engine, below: Layer, policy: Policy, world: World, counters: Counters, slow: float
) -> Deadlines | PartDeadlines:
    """Return the deadlines of calls to an engine, or to each of its parts."""
    make = partial(Deadlines, below, policy, world, counters, slow)
    if isinstance(engine, Parted) and engine.capabilities.parts:
        return PartDeadlines(engine.part_of, make)
    return make()


class PartDeadlines:
    """Deadlines, repetitions and breakers for each part."""

    def __init__(self, part_of: Callable[[Op], Hashable], make: Callable[[], Deadlines]) -> None:
        self._part_of = part_of
        self._make = make
        self._parts: dict[Hashable, Deadlines] = {}

    @property
    def breaker(self) -> Literal["closed", "open"]:
        """ "open" while calls to any part fail immediately."""
        parts = list(self._parts.values())
        return "open" if any(part.breaker == "open" for part in parts) else "closed"

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """With a `deadline` (by the monotonic clock) no longer than until then."""
        if len(ops) == 1:
            return self._deadlines(self._part_of(ops[0])).execute(ops, deadline)
        return self._execute_several(ops, deadline, lambda part: self._deadlines(part).execute)

    def execute_past_breaker(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute once, past an open breaker: for calls that are not repeated, such as releases."""
        return self._execute_several(
            ops, deadline, lambda part: self._deadlines(part).execute_past_breaker
        )

    def _deadlines(self, part: Hashable) -> Deadlines:
        deadlines = self._parts.get(part)
        return self._parts.setdefault(part, self._make()) if deadlines is None else deadlines

    async def _execute_several(
        self, ops: Sequence[Op], deadline: float | None, way_to: Callable[[Hashable], Execute]
    ) -> list[Outcome]:
        if not ops:
            return []
        shares: dict[Hashable, list[int]] = {}
        for number, op in enumerate(ops):
            shares.setdefault(self._part_of(op), []).append(number)
        calls = [
            partial(way_to(part), [ops[number] for number in numbers], deadline)
            for part, numbers in shares.items()
        ]
        try:
            answers = await gather(calls)
        except StoreUnavailable as error:
            failure = own(error)
            if len(calls) > 1 and any(isinstance(op, WRITES) for op in ops):
                failure.applied = "unknown"  # type: ignore[attr-defined]
            raise failure from error
        outcomes: dict[int, Outcome] = {}
        for numbers, answer in zip(shares.values(), answers, strict=True):
            outcomes.update(zip(numbers, answer, strict=True))
        return [outcomes[number] for number in range(len(ops))]
