"""The time in which the holder of a lease may rely on it, and the leases that a thread holds."""

from __future__ import annotations

from contextvars import ContextVar

from stateward.errors import LeaseLost
from stateward.layers.leases.renewal import Renewals
from stateward.ops import Entity, Fence, Lease, Write
from stateward.world import World

SAFE = 0.9  # the part of the ttl that the holder relies on


class LeaseTerm:
    """A lease as its holder sees it, by the holder's own clock."""

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
        self.over = False  # the block was left, even if leaving it was interrupted
        self._world = world
        self._renewals = renewals
        self._asked = asked
        self._deadline = asked + SAFE * ttl
        self._lost = False

    @property
    def fence(self) -> Fence:
        """The check that a commit carries."""
        return Fence(self.token, self.nonce)

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost, or may be by now."""
        if self._lost or self._world.monotonic() >= self._deadline:
            self._lost = True  # a late renewal must not revive a lease already reported as lost
            raise self.loss()

    def loss(self) -> LeaseLost:
        """Return the error of a holder that has lost this lease."""
        return LeaseLost(
            f"the lease with token {self.token} on the {self.entity.kind} {self.entity.id!r} is "
            "over: it could not be renewed in time or was taken over. What it guarded is refused "
            "from now on"
        )

    def renewed(self, asked: float) -> None:
        """Count the ttl from the moment at which the renewal was asked for."""
        self._deadline = asked + SAFE * self.ttl


HELD: ContextVar[tuple[LeaseTerm, ...]] = ContextVar("stateward_held", default=())


def check_held() -> None:
    """Raise `LeaseLost` if a block around the caller has lost its lease. For blocking code."""
    for term in HELD.get():
        if not term.over:
            term.check()
