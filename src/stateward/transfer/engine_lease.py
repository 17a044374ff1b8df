"""A lease taken on a blocking engine by a process that moves whole entities."""

from __future__ import annotations

from stateward.engine import SyncEngine
from stateward.ops import (
    Acquire,
    Applied,
    Commit,
    Entity,
    Fence,
    Held,
    Outcome,
    Release,
    Renew,
    Write,
)
from stateward.world import World

PAUSE = 0.2  # seconds between two attempts to take the lease


class EngineLease:
    """A lease that keeps a second process out of the same work, renewed by the work itself."""

    def __init__(
        self, engine: SyncEngine, entity: Entity, world: World, *, ttl: float, holder: str
    ) -> None:
        self._engine = engine
        self._entity = entity
        self._world = world
        self._ttl = ttl
        self._holder = holder
        self._nonce = world.new_id()
        self._token = 0
        self._since = 0.0
        self.granted = 0.0  # when, by the engine's clock

    @property
    def fence(self) -> Fence:
        """Return the fence of a write that only the holder may make."""
        return Fence(self._token, self._nonce)

    def take(self, wait: float) -> bool:
        """Take the lease within so many seconds; return whether that succeeded."""
        end = self._world.monotonic() + wait
        while True:
            self._since = self._world.monotonic()
            outcome = self._commit(Acquire(self._nonce, self._ttl, self._holder))
            if isinstance(outcome, Applied) and outcome.lease is not None:
                self._token, self.granted = outcome.lease.token, outcome.lease.granted
                return True
            if not isinstance(outcome, Held) or self._world.monotonic() >= end:
                return False
            self._world.block(min(PAUSE, outcome.remaining))

    def keep(self) -> bool:
        """Renew the lease when a quarter of it is over; False if the lease was lost meanwhile."""
        return self._world.monotonic() - self._since < self._ttl / 4 or self.renew()

    def renew(self) -> bool:
        """Renew the lease; return whether no one else has held it since it was taken."""
        self._since = self._world.monotonic()
        return isinstance(self._commit(Renew(self._token, self._nonce, self._ttl)), Applied)

    def release(self) -> None:
        self._commit(Release(self._token, self._nonce))

    def _commit(self, write: Write) -> Outcome:
        return self._engine.execute((Commit(self._entity, self._world.new_id(), (write,)),))[0]
