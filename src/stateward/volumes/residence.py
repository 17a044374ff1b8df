"""A volume that belongs to one replica: which state lives on it, and that it is in use.

Entities are divided among the replicas by their id. The list of names that a volume was laid out
for is recorded on it by `stateward rebalance`: with another list, or with none because the volume
is new or was lost, it serves nothing, because a conversation that is still elsewhere would look
like a new one. While a process uses the volume it holds a lease there, so that nothing is moved
under its feet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any

from msgspec.structs import replace

from stateward.codec import decode
from stateward.errors import NotLaidOut, StoreUnavailable, WrongReplica
from stateward.kinds import LAYOUT, REPLICA, UNROUTED, routed_by
from stateward.layers.layer import Execute, Way
from stateward.layers.leases.renewal import Renewals
from stateward.ops import (
    Acquire,
    Applied,
    Commit,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Op,
    Outcome,
)
from stateward.volumes.names import Replicas, replica_names
from stateward.volumes.route import route
from stateward.world import World

logger = logging.getLogger("stateward.replicas")

TTL = 30.0
SAFE = 0.9  # the part of the ttl that the holder relies on

_owner = lru_cache(maxsize=4096)(route)  # a conversation is asked for again and again


class Residence:
    """One replica's right to its own volume, and the holder of the lease that proves it."""

    ttl = TTL
    keeps_due = False

    def __init__(
        self,
        below: Way,
        renewals: Renewals,
        namespace: str,
        replica: str,
        replicas: Replicas,
        world: World,
    ) -> None:
        self.replica = replica
        self.entity = Entity(namespace, REPLICA, "")
        self.token = 0
        self.nonce = ""
        self._replicas = replicas
        self._below = below
        self._renewals = renewals
        self._world = world
        self._lock = threading.Lock()
        self._under_way = 0
        self._deadline = -inf
        self._laid_out: tuple[str, ...] | None = None

    async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """Down to the engine; raises `WrongReplica` for what lives with another replica.

        Listings show what lives here. Raises `NotLaidOut` while the volume is laid out for
        another list of replicas, or is being rebalanced.
        """
        return await self._serve(self._below.execute, ops, deadline)

    async def append(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """Execute an append whose messages may be spilled, as `execute` does."""
        return await self._serve(self._below.append, ops, deadline)

    async def _serve(
        self, below: Execute, ops: Sequence[Op], deadline: float | None
    ) -> list[Outcome]:
        names = replica_names(self._replicas)
        for op in ops:
            if isinstance(op, Commit | Fetch):
                self._check(op.entity, names)
            elif isinstance(op, List) and op.within is not None:
                self._check(op.within, names)
        if names != self._laid_out or self._world.monotonic() >= self._deadline:
            await self._move_in(names)
        # Nothing is written past the right to write: this process may be stopped anywhere.
        deadline = self._deadline if deadline is None else min(deadline, self._deadline)
        with self._lock:
            self._under_way += 1
        try:
            outcomes = await below(ops, deadline)
        finally:
            with self._lock:
                self._under_way -= 1
        return [
            self._own(outcome, names) if type(outcome) is Listed else outcome
            for outcome in outcomes
        ]

    async def admit(self, entity: Entity, deadline: float) -> float:
        """Until when, at the latest, this replica may write to an entity.

        Raises as `execute` does: for who comes in below, with what was kept of it locally.
        """
        names = replica_names(self._replicas)
        self._check(entity, names)
        if names != self._laid_out or self._world.monotonic() >= self._deadline:
            await self._move_in(names)
        return min(deadline, self._deadline)

    def _check(self, entity: Entity, names: tuple[str, ...]) -> None:
        if entity.kind in UNROUTED:
            return
        owner = _owner(routed_by(entity), names)
        if owner != self.replica:
            raise WrongReplica(
                f"the {entity.kind} {entity.id!r} lives with the replica {owner!r}, this is "
                f"{self.replica!r}: send the request there",
                owner=owner,
            )

    def is_home(self, entity: Entity) -> bool:
        """Return whether the entity lives with this replica."""
        names = replica_names(self._replicas)
        return entity.kind in UNROUTED or _owner(routed_by(entity), names) == self.replica

    def _own(self, listed: Listed, names: tuple[str, ...]) -> Listed:
        """A page without what is still here but has to move, or has just been copied here."""
        own = tuple(
            f for f in listed.entities if _owner(routed_by(f.entity), names) == self.replica
        )
        return replace(listed, entities=own)

    # --- moving in and out ----------------------------------------------------------

    async def _move_in(self, names: tuple[str, ...]) -> None:
        """Take the lease between two looks: a rebalance marks the layout, then looks for leases."""
        await self._look(names)
        await self._be_present()
        await self._look(names)
        self._laid_out = names

    async def _look(self, names: tuple[str, ...]) -> None:
        """Raise unless the volume is laid out for these names and for nothing else."""
        layout = Entity(self.entity.namespace, LAYOUT, LAYOUT)
        fetched = (await self._below.execute((Fetch(layout, documents=(LAYOUT,)),)))[0]
        assert isinstance(fetched, Fetched)
        recorded: Any = None
        if LAYOUT in fetched.documents:
            recorded = decode(fetched.documents[LAYOUT].json)
        if recorded == list(names) and fetched.head.lease is None:
            return
        if isinstance(recorded, dict) or fetched.head.lease is not None:
            how = "is being rebalanced, or was when that was interrupted"
        else:
            how = "was never laid out" if recorded is None else f"is laid out for {recorded}"
        if not self._under_way:
            await self.leave()  # it is no one's now: who rebalances need not wait for us
        raise NotLaidOut(
            f"the store of the replica {self.replica!r} {how}; to serve {list(names)} stop the "
            "replicas, run `stateward rebalance` with the stores of all, and start them again"
        )

    async def _be_present(self) -> None:
        with self._lock:  # once a process, not before a fork
            if not self.nonce:
                self.nonce = self._world.new_id()
                self.entity = Entity(self.entity.namespace, REPLICA, self.nonce)
        asked = self._world.monotonic()
        acquire = Acquire(self.nonce, TTL, f"{self.replica} ({self._world.name()})")
        commit = Commit(self.entity, self._world.new_id(), (acquire,), retain=2 * TTL)
        outcome = (await self._below.execute((commit,)))[0]
        first = outcome.first if isinstance(outcome, Duplicate) else outcome
        assert isinstance(first, Applied)
        assert first.lease is not None
        self.token = first.lease.token
        self.renewed(asked)
        self._renewals.add(self, asked)

    async def leave(self) -> None:
        """Say that this process does not use the volume any more."""
        if self._deadline == -inf:
            return
        self._deadline = -inf
        self._renewals.remove(self)
        try:
            await self._below.execute((Commit(self.entity, self._world.new_id(), (Drop(),)),))
        except StoreUnavailable as error:  # the ttl does it
            logger.warning("replica_not_released", extra={"error": type(error).__name__})

    # --- what renews the lease asks -------------------------------------------------

    def is_alive(self) -> bool:
        return True

    def renewed(self, asked: float) -> None:
        self._deadline = asked + SAFE * TTL

    def lost(self) -> None:
        self._deadline = -inf  # the next call asks for it again, and looks again
