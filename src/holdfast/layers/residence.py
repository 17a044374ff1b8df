"""A volume that belongs to one replica: which state lives on it, and that it is in use.

Entities are divided among the replicas by their id. The list of names that a volume was laid out
for is recorded on it: with another list it serves nothing until `holdfast rebalance` has moved what
moves, because a conversation that is still elsewhere would look like a new one. While a process
uses the volume it holds a lease there, so that nothing is moved under its feet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from math import inf
from typing import Any, NoReturn

from holdfast.codec import decode, encode
from holdfast.errors import StoreUnavailable, WrongReplica
from holdfast.layering import Replicas, replica_names
from holdfast.layers.stack import Stack
from holdfast.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Op,
    Outcome,
    Put,
    Unheld,
)
from holdfast.routing import route
from holdfast.world import World

logger = logging.getLogger("holdfast.replicas")

LAYOUT = "layout"  # kind, id and document of the record of the list
PRESENCE = "replica"  # kind of the leases of those who use the volume
UNROUTED = frozenset({"erased", "health", LAYOUT, PRESENCE})  # kinds that every volume has
TTL = 30.0
SAFE = 0.9  # the part of the ttl that the holder relies on


class Residence:
    """One replica's right to its own volume. Also what holds the lease that says so."""

    ttl = TTL
    keeps_due = False

    def __init__(
        self, stack: Stack, namespace: str, replica: str, replicas: Replicas, world: World
    ) -> None:
        self.replica = replica
        self.entity = Entity(namespace, PRESENCE, "")
        self.token = 0
        self.nonce = ""
        self._replicas = replicas
        self._execute = stack.execute
        self._renewals = stack.renewals
        self._world = world
        self._naming = threading.Lock()
        self._deadline = -inf
        self._laid_out: tuple[str, ...] | None = None

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """Down to the engine; raises `WrongReplica` for what lives with another replica.

        Listings show what lives here. Raises `StoreUnavailable` while the volume is laid out for
        another list of replicas, or is being rebalanced.
        """
        names = replica_names(self._replicas)
        for op in ops:
            self._check(op, names)
        if names != self._laid_out or self._world.monotonic() >= self._deadline:
            await self._move_in(names)
        outcomes = await self._execute(ops)
        return [
            self._own(outcome, names) if type(outcome) is Listed else outcome
            for outcome in outcomes
        ]

    def _check(self, op: Op, names: tuple[str, ...]) -> None:
        if isinstance(op, Commit | Fetch):
            entity: Entity | None = op.entity
        else:
            entity = op.within if isinstance(op, List) else None
        if entity is None or entity.kind in UNROUTED:
            return
        owner = route(entity.id, names)
        if owner != self.replica:
            raise WrongReplica(
                f"the {entity.kind} {entity.id!r} lives with the replica {owner!r}, this is "
                f"{self.replica!r}: send the request there",
                owner=owner,
            )

    def _own(self, listed: Listed, names: tuple[str, ...]) -> Listed:
        """A page without what is still here but has to move, or has just been copied here."""
        own = tuple(f for f in listed.entities if route(f.entity.id, names) == self.replica)
        return Listed(own, listed.documents, listed.next)

    # --- moving in and out ----------------------------------------------------------

    async def _move_in(self, names: tuple[str, ...]) -> None:
        """Be seen first, then look: whoever rebalances looks for us after it has said so."""
        await self._be_present()
        layout = Entity(self.entity.namespace, LAYOUT, LAYOUT)
        reading = Fetch(layout, documents=(LAYOUT,))
        fetched, listed = await self._execute((reading, List(layout.namespace, expired=True)))
        assert isinstance(fetched, Fetched)
        assert isinstance(listed, Listed)
        used = listed.next is not None or any(
            found.entity.kind not in UNROUTED for found in listed.entities
        )
        if LAYOUT not in fetched.documents and used:
            self._refuse("holds state from before it had replicas", names)
        put = Put(LAYOUT, encode(list(names), "the names of the replicas"))
        checks: tuple[Check, ...] = (Unheld(), DocumentAt(LAYOUT, 0))
        commit = Commit(layout, self._world.new_id(), (put,), checks, reading=(LAYOUT,))
        outcome = (await self._execute((commit,)))[0]
        if isinstance(outcome, Conflict):
            recorded: Any = decode(outcome.values[LAYOUT].json)
            if isinstance(recorded, dict):
                self._refuse(f"was left while it was being rebalanced for {recorded['for']}", names)
            if recorded != list(names):
                self._refuse(f"is laid out for {recorded}", names)
        elif not isinstance(outcome, Applied | Duplicate):
            raise StoreUnavailable(
                f"the store of the replica {self.replica!r} is being rebalanced; try again when "
                "that is done"
            )
        self._laid_out = names

    async def _be_present(self) -> None:
        with self._naming:  # once a process, not before a fork
            if not self.nonce:
                self.nonce = self._world.new_id()
                self.entity = Entity(self.entity.namespace, PRESENCE, self.nonce)
        asked = self._world.monotonic()
        acquire = Acquire(self.nonce, TTL, f"{self.replica} ({self._world.name()})")
        commit = Commit(self.entity, self._world.new_id(), (acquire,), retain=2 * TTL)
        outcome = (await self._execute((commit,)))[0]
        first = outcome.first if isinstance(outcome, Duplicate) else outcome
        assert isinstance(first, Applied)
        assert first.lease is not None
        self.token = first.lease.token
        self.renewed(asked)
        self._renewals.add(self, asked)

    def _refuse(self, how: str, names: tuple[str, ...]) -> NoReturn:
        raise StoreUnavailable(
            f"the store of the replica {self.replica!r} {how}, not for {list(names)}: "
            "stop the replicas, run `holdfast rebalance` with all their stores, start them again"
        )

    async def leave(self) -> None:
        """Say that this process does not use the volume any more."""
        if not self.nonce:
            return
        self._renewals.remove(self)
        self._deadline = -inf
        try:
            await self._execute((Commit(self.entity, self._world.new_id(), (Drop(),)),))
        except StoreUnavailable as error:  # the ttl does it
            logger.warning("replica_not_released", extra={"error": type(error).__name__})

    # --- what renews the lease asks -------------------------------------------------

    def is_alive(self) -> bool:
        return True

    def renewed(self, asked: float) -> None:
        self._deadline = asked + SAFE * TTL

    def lost(self) -> None:
        self._deadline = -inf  # the next call asks for it again, and looks again
