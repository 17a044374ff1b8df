"""How long a call may take, what is tried again meanwhile, and when it is not even asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stateward.errors import (
    DiskProblem,
    InvalidInput,
    StoreTooSlow,
    StoreUnavailable,
    TooFewReplicas,
    TooLarge,
)
from stateward.layers.breaker import Breaker
from stateward.layers.layer import Layer
from stateward.layers.policy import Policy
from stateward.observe.counters import Counters
from stateward.ops import READS, Op, Outcome
from stateward.world import World

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
SLOW_SECONDS = 0.1
ANSWERS = (DiskProblem, TooFewReplicas)  # of a store that is there: waiting does not help


class Deadlines:
    """Bounds every call in time, and repeats what failed while there is time.

    Repeating is safe for every operation: a commit carries its op, so one whose reply was lost
    answers with its first outcome instead of being applied again.
    """

    def __init__(
        self,
        below: Layer,
        policy: Policy,
        world: World,
        counters: Counters | None = None,
        slow: float = SLOW_SECONDS,
    ) -> None:
        self._below = below
        self._policy = policy
        self._world = world
        self._counters = counters or Counters()
        self._slow = slow
        most, seconds = policy.breaker_failures, policy.breaker_seconds
        self._reads = Breaker(most, seconds, self._counters, "reads")
        self._writes = Breaker(most, seconds, self._counters, "writes")
        self._reads.other, self._writes.other = self._writes, self._reads

    @property
    def breaker(self) -> Literal["closed", "open"]:
        """ "open" while calls of one direction or both fail immediately."""
        return "open" if self._reads.is_open or self._writes.is_open else "closed"

    async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """With a `deadline` (by the monotonic clock) no longer than until then."""
        policy = self._policy
        reads = type(ops[0]) in READS if len(ops) == 1 else READS.issuperset(map(type, ops))
        writes = not reads
        breaker = self._writes if writes else self._reads
        start = self._world.monotonic()
        end = start + (policy.write_timeout if writes else policy.read_timeout)
        if deadline is not None:
            end = min(end, max(start, deadline))
        if breaker.is_open:
            end = min(end, start + policy.read_timeout)  # of a probe others wait for the answer
            refusal = breaker.admit(start, end - start)
            if refusal is not None:
                # A caller that tries again and again must not keep all others from running.
                await self._world.pause(0)
                raise refusal
        try:
            outcomes = await self._below.execute(ops, end)
        except StoreUnavailable as error:
            try:
                outcomes = await self._again(ops, breaker, start, end, error)
            except StoreUnavailable:
                if not writes:
                    self._counters.lookups += 1
                    self._counters.slow_lookups += self._world.monotonic() - start > self._slow
                raise
        except InvalidInput:
            if breaker.is_open:
                breaker.refused(self._world.monotonic())
            raise
        breaker.answered = now = self._world.monotonic()
        if breaker.failures:
            breaker.succeeded(now)
        if not writes:
            self._counters.lookups += 1
            if now - start > self._slow:
                self._counters.slow_lookups += 1
        return outcomes

    async def execute_past_breaker(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> list[Outcome]:
        """Execute once, past an open breaker: for calls that are not repeated, such as releases."""
        if not self._writes.is_open:
            return await self.execute(ops, deadline)
        end = self._world.monotonic() + self._policy.read_timeout
        return await self._below.execute(ops, end if deadline is None else min(end, deadline))

    async def _again(
        self,
        ops: Sequence[Op],
        breaker: Breaker,
        begun: float,
        deadline: float,
        error: StoreUnavailable,
    ) -> list[Outcome]:
        world = self._world
        unknown = error.applied == "unknown"
        longest = FIRST_PAUSE
        while not isinstance(error, ANSWERS):
            if not error.is_busy:
                breaker.failed(begun, world.monotonic())
            elif breaker.failures:  # the store itself is well
                breaker.succeeded(world.monotonic())
            pause = longest * world.random()
            longest = min(longest * 2, LONGEST_PAUSE)
            if breaker.is_open or world.monotonic() + pause >= deadline:
                break
            await world.pause(pause)
            begun = world.monotonic()
            self._counters.retries += 1
            try:
                return await self._below.execute(ops, deadline)
            except StoreUnavailable as next_error:
                unknown = unknown or next_error.applied == "unknown"
                if not isinstance(next_error, StoreTooSlow):
                    error = next_error  # else what is known of the trouble says more
            except InvalidInput as refusal:
                if not unknown or isinstance(refusal, TooLarge):
                    raise
                # "Nothing was written" would be said of an earlier attempt, too.
                raise StoreUnavailable(str(refusal), applied="unknown") from refusal
        if breaker.failures and isinstance(error, ANSWERS):
            breaker.succeeded(world.monotonic())
        if unknown and error.applied == "no":
            # An earlier attempt may have been applied though the last one surely was not. The error
            # itself is not touched: a batch that failed gives the same one to all its callers.
            raise type(error)(str(error), applied="unknown") from (error.__cause__ or error)
        raise error
