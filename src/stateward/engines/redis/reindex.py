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

import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from stateward.engines.redis.client.cluster import ClusterServers
from stateward.engines.redis.entries import WHOLE, Walk, enter_plan, whole_for_plan, whole_plan
from stateward.engines.redis.plans import Plan, Traits
from stateward.errors import AccessRefused, EntityBusy, StoreFull
from stateward.ops import List, Op

PAGE = 200  # keys that a server looks at for one page of the walk
SOME_SECONDS = 0.25  # that one listing spends on the repair
ALL_SECONDS = math.inf  # the same of an erasure, which also has a deadline

Run = Callable[[Plan[Any], float | None], Coroutine[Any, Any, Any]]


class IndexRepair:
    """The repair as far as this process has come with it."""

    def __init__(self, servers: ClusterServers, traits: Traits, run: Run) -> None:
        self._servers = servers
        self._traits = traits
        self._run = run
        self._monotonic = traits.server.world.monotonic
        self._whole_at = -1  # version of the map of slots for which the index was whole
        self._whole_for = ""  # replication ids
        self._at = Walk()

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
        if ids != self._whole_for and await self._run(whole_for_plan(), deadline) != ids:
            try:
                if not await self._walk(ids, deadline, needs_all):
                    if needs_all:
                        raise EntityBusy(
                            f"{self._servers.name}: a node of the cluster was replaced or "
                            "restarted, and the index may have lost what this call looks for; it "
                            "is being put right: call again in a moment",
                            applied="no",
                        )
                    return
            except StoreFull:
                if needs_all:
                    raise
                return  # what is there can be listed
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
            with suppress(StoreFull):  # then other processes look again
                await self._run(whole_plan(ids), deadline)
        self._whole_for, self._whole_at = ids, version

    async def _walk(self, ids: str, deadline: float | None, needs_all: bool) -> bool:
        """Enter the entries of all heads; return False if time was up before the end.

        Calls that walk at the same time share their progress.
        """
        now = self._monotonic()
        until = now + (ALL_SECONDS if needs_all else SOME_SECONDS)
        if deadline is not None:
            until = min(until, (now + deadline) / 2)
        if ids != self._at.ids:
            self._at = Walk(ids, tuple(self._servers.nodes()))
        while (at := self._at).left and at.ids == ids:
            heads, cursor = await self._servers.scan(at.left[-1], WHOLE, at.cursor, PAGE, deadline)
            if heads:
                await self._run(enter_plan(heads, self._traits), deadline)
            if self._at is at:  # otherwise another call has entered this page
                self._at = at.after(cursor)
            if self._at.left and self._monotonic() >= until:
                return False
        return self._at.ids == ids
