"""Leases: locks, leaders, and the right to lead a conversation.

A lease is granted with a token that only grows. Whoever writes with `fence=lease` is refused once
somebody else holds it: that, not the lock itself, is what keeps a paused process from
overwriting its successor's work.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

from stateward.errors import InvalidInput, LeaseLost, StatewardError, StoreUnavailable
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    Duplicate,
    Entity,
    Held,
    Lease,
    Outcome,
    Release,
    Write,
)
from stateward.state.scope import Scope, refuse, stored

logger = logging.getLogger("stateward.leases")

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
SHORTEST_TTL = 0.05
RETAIN = 86_400.0  # a lock that nobody has held for a day is forgotten; its tokens still grow


class Lock:
    """`async with` waits for the lease, holds it for the block, and gives it back."""

    def __init__(
        self,
        scope: Scope,
        entity: Entity,
        *,
        ttl: float,
        wait: float | None,
        owner: str | None = None,
        retain: float | None = RETAIN,
    ) -> None:
        self._scope = scope
        self._entity = entity
        self._ttl = check_ttl(ttl)
        self._wait = wait
        self._owner = owner
        self._retain = retain if retain is None else max(retain, 2 * ttl)
        self._holding: HeldLease | None = None

    async def __aenter__(self) -> HeldLease:
        if self._holding is not None:
            raise InvalidInput("this lock is already entered; call store.lock(...) for each block")
        lease, asked = await acquire(
            self._scope,
            self._entity,
            ttl=self._ttl,
            wait=self._wait,
            owner=self._owner,
            retain=self._retain,
        )
        holding = self._scope.hold(self._entity, lease, self._ttl, asked)
        try:
            holding.check()  # the answer may have taken longer than the lease lasts
        except LeaseLost:
            await release(self._scope, holding)
            raise
        await holding.enter()
        self._holding = holding
        return holding

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        holding, self._holding = self._holding, None
        assert holding is not None
        try:
            await holding.leave(kind, error, trace)
            if error is None:
                holding.check()
        finally:
            await release(self._scope, holding)


async def acquire(
    scope: Scope,
    entity: Entity,
    *,
    ttl: float,
    wait: float | None,
    owner: str | None = None,
    retain: float | None = None,
    writes: tuple[Write, ...] = (),
    checks: tuple[Check, ...] = (),
) -> tuple[Lease, float]:
    """The lease, and the monotonic time before it was asked for.

    Waits up to `wait` seconds (None: as long as it takes) while somebody else holds it, then
    raises `LeaseHeld`.
    """
    world = scope.world
    nonce = world.new_id()
    end = None if wait is None else world.monotonic() + wait
    longest = FIRST_PAUSE
    while True:
        asked = world.monotonic()
        take = (Acquire(nonce, ttl, scope.holder), *writes)
        outcome = await ask(scope, Commit(entity, world.new_op(), take, checks, owner, retain))
        if not isinstance(outcome, Held):
            lease = stored(outcome, entity).lease
            assert lease is not None
            return lease, asked
        if end is not None and world.monotonic() >= end:
            refuse(outcome, entity)
        pause = min(longest * (0.5 + world.random() / 2), outcome.remaining + 0.001)
        if end is not None:
            pause = min(pause, max(0.0, end - world.monotonic()))
        longest = min(longest * 2, LONGEST_PAUSE)
        await world.pause(pause)


async def ask(scope: Scope, commit: Commit, *more: Write) -> Outcome:
    """Ask for a lease. What a caller is granted after it was cancelled is given back, with `more`.

    Otherwise nobody would know that it was granted, and everybody would wait for its ttl.
    """
    # async only: begin
    asking = scope.behind(scope.execute((commit,)))
    try:
        return (await asyncio.shield(asking))[0]
    except asyncio.CancelledError:
        scope.behind(_undo(scope, commit.entity, asking, more))
        raise
    # async only: end
    # sync only: return scope.execute((commit,))[0]


# async only: begin
async def _undo(
    scope: Scope, entity: Entity, asking: asyncio.Task[list[Outcome]], more: tuple[Write, ...]
) -> None:
    """Wait for the answer and give back what it grants. Asking anew could overtake the question."""
    try:
        outcome = (await asking)[0]
        if isinstance(outcome, Applied | Duplicate):
            lease = stored(outcome, entity).lease
            assert lease is not None
            await scope.give_back(entity, (Release(lease.token, lease.nonce), *more))
    except StatewardError as error:
        _not_released(entity, error)


# async only: end


async def release(scope: Scope, holding: HeldLease, *more: Write) -> None:
    """Give the lease back. If the store cannot be told, the ttl does it: said in the log."""
    if not scope.let_go(holding):
        return  # given back when the store was closed
    try:
        await scope.give_back(holding.entity, (Release(holding.token, holding.nonce), *more))
    except StoreUnavailable as error:
        _not_released(holding.entity, error)


def _not_released(entity: Entity, error: StatewardError) -> None:
    logger.warning(
        "lease_not_released", extra={"entity": entity.kind, "error": type(error).__name__}
    )


def check_ttl(ttl: float) -> float:
    if type(ttl) not in (int, float) or not SHORTEST_TTL <= ttl <= 86_400:
        raise InvalidInput(f"ttl is a number of seconds from {SHORTEST_TTL} to 86400, not {ttl!r}")
    return float(ttl)
