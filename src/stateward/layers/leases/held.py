"""A lease in the hands of a block of code: the block ends when the lease does.

The holder trusts its own clock, never the store's word alone: from the moment before the last
successful renewal it has nine tenths of the ttl. When that time is over, or the store says that
the lease is lost, the block is cancelled the way `asyncio.timeout` does it, and `LeaseLost` is
raised in its place.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from stateward.errors import LeaseLost
from stateward.layers.leases.renewal import Renewals
from stateward.ops import Entity, Fence, Lease, Write
from stateward.world import World

SAFE = 0.9  # the part of the ttl that the holder relies on
HUNG = 2.0  # ttls without a sign of life of the event loop after which renewal stops


class HeldLease:
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
        undo: tuple[Write, ...] = (),
    ) -> None:
        self.entity = entity
        self.token = lease.token
        self.nonce = lease.nonce
        self.ttl = ttl
        self.undo = undo  # written when the store is closed under its holder
        self.keeps_due = bool(undo)
        self._world = world
        self._renewals = renewals
        self._asked = asked
        self._deadline = asked + SAFE * ttl
        self._lost = False
        self._entered = self._left = False
        self._timer: asyncio.TimerHandle | None = None
        self._ticked = world.monotonic()

    @property
    def fence(self) -> Fence:
        """What a commit checks."""
        return Fence(self.token, self.nonce)

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost, or may be by now."""
        if self._lost or self._world.monotonic() >= self._deadline:
            self._lost = True  # a renewal that comes after all revives nothing that was called over
            raise lease_lost(self.entity, self.token)

    async def enter(self) -> None:
        """From here on the current task is cancelled when the lease ends."""
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._entered = True
        self.keep()
        self._watch()

    def keep(self) -> None:
        """From here on it is renewed. By itself this ends nothing when the lease does."""
        self._loop = asyncio.get_running_loop()
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
        if self._timer is not None:
            self._timer.cancel()
        self._left = True
        if not self._entered:
            return
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            self._lost = True
            raise lease_lost(self.entity, self.token) from timeout

    # --- called by the renewals, from their own thread ------------------------------

    def is_alive(self) -> bool:
        return self._world.monotonic() - self._ticked <= HUNG * self.ttl

    def renewed(self, asked: float) -> None:
        self._deadline = asked + SAFE * self.ttl  # the timer looks at it when it comes

    def lost(self) -> None:
        self._lost = True
        if not self._entered:
            return  # nothing to cancel yet; `enter` and `check` look at what is known by then
        try:
            self._loop.call_soon_threadsafe(self._watch)
        except RuntimeError:
            return  # the loop has ended, and the block with it

    # --- on the loop ----------------------------------------------------------------

    def _watch(self) -> None:
        """End the block if its time is up, else look again when it will be.

        A timer asks for the deadline when it comes: after a hang it may come before any news that
        a renewal sent meanwhile, and some loops let it come a little early.
        """
        # The news may have been on its way when the block was left: then there is nothing to end.
        if self._left or self._timeout.expired():
            return
        left = self._deadline - self._world.monotonic()
        if left > 0 and not self._lost:
            self._timer = self._loop.call_later(left, self._watch)
            return
        self._lost = True  # a block that does not let itself be cancelled is refused all the same
        self._timeout.reschedule(self._loop.time())

    def _tick(self) -> None:
        self._ticked = self._world.monotonic()
        self._heartbeat = self._loop.call_later(self.ttl / 3, self._tick)


def lease_lost(entity: Entity, token: int) -> LeaseLost:
    return LeaseLost(
        f"the lease with token {token} on the {entity.kind} {entity.id!r} is over: it could not be "
        "renewed in time or was taken over. What it guarded is refused from now on"
    )
