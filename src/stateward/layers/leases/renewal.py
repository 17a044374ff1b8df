"""Keeping leases: renewed beside everything else, through connections of their own.

Renewal does not pass through the coalescer: a queue of slow writes must not cost a lease. It
asks each holder whether its code still runs, because a lease that outlives a hung process guards
nothing.
"""

from __future__ import annotations

import logging
import threading
from math import inf
from typing import Protocol

from stateward.engine import SyncEngine
from stateward.errors import StatewardError
from stateward.observe.counters import Counters
from stateward.ops import Applied, Commit, Duplicate, Entity, Outcome, Renew, SetHead, Write
from stateward.world import Ticker, World

logger = logging.getLogger("stateward.leases")


class Renewable(Protocol):
    """A holder of a lease."""

    entity: Entity
    token: int
    nonce: str
    ttl: float
    keeps_due: bool  # the entity becomes due when its lease is no longer renewed

    def is_alive(self) -> bool:
        """Whether the code that holds the lease still runs."""

    def renewed(self, asked: float) -> None:
        """The store extended the lease; it was asked at this monotonic time."""

    def lost(self) -> None:
        """The store reports that the lease belongs to another holder, or to none."""


class Renewals:
    """All leases of one store."""

    def __init__(self, engine: SyncEngine, world: World, counters: Counters) -> None:
        self._engine = engine
        self._world = world
        self._lock = threading.Lock()
        self._next: dict[Renewable, float] = {}  # when to renew, by the monotonic clock
        self._looks_at = inf  # when the ticker looks next, unless woken: for nothing, perhaps
        self._ticker: Ticker | None = None
        self._open = False
        self._counters = counters
        self._system = engine.capabilities.system or "other"
        counters.leases_lost.setdefault(self._system, 0)  # a rate needs a 0 to start from
        counters.renewals_failed.setdefault(self._system, 0)

    def add(self, lease: Renewable, asked: float) -> None:
        """Renew this one every third of its ttl; it was asked for at this monotonic time."""
        at = asked + lease.ttl / 3  # in the past, if the answer took that long
        with self._lock:
            self._next[lease] = at
            if self._ticker is None:
                self._ticker = self._world.ticker(self._step, "stateward-leases")
            # Waking a thread costs more than the rest of a short task: only if it would be late.
            late, self._looks_at = at < self._looks_at, min(at, self._looks_at)
        if late:
            self._ticker.wake()

    def remove(self, lease: Renewable) -> None:
        """Stop renewing this one; nothing happens if it is not renewed any more."""
        with self._lock:
            self._next.pop(lease, None)

    def close(self) -> None:
        with self._lock:
            ticker, self._ticker = self._ticker, None
            self._next.clear()
            self._looks_at = inf
        if ticker is not None:
            ticker.stop()
        if self._open:
            self._engine.close()
            self._open = False

    def _step(self) -> float | None:
        now = self._world.monotonic()
        with self._lock:
            for lease in [lease for lease in self._next if not lease.is_alive()]:
                del self._next[lease]
            due: dict[Entity, Renewable] = {}
            for lease, at in self._next.items():
                if at <= now:  # a batch holds one commit an entity; a second one is next
                    due.setdefault(lease.entity, lease)
        if due:
            self._renew(list(due.values()), now)
        with self._lock:
            now = self._world.monotonic()
            # A look that was promised stays, though that lease was given back by now: the next one
            # would have to wake this thread again, and short tasks come one after the other.
            promised = self._looks_at if self._looks_at > now else inf
            self._looks_at = min(promised, min(self._next.values(), default=inf))
            return None if self._looks_at == inf else max(0.0, self._looks_at - now)

    def _renew(self, due: list[Renewable], now: float) -> None:
        try:
            if not self._open:
                self._engine.open()
                self._open = True
            outcomes = self._engine.execute([self._renewal(lease) for lease in due])
        except StatewardError as error:
            self._counters.renewals_failed[self._system] += len(due)
            # The holder's own deadline decides when it is too late; until then, try again soon.
            logger.warning("lease_renewal_failed", extra={"error": type(error).__name__})
            with self._lock:
                for lease in due:
                    if lease in self._next:
                        self._next[lease] = now + lease.ttl / 10
            return
        for lease, outcome in zip(due, outcomes, strict=True):
            self._note(lease, outcome, now)

    def _renewal(self, lease: Renewable) -> Commit:
        writes: tuple[Write, ...] = (Renew(lease.token, lease.nonce, lease.ttl),)
        if lease.keeps_due:
            writes = (*writes, SetHead(due_in=lease.ttl))
        return Commit(lease.entity, self._world.new_id(), writes)

    def _note(self, lease: Renewable, outcome: Outcome, now: float) -> None:
        renewed = isinstance(outcome, Applied | Duplicate)
        with self._lock:
            if lease not in self._next:
                return  # given back meanwhile
            if renewed:
                self._next[lease] = now + lease.ttl / 3
            else:
                del self._next[lease]
        if renewed:
            lease.renewed(now)
        else:
            self._counters.leases_lost[self._system] += 1
            logger.warning(
                "lease_lost",
                extra={"kind": lease.entity.kind, "id": lease.entity.id, "token": lease.token},
            )
            lease.lost()
