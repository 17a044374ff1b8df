"""A lease in the hands of a block of code: the block ends when the lease does.

The holder trusts its own clock, never the store's word alone: from the moment before the last
successful renewal it has nine tenths of the ttl. When that time is over, or the store reports that
the lease is lost, the block is cancelled as by `asyncio.timeout`, and `LeaseLost` is raised in its
place. A thread cannot be cancelled: in blocking code, every call to the store from inside the block
checks the lease first.
"""

from __future__ import annotations

import asyncio

# sync only: import threading
# sync only: from contextvars import Token
from types import TracebackType

from stateward.layers.leases.term import LeaseTerm

# sync only: from stateward.layers.leases.term import HELD

HUNG = 2.0  # ttls without a sign of life of the event loop after which renewal stops  # async only


class HeldLease(LeaseTerm):
    """The lease of a block `async with store.lock(…) as lease`."""

    # sync only: _before: Token[tuple[LeaseTerm, ...]] | None = None
    # async only: begin
    _entered = False
    _timer: asyncio.TimerHandle | None = None

    # async only: end
    async def enter(self) -> None:
        """Cancel the current task when the lease ends; blocking: check it at every call."""
        # sync only: self._before = HELD.set((*HELD.get(), self))
        # sync only: self.keep()
        # async only: begin
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        self._entered = True
        self.keep()
        self._watch()
        # async only: end

    def keep(self) -> None:
        """Renew the lease from here on. By itself this ends nothing when the lease does."""
        # async only: begin
        self._loop = asyncio.get_running_loop()
        self._tick()
        # async only: end
        # sync only: self._thread = threading.current_thread()
        self._renewals.add(self, self._asked)

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the block. Raises `LeaseLost` if the end of the lease has cancelled it."""
        self.over = True
        self._renewals.remove(self)
        # sync only: if self._before is not None:
        # sync only:     HELD.reset(self._before)
        # sync only:     self._before = None
        # async only: begin
        self._heartbeat.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if not self._entered:
            return
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            self._lost = True
            raise self.loss() from timeout
        # async only: end

    # --- called by the renewals, from their own thread ------------------------------

    def is_alive(self) -> bool:
        # sync only: return self._thread.is_alive()
        return self._world.monotonic() - self._ticked <= HUNG * self.ttl  # async only

    def lost(self) -> None:
        self._lost = True
        # async only: begin
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
        if self.over or self._timeout.expired():
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

    # async only: end
