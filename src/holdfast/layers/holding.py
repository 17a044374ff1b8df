"""A lease in the hands of a block of code: the block ends when the lease does.

The holder trusts its own clock, never the store's word alone: from the moment before the last
successful renewal it has nine tenths of the ttl. When that time is over, or the store says that
the lease is lost, the block is cancelled the way `asyncio.timeout` does it, and `LeaseLost` is
raised in its place.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from holdfast.errors import LeaseLost
from holdfast.layers.renewal import Renewals
from holdfast.ops import Entity, Fence, Lease
from holdfast.world import World

SAFE = 0.9  # the part of the ttl that the holder relies on
HUNG = 2.0  # ttls without a sign of life of the event loop after which renewal stops


class Holding:
    """What `async with store.lock(…) as lease` gives."""

    def __init__(
        self,
        entity: Entity,
        lease: Lease,
        ttl: float,
        asked: float,
        renewals: Renewals,
        world: World,
        *,
        keeps_due: bool = False,
    ) -> None:
        self.entity = entity
        self.token = lease.token
        self.nonce = lease.nonce
        self.ttl = ttl
        self.keeps_due = keeps_due
        self._world = world
        self._renewals = renewals
        self._asked = asked
        self._deadline = asked + SAFE * ttl
        self._lost = False
        self._entered = self._left = False
        self._ticked = world.monotonic()

    @property
    def fence(self) -> Fence:
        """What a commit checks."""
        return Fence(self.token, self.nonce)

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost, or may be by now."""
        if self._lost or self._world.monotonic() >= self._deadline:
            raise lease_lost(self.entity, self.token)

    async def enter(self) -> None:
        """From here on the current task is cancelled when the lease ends."""
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout_at(self._loop.time() if self._lost else self._end())
        self._entered = True
        await self._timeout.__aenter__()
        self._tick()
        self._renewals.add(self, self._asked)

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The block is over. Raises `LeaseLost` if it was cancelled for that."""
        self._renewals.remove(self)
        self._heartbeat.cancel()
        self._left = True
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            self._lost = True
            raise lease_lost(self.entity, self.token) from timeout

    # --- called by the renewals, from their own thread ------------------------------

    def is_alive(self) -> bool:
        return self._world.monotonic() - self._ticked <= HUNG * self.ttl

    def renewed(self, asked: float) -> None:
        self._deadline = asked + SAFE * self.ttl
        self._call(self._reschedule)

    def lost(self) -> None:
        self._lost = True
        self._call(self._reschedule)

    # --- on the loop ----------------------------------------------------------------

    def _call(self, callback: object) -> None:
        if not self._entered:
            return  # nothing to cancel yet; `enter` and `check` look at what is known by then
        try:
            self._loop.call_soon_threadsafe(callback)  # type: ignore[arg-type]
        except RuntimeError:
            return  # the loop has ended, and the block with it

    def _end(self) -> float:
        return self._loop.time() + self._deadline - self._world.monotonic()

    def _reschedule(self) -> None:
        # The news may have been on its way when the block was left: then there is nothing to end.
        if not self._left and not self._timeout.expired():
            self._timeout.reschedule(self._loop.time() if self._lost else self._end())

    def _tick(self) -> None:
        self._ticked = self._world.monotonic()
        self._heartbeat = self._loop.call_later(self.ttl / 3, self._tick)


def lease_lost(entity: Entity, token: int) -> LeaseLost:
    return LeaseLost(
        f"the lease with token {token} on the {entity.kind} {entity.id!r} is over: it could not be "
        "renewed in time or was taken over. What it guarded is refused from now on"
    )
