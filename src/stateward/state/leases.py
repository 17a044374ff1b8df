"""Leases: requested, waited for, held, and released.

A lease is granted with a token that only grows. A write with the token as its fence is refused once
another holder has the lease: that, not the lock itself, keeps a paused process from overwriting its
successor's work.
"""

from __future__ import annotations

import asyncio
import logging

from stateward.errors import NotReplicated, StatewardError, StoreUnavailable
from stateward.kinds import THREAD
from stateward.layers.layer import Execute
from stateward.layers.leases.held import HeldLease
from stateward.layers.leases.renewal import Renewals
from stateward.layers.queue import closed
from stateward.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    Held,
    Lease,
    LogAt,
    Op,
    Outcome,
    Release,
    SetHead,
    Write,
)
from stateward.state.background import Background
from stateward.state.refusals import refuse, stored
from stateward.world import World

logger = logging.getLogger("stateward.leases")

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
AT_ONCE = 1e-6  # seconds of retention


class Leases:
    """The leases of one scope: requests for them, and those that this process holds."""

    def __init__(
        self,
        execute: Execute,
        execute_past_breaker: Execute,
        renewals: Renewals,
        background: Background,
        world: World,
    ) -> None:
        self._execute = execute
        self._execute_past_breaker = execute_past_breaker
        self._renewals = renewals
        self._background = background
        self._world = world
        self._held: dict[HeldLease, None] = {}  # in the order in which they were granted
        self._closed = False

    # --- requesting -----------------------------------------------------------------

    async def acquire(
        self,
        entity: Entity,
        *,
        ttl: float,
        wait: float | None,
        owner: str | None = None,
        retain: float | None = None,
    ) -> tuple[Lease, float]:
        """Return the lease, and the monotonic time before it was requested.

        Waits up to `wait` seconds (None: without limit) while another holder has it, then raises
        `LeaseHeld`.
        """
        world = self._world
        acquire = Acquire(world.new_id(), ttl, world.name())
        waiting = LeaseWait(world, wait)
        while True:
            asked = world.monotonic()
            commit = Commit(entity, world.new_op(), (acquire,), (), owner, retain)
            outcome = await self.claim(commit)
            # async only: begin
            if not isinstance(outcome, Held):
                lease = stored(outcome, entity).lease
                assert lease is not None
                return lease, asked
            # async only: end
            # sync only: try:
            # sync only:     if not isinstance(outcome, Held):
            # sync only:         lease = stored(outcome, entity).lease
            # sync only:         assert lease is not None
            # sync only:         return lease, asked
            # sync only: except StatewardError:
            # sync only:     raise
            # sync only: except BaseException:  # raised by a signal handler at this moment
            # sync only:     self._undo(commit, ())
            # sync only:     raise
            await waiting.pause(outcome, entity)

    async def claim(self, commit: Commit, *undo: Write) -> Outcome:
        """Commit a request for a lease; release the lease, with `undo`, if the caller is gone.

        That is a caller that was cancelled or interrupted by a signal handler. It would not know
        about the lease, and all others would have to wait for its ttl.
        """
        return (await self.claim_among(commit, undo=undo))[0]

    async def claim_among(
        self,
        commit: Commit,
        *others: Op,
        undo: tuple[Write, ...] = (),
        deadline: float | None = None,
        unreplicated: bool = False,
    ) -> list[Outcome]:
        """Claim as `claim` does, with other operations in the same round trip.

        A lease that too few replicas have confirmed is released again, unless the caller takes it
        `unreplicated`: after a failover another process could be granted it as well.
        """
        if self._closed:
            raise closed()  # a lease granted from here on would not be released
        ops = (commit, *others)
        try:
            return await self._background.awaited(self._execute(ops, deadline))  # async only
            # sync only: return self._execute(ops, deadline)
        except BaseException as error:
            if isinstance(error, NotReplicated) and unreplicated:
                return [*error.outcomes]
            if not isinstance(error, StatewardError) or isinstance(error, NotReplicated):
                self._background.must_finish(self._undo(commit, undo))  # async only
                # sync only: self._undo(commit, undo)
            raise

    async def _undo(self, commit: Commit, undo: tuple[Write, ...]) -> None:
        """Release a lease that an interrupted request may have been granted.

        The request is repeated with the same op, so its outcome is that of the first, or the first
        arrives later as a repetition. A refusal is not remembered, though: if another holder
        released the lease in between, the first request would still be granted when it arrives. So
        a commit that changes nothing uses up the op.
        """
        try:
            outcome = (await self._execute_past_breaker((commit,)))[0]
            while type(outcome) is Held:
                unchanged = CommitsAt(outcome.head.commits)
                used_up = Commit(commit.entity, commit.op, (SetHead(),), (unchanged,))
                outcome = (await self._execute_past_breaker((used_up,)))[0]
                if type(outcome) is Conflict:
                    outcome = (await self._execute_past_breaker((commit,)))[0]
            if type(outcome) is Applied or type(outcome) is Duplicate:
                lease = stored(outcome, commit.entity).lease
                if lease is not None:
                    await self._release(commit.entity, (Release(lease.token, lease.nonce), *undo))
        except StatewardError as error:
            _not_released(commit.entity, error)

    # --- holding --------------------------------------------------------------------

    def hold(
        self, entity: Entity, lease: Lease, ttl: float, asked: float, undo: tuple[Write, ...] = ()
    ) -> HeldLease:
        """Hold a lease that was granted to this process; its release includes `undo`."""
        held = HeldLease(entity, lease, ttl, asked, self._renewals, self._world, undo=undo)
        self._held[held] = None
        return held

    def let_go(self, held: HeldLease) -> bool:
        """Stop holding a lease in this process; return False if it was not held."""
        self._renewals.remove(held)
        was_held = held in self._held
        self._held.pop(held, None)
        return was_held

    # --- releasing ------------------------------------------------------------------

    async def decline(self, entity: Entity, lease: Lease, held: HeldLease | None) -> None:
        """Release a lease that was granted to a block that could not be entered."""
        if held is not None:
            await self.release(held)
            return
        try:
            outcome = await self._release(entity, (Release(lease.token, lease.nonce),))
            await self.end_empty(entity, outcome)
        except StoreUnavailable as error:
            _not_released(entity, error)

    async def release(self, held: HeldLease, *more: Write) -> None:
        """Release the lease. If the store fails, that is logged, and the ttl ends the lease."""
        # sync only: held.over = True
        if held not in self._held:
            return  # released when the store was closed
        self._renewals.remove(held)
        try:
            writes = (Release(held.token, held.nonce), *more)
            await self.end_empty(held.entity, await self._release(held.entity, writes))
        except StoreUnavailable as error:
            _not_released(held.entity, error)
        # sync only: except StatewardError:
        # sync only:     raise
        # sync only: except BaseException:  # raised by a signal handler: no one else releases it
        # sync only:     self._release(held.entity, (Release(held.token, held.nonce), *more))
        # sync only:     raise
        finally:
            self.let_go(held)  # even on failure: its ttl ends it

    async def end_empty(self, entity: Entity, released: Outcome) -> None:
        """End a conversation that holds nothing once its lease is released: no listing shows it.

        It expires instead of being deleted, so what others have begun to write there is stored.
        """
        if entity.kind != THREAD or type(released) is not Applied or released.version:
            return
        fetched = (await self._execute((Fetch(entity, all_documents=True),)))[0]
        if not isinstance(fetched, Fetched) or fetched.documents or not fetched.head.exists:
            return
        unchanged = (CommitsAt(fetched.head.commits), LogAt(0))
        over = Commit(entity, self._world.new_op(), (SetHead(retain=AT_ONCE),), unchanged)
        await self._execute((over,))

    async def finish(
        self, held: HeldLease, *writes: Write, checks: tuple[Check, ...] = ()
    ) -> Outcome:
        """Record how the work ended and release its lease, if it is still held."""
        # sync only: held.over = True
        try:
            writes = (*writes, Release(held.token, held.nonce))
            return await self._release(held.entity, writes, (held.fence, *checks))
        finally:
            self.let_go(held)  # even on failure: its ttl ends it

    async def _release(
        self, entity: Entity, writes: tuple[Write, ...], checks: tuple[Check, ...] = ()
    ) -> Outcome:
        """Commit a release even if its caller is cancelled, or loses a lease around it.

        If a release were dropped, all other callers would wait for the ttl.
        """
        commit = Commit(entity, self._world.new_op(), writes, checks)
        # async only: begin
        try:
            return (await self._background.awaited(self._execute_past_breaker((commit,))))[0]
        except StatewardError:
            raise
        except BaseException:  # the same op, so it is applied once
            release = self._background.must_finish(self._execute_past_breaker((commit,)))
            release.add_done_callback(lambda done: _log_failure(entity, done))
            raise
        # async only: end
        # sync only: try:
        # sync only:     return self._execute_past_breaker((commit,))[0]
        # sync only: except StatewardError:
        # sync only:     raise
        # sync only: except BaseException:  # a signal handler's: same op, applied once
        # sync only:     self._execute_past_breaker((commit,))
        # sync only:     raise

    async def release_all(self) -> None:
        """Release every lease immediately, so that no caller has to wait for a ttl.

        Code that still holds a lease is told that it is lost; further requests are refused.
        """
        self._closed = True
        commits: dict[Entity, Commit] = {}  # of two leases on one entity the older one is lost
        for held in list(self._held):
            self.let_go(held)
            held.lost()
            writes = (Release(held.token, held.nonce), *held.undo)
            commits[held.entity] = Commit(held.entity, self._world.new_op(), writes)
        if not commits:
            return
        try:
            await self._execute_past_breaker(list(commits.values()))
        except StoreUnavailable as error:  # their ttl ends them
            extra = {"leases": len(commits), "error": type(error).__name__}
            logger.warning("leases_not_released", extra=extra)


class LeaseWait:
    """A caller that waits for the lease of another holder to end."""

    def __init__(self, world: World, wait: float | None) -> None:
        self._world = world
        self._end = None if wait is None else world.monotonic() + wait
        self._longest = FIRST_PAUSE

    async def pause(self, held: Held, entity: Entity) -> None:
        """Pause before the next request; raises `LeaseHeld` when the time is up."""
        world, end = self._world, self._end
        if end is not None and world.monotonic() >= end:
            refuse(held, entity)
        pause = min(self._longest * (0.5 + world.random() / 2), held.remaining + 0.001)
        if end is not None:
            pause = min(pause, max(0.0, end - world.monotonic()))
        self._longest = min(self._longest * 2, LONGEST_PAUSE)
        await world.pause(pause)


# async only: begin
def _log_failure(entity: Entity, release: asyncio.Task[list[Outcome]]) -> None:
    """Log that the lease of a caller that is gone could not be released: its ttl ends it."""
    error = None if release.cancelled() else release.exception()
    if error is not None:
        _not_released(entity, error)


# async only: end


def _not_released(entity: Entity, error: BaseException) -> None:
    extra = {"entity": entity.kind, "error": type(error).__name__}
    logger.warning("lease_not_released", extra=extra)
