"""What a store whose parts fail apart has of each: a dead node holds up nobody but its own callers.

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
from stateward.layers.deadlines import SLOW_SECONDS, Deadlines
from stateward.layers.gather import gather
from stateward.layers.layer import Execute, Layer
from stateward.layers.policy import Policy
from stateward.layers.queue import own
from stateward.observe.counters import Counters
from stateward.observe.recorder import Recorder
from stateward.ops import WRITES, Op, Outcome
from stateward.world import World


def coalescer_of(
    engine: Engine,
    recorder: Recorder | None = None,
    clock: Callable[[], float] = monotonic,
) -> Coalescer | PartCoalescers:
    """What carries the batches of an engine."""
    if isinstance(engine, Parted) and engine.capabilities.parts:
        return PartCoalescers(engine, recorder, clock)
    return Coalescer(engine, recorder, clock)


class PartCoalescers:
    """A coalescer for each part: batches of one do not wait for those of another."""

    def __init__(
        self, engine: Engine, recorder: Recorder | None, clock: Callable[[], float]
    ) -> None:
        assert isinstance(engine, Parted)
        self._part_of = engine.part_of
        self._make = partial(Coalescer, engine, recorder, clock)
        self._parts: dict[Hashable, Coalescer] = {}

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Whoever asks several parts has asked each by itself: see `PartDeadlines`."""
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
    engine: Engine,
    below: Layer,
    policy: Policy,
    world: World,
    counters: Counters | None = None,
    slow: float = SLOW_SECONDS,
) -> Deadlines:
    """What bounds the calls to an engine in time."""
    if isinstance(engine, Parted) and engine.capabilities.parts:
        return PartDeadlines(engine.part_of, below, policy, world, counters, slow)
    return Deadlines(below, policy, world, counters, slow)


class PartDeadlines(Deadlines):
    """Deadlines, repetitions and breakers for each part."""

    def __init__(
        self,
        part_of: Callable[[Op], Hashable],
        below: Layer,
        policy: Policy,
        world: World,
        counters: Counters | None = None,
        slow: float = SLOW_SECONDS,
    ) -> None:
        super().__init__(below, policy, world, counters, slow)
        self._part_of = part_of
        self._make = partial(Deadlines, below, policy, world, counters, slow)
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
        """Past an open breaker, once: for what nobody will ask again, such as releases."""
        return self._execute_several(
            ops, deadline, lambda part: self._deadlines(part).execute_past_breaker
        )

    def _deadlines(self, part: Hashable) -> Deadlines:
        found = self._parts.get(part)
        return self._parts.setdefault(part, self._make()) if found is None else found

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
