"""Repair of a cluster's index after a failover, which may lose entries of entities that are intact.

An entity and its entries in the index may be on different nodes. They are written in the right
order, but a node whose replica lagged when it failed over, or that restarted without its last
second, has lost entries whose entity is elsewhere. Nothing would ever enter them again, so listings
would miss the entity, and an erasure would leave it.

Each node has a replication id, which changes when a replica takes over, and when a node restarts.
The ids for which the index is known to be whole are stored in the cluster. If they have changed,
every head is looked at, and its entries are entered: by the first process that lists, a little with
each listing, and whatever is found by then is listed. Only what an erasure lists waits for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stateward.engines.redis.client.cluster import ClusterServers
from stateward.engines.redis.client.server import Address
from stateward.engines.redis.entries import WHOLE, enter_plan, whole_for_plan, whole_plan
from stateward.engines.redis.plans import Plan, Traits
from stateward.errors import AccessRefused, EntityBusy
from stateward.ops import List, Op

SOME_SECONDS = 0.25  # that one listing spends on the repair

Run = Callable[[Plan[Any], float | None], Coroutine[Any, Any, Any]]


class IndexRepair:
    """The repair as far as this process has come with it."""

    def __init__(self, servers: ClusterServers, traits: Traits, run: Run) -> None:
        self._servers = servers
        self._traits = traits
        self._run = run
        self._monotonic = traits.server.world.monotonic
        self._whole_at = -1  # version of the map of slots for which the index was whole
        self._ids = ""
        self._left: list[Address] = []  # nodes whose heads are still to be looked at
        self._cursor = b"0"
        self._is_walking = False

    @property
    def version(self) -> int:
        """The version of the map of slots, which grows whenever a node may have been replaced."""
        return self._servers.version

    async def advance(self, ops: Sequence[Op], deadline: float | None) -> None:
        """Make the index whole, or a little more so; raises if these listings need all of it."""
        needs_all = any(type(op) is List and op.owner and op.kind is None for op in ops)
        version = self._servers.version
        if self._whole_at == version and not needs_all:
            return
        ids = await self._servers.replication_ids(deadline)
        if await self._run(whole_for_plan(), deadline) != ids:
            if self._is_walking and not needs_all:
                return
            try:
                if not await self._walk(ids, deadline):
                    if needs_all:
                        raise EntityBusy(
                            f"{self._servers.name}: a node of the cluster was replaced or "
                            "restarted, and the index may have lost what this call looks for; it "
                            "is being put right: call again in a moment",
                            applied="no",
                        )
                    return
            except AccessRefused as error:
                if needs_all:
                    raise AccessRefused(
                        f"{self._servers.name}: a node of the cluster was replaced or restarted, "
                        "and the index must be put right before this call can find everything. "
                        f"Permit this user +scan on all nodes ({error})",
                        applied="no",
                    ) from error
                self._whole_at = version  # as far as this user can know
                return
            if await self._servers.replication_ids(deadline) != ids:
                return await self.advance(ops, deadline)
            await self._run(whole_plan(ids), deadline)
        self._whole_at = version

    async def _walk(self, ids: str, deadline: float | None) -> bool:
        """Enter the entries of all heads; return False if time was up before the end."""
        until = self._monotonic() + SOME_SECONDS
        if deadline is not None:
            until = min(until, (self._monotonic() + deadline) / 2)
        if ids != self._ids:
            self._ids, self._left, self._cursor = ids, self._servers.nodes(), b"0"
        left, self._is_walking = self._left, True
        try:
            while left:
                heads, self._cursor = await self._servers.scan(
                    left[-1], WHOLE, self._cursor, deadline
                )
                if heads:
                    await self._run(enter_plan(heads, self._traits), deadline)
                if self._cursor == b"0":
                    left.pop()
                if left and self._monotonic() >= until:
                    return False
        finally:
            self._is_walking = False
        self._ids = ""
        return True
