"""How long a call may take, what is tried again meanwhile, and when it is not even asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from stateward.errors import DiskProblem, InvalidInput, StoreTooSlow, StoreUnavailable
from stateward.layers.breaker import Breaker
from stateward.observe.counters import Counters
from stateward.ops import WRITES, Op, Outcome
from stateward.world import World

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
SLOW_SECONDS = 0.1


class Policy(Struct, frozen=True):
    """What happens when the store fails.

    A call fails with `StoreUnavailable` after `read_timeout` or `write_timeout` seconds.
    `threads` says what becomes of a plain append that fails so: "suppress" keeps it locally and
    lets the caller go on, "raise" raises. After `breaker_failures` failures in a row calls fail at
    once, and every `breaker_seconds` one of them finds out whether the store answers again.
    """

    read_timeout: float = 1.0
    write_timeout: float = 5.0
    threads: Literal["suppress", "raise"] = "suppress"
    breaker_failures: int = 5
    breaker_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name in ("read_timeout", "write_timeout", "breaker_seconds"):
            value: Any = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1e9:
                raise InvalidInput(f"Policy.{name} is in seconds above 0, not {value!r}")
        if type(self.breaker_failures) is not int or self.breaker_failures < 1:
            raise InvalidInput(
                "Policy.breaker_failures is a whole number of at least 1, "
                f"not {self.breaker_failures!r}"
            )
        if self.threads not in ("suppress", "raise"):
            raise InvalidInput(f'Policy.threads is "suppress" or "raise", not {self.threads!r}')


class Layer(Protocol):
    """What stands below."""

    async def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]: ...


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
        """ "open" while calls of one direction or both fail at once."""
        return "open" if self._reads.is_open or self._writes.is_open else "closed"

    async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """With a `deadline` (by the monotonic clock) no longer than until then."""
        policy = self._policy
        writes = isinstance(ops[0], WRITES) if len(ops) == 1 else _any_writes(ops)
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
                    self._looked_up(start)
                raise
        if breaker.failures:
            breaker.succeeded(self._world.monotonic())
        if not writes:
            self._looked_up(start)
        return outcomes

    def _looked_up(self, start: float) -> None:
        self._counters.lookups += 1
        if self._world.monotonic() - start > self._slow:
            self._counters.slow_lookups += 1

    async def execute_past_breaker(self, ops: Sequence[Op]) -> list[Outcome]:
        """Past an open breaker, once: for what nobody will ask again, such as releases."""
        if not self._writes.is_open:
            return await self.execute(ops)
        end = self._world.monotonic() + self._policy.read_timeout
        return await self._below.execute(ops, end)

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
        while not isinstance(error, DiskProblem):
            breaker.failed(begun, world.monotonic())
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
        if unknown and error.applied == "no":
            # An earlier attempt may have been applied though the last one surely was not. The error
            # itself is not touched: a batch that failed gives the same one to all its callers.
            raise type(error)(str(error), applied="unknown") from (error.__cause__ or error)
        raise error


def _any_writes(ops: Sequence[Op]) -> bool:
    return any(isinstance(op, WRITES) for op in ops)
