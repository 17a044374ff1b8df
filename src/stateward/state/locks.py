"""A lease held for a block of code: locks, leaders, and the right to lead a conversation."""

from __future__ import annotations

from types import TracebackType

from stateward.codec import check_span, check_ttl
from stateward.errors import InvalidInput
from stateward.layers.leases.held import HeldLease
from stateward.ops import CommitsAt, Drop, Head
from stateward.state.handle import Handle

RETAIN = 86_400.0  # a lock not held for a day is removed; its tokens still grow


class Lock:
    """A lock across replicas. `async with` waits for the lease, holds it, and releases it."""

    def __init__(self, handle: Handle, *, ttl: float, wait: float | None) -> None:
        self._handle = handle
        self._leases = handle.scope.leases
        self._ttl = check_ttl(ttl)
        self._wait = None if wait is None else check_span(wait, "wait")
        self._held: HeldLease | None = None

    async def __aenter__(self) -> HeldLease:
        if self._held is not None:
            raise InvalidInput("this lock is already entered; call store.lock(...) for each block")
        entity, retain = self._handle.entity, self._handle.retain
        lease, asked = await self._leases.acquire(
            entity,
            ttl=self._ttl,
            wait=self._wait,
            owner=self._handle.owner,
            retain=retain if retain is None else max(retain, 2 * self._ttl),
        )
        held: HeldLease | None = None
        try:
            held = self._leases.hold(entity, lease, self._ttl, asked)
            held.check()  # the reply may have taken longer than the lease lasts
            await held.enter()
            self._held = held
            return held
        except BaseException:  # also what a signal handler raised
            await self._leases.decline(entity, lease, held)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held, self._held = self._held, None
        assert held is not None
        try:
            await held.leave(kind, error, trace)
            if error is None:
                held.check()
        finally:
            await self._leases.release(held)  # async only
            # sync only: try:
            # sync only:     self._leases.release(held)
            # sync only: except BaseException:
            # sync only:     self._leases.release(held)  # perhaps interrupted before it began
            # sync only:     raise


async def break_lease(handle: Handle, token: int) -> Head | None:
    """Drop the lease with this token; if it is no longer held, return the lock's head.

    A lock consists of its lease alone, so its entity is dropped; what remains has the token.
    """
    while True:
        head = (await handle.fetch()).head
        if head.lease is None or head.lease.token != token:
            return head
        if await handle.commit_if((CommitsAt(head.commits),), Drop()):
            return None
        # Otherwise it was renewed meanwhile, which is still the same lease, or released.
