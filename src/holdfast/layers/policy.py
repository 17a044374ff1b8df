"""How long a call may take, and what is tried again meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.errors import DiskProblem, StoreTooSlow, StoreUnavailable
from holdfast.ops import WRITES, Op, Outcome
from holdfast.world import World

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25


class Policy(Struct, frozen=True):
    """Seconds a call may take before it fails with `StoreUnavailable`."""

    read_timeout: float = 1.0
    write_timeout: float = 5.0


class Layer(Protocol):
    """What stands below."""

    async def execute(self, ops: Sequence[Op], timeout: float | None) -> list[Outcome]: ...


class Deadlines:
    """Bounds every call in time, and repeats what failed while there is time.

    Repeating is safe for every operation: a commit carries its op, so one whose reply was lost
    answers with its first outcome instead of being applied again.
    """

    def __init__(self, below: Layer, policy: Policy, world: World) -> None:
        self._below = below
        self._policy = policy
        self._world = world

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        policy = self._policy
        writes = isinstance(ops[0], WRITES) if len(ops) == 1 else _any_writes(ops)
        timeout = policy.write_timeout if writes else policy.read_timeout
        start = self._world.monotonic()
        try:
            return await self._below.execute(ops, timeout)
        except StoreUnavailable as error:
            return await self._again(ops, start + timeout, error)

    async def _again(
        self, ops: Sequence[Op], deadline: float, error: StoreUnavailable
    ) -> list[Outcome]:
        world = self._world
        unknown = error.applied == "unknown"
        longest = FIRST_PAUSE
        while not isinstance(error, DiskProblem):
            pause = longest * world.random()
            longest = min(longest * 2, LONGEST_PAUSE)
            if world.monotonic() + pause >= deadline:
                break
            await world.pause(pause)
            try:
                return await self._below.execute(ops, deadline - world.monotonic())
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
