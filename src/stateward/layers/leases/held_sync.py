"""The blocking twin of `held.py`: nothing can cancel a thread, so it is told when it asks.

Every call to the store from inside the block checks the lease first (`check_held`).
"""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token
from types import TracebackType

from stateward.layers.leases.held import SAFE, lease_lost
from stateward.layers.leases.renewal import Renewals
from stateward.ops import Entity, Fence, Lease, Write
from stateward.world import World


class HeldLease:
    """What `with store.lock(…) as lease` gives."""

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
        self.over = False  # its block was left, be it that it was interrupted in leaving
        self._thread = threading.current_thread()
        self._before: Token[tuple[HeldLease, ...]] | None = None

    @property
    def fence(self) -> Fence:
        """What a commit checks."""
        return Fence(self.token, self.nonce)

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost, or may be by now."""
        if self._lost or self._world.monotonic() >= self._deadline:
            self._lost = True  # a renewal that comes after all revives nothing that was called over
            raise lease_lost(self.entity, self.token)

    def enter(self) -> None:
        """From here on every call of this thread to the store checks the lease."""
        self._before = _held.set((*_held.get(), self))
        self.keep()

    def keep(self) -> None:
        """From here on it is renewed. By itself this ends nothing when the lease does."""
        self._renewals.add(self, self._asked)

    def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The block is over."""
        self.over = True
        self._renewals.remove(self)
        if self._before is not None:
            _held.reset(self._before)
            self._before = None

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def renewed(self, asked: float) -> None:
        self._deadline = asked + SAFE * self.ttl

    def lost(self) -> None:
        self._lost = True


_held: ContextVar[tuple[HeldLease, ...]] = ContextVar("stateward_held", default=())


def check_held() -> None:
    """Raise `LeaseLost` if a block around the caller has lost its lease."""
    for holding in _held.get():
        if not holding.over:
            holding.check()
