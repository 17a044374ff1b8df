"""Leases: asked for, waited for, held, and given back.

A lease is granted with a token that only grows. Whoever writes with it as a fence is refused once
somebody else holds it: that, not the lock itself, is what keeps a paused process from
overwriting its successor's work.
"""

from __future__ import annotations

import asyncio
import logging

from stateward.errors import StatewardError, StoreUnavailable
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
    Held,
    Lease,
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


class Leases:
    """The leases of one scope, and those of them that this process holds."""

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

    # --- asking ---------------------------------------------------------------------

    async def acquire(
        self,
        entity: Entity,
        *,
        ttl: float,
        wait: float | None,
        owner: str | None = None,
        retain: float | None = None,
    ) -> tuple[Lease, float]:
        """The lease, and the monotonic time before it was asked for.

        Waits up to `wait` seconds (None: as long as it takes) while another holder has it, then
        raises `LeaseHeld`.
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
            # sync only: except BaseException:  # from a handler of a signal, just then
            # sync only:     self._undo(commit, ())
            # sync only:     raise
            await waiting.pause(outcome, entity)

    async def claim(self, commit: Commit, *undo: Write) -> Outcome:
        """Commit what asks for a lease. Granted to a caller that is gone, it is given back.

        Together with `undo`, whatever ended the caller: a cancellation, or an exception from a
        handler of a signal. Otherwise nobody would know that it was granted, and everybody would
        wait for its ttl.
        """
        return (await self.claim_among(commit, undo=undo))[0]

    async def claim_among(
        self,
        commit: Commit,
        *others: Op,
        undo: tuple[Write, ...] = (),
        deadline: float | None = None,
    ) -> list[Outcome]:
        """The same, with others asked in the same round trip."""
        if self._closed:
            raise closed()  # nobody would give back what is granted from here on
        ops = (commit, *others)
        try:
            return await self._background.awaited(self._execute(ops, deadline))  # async only
            # sync only: return self._execute(ops, deadline)
        except StatewardError:
            raise
        except BaseException:
            self._background.must_finish(self._undo(commit, undo))  # async only
            # sync only: self._undo(commit, undo)
            raise

    async def _undo(self, commit: Commit, undo: tuple[Write, ...]) -> None:
        """Ask again with the same op: the answer is the first, if there was one.

        And if this question overtakes the first, that one is answered as a repetition. A refusal
        is not remembered, though: somebody else may give the lease back before the first arrives,
        and it would be granted to nobody. So a commit that changes nothing uses the op up.
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
                    await self._give_back(commit.entity, (Release(lease.token, lease.nonce), *undo))
        except StatewardError as error:
            _not_released(commit.entity, error)

    # --- holding --------------------------------------------------------------------

    def hold(
        self,
        entity: Entity,
        lease: Lease,
        ttl: float,
        asked: float,
        undo: tuple[Write, ...] = (),
    ) -> HeldLease:
        """A lease that was granted, in the hands of this process; `undo` goes with a release."""
        held = HeldLease(entity, lease, ttl, asked, self._renewals, self._world, undo=undo)
        self._held[held] = None
        return held

    def let_go(self, held: HeldLease) -> bool:
        """This process does not hold it any more; False if it did not before."""
        self._renewals.remove(held)
        known = held in self._held
        self._held.pop(held, None)
        return known

    # --- giving back ----------------------------------------------------------------

    async def decline(self, entity: Entity, lease: Lease, held: HeldLease | None) -> None:
        """Give back what was granted to a block that could not be entered."""
        if held is not None:
            await self.release(held)
            return
        try:
            await self._give_back(entity, (Release(lease.token, lease.nonce),))
        except StoreUnavailable as error:
            _not_released(entity, error)

    async def release(self, held: HeldLease, *more: Write) -> None:
        """Give the lease back. If the store cannot be told, the ttl does it: said in the log."""
        # sync only: held.over = True
        if held not in self._held:
            return  # given back when the store was closed
        self._renewals.remove(held)
        try:
            await self._give_back(held.entity, (Release(held.token, held.nonce), *more))
        except StoreUnavailable as error:
            _not_released(held.entity, error)
        # sync only: except StatewardError:
        # sync only:     raise
        # sync only: except BaseException:  # from a handler of a signal: nobody else will do it
        # sync only:     self._give_back(held.entity, (Release(held.token, held.nonce), *more))
        # sync only:     raise
        finally:
            self.let_go(held)  # told or not: its ttl ends it

    async def finish(
        self, held: HeldLease, *writes: Write, checks: tuple[Check, ...] = ()
    ) -> Outcome:
        """Record how the work ended and give its lease back, if it is still ours."""
        # sync only: held.over = True
        try:
            writes = (*writes, Release(held.token, held.nonce))
            return await self._give_back(held.entity, writes, (held.fence, *checks))
        finally:
            self.let_go(held)  # told or not: its ttl ends it

    async def _give_back(
        self, entity: Entity, writes: tuple[Write, ...], checks: tuple[Check, ...] = ()
    ) -> Outcome:
        """A commit that is made though its caller is cancelled, or a lease around it is lost.

        One that gives a lease back must not be forgotten: everybody would wait for the ttl.
        """
        commit = Commit(entity, self._world.new_op(), writes, checks)
        # async only: begin
        try:
            return (await self._background.awaited(self._execute_past_breaker((commit,))))[0]
        except StatewardError:
            raise
        except BaseException:  # with the same op: it is made once
            giving = self._background.must_finish(self._execute_past_breaker((commit,)))
            giving.add_done_callback(lambda done: _say_if_lost(entity, done))
            raise
        # async only: end
        # sync only: try:
        # sync only:     return self._execute_past_breaker((commit,))[0]
        # sync only: except StatewardError:
        # sync only:     raise
        # sync only: except BaseException:  # a signal's: with the same op, so it is made once
        # sync only:     self._execute_past_breaker((commit,))
        # sync only:     raise

    async def release_all(self) -> None:
        """Release every lease immediately, so that no caller has to wait for a ttl.

        Code that still holds one learns that it has lost it, and no other is asked for any more.
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
        except StoreUnavailable as error:  # the ttl does it
            logger.warning(
                "leases_not_released",
                extra={"leases": len(commits), "error": type(error).__name__},
            )


class LeaseWait:
    """One caller that waits for somebody else's lease to end."""

    def __init__(self, world: World, wait: float | None) -> None:
        self._world = world
        self._end = None if wait is None else world.monotonic() + wait
        self._longest = FIRST_PAUSE

    async def pause(self, held: Held, entity: Entity) -> None:
        """Until it is worth asking again; raises `LeaseHeld` when the time is up."""
        world, end = self._world, self._end
        if end is not None and world.monotonic() >= end:
            refuse(held, entity)
        pause = min(self._longest * (0.5 + world.random() / 2), held.remaining + 0.001)
        if end is not None:
            pause = min(pause, max(0.0, end - world.monotonic()))
        self._longest = min(self._longest * 2, LONGEST_PAUSE)
        await world.pause(pause)


# async only: begin
def _say_if_lost(entity: Entity, giving: asyncio.Task[list[Outcome]]) -> None:
    """The lease of a caller that is gone could not be given back either: the ttl does it."""
    error = None if giving.cancelled() else giving.exception()
    if error is not None:
        _not_released(entity, error)


# async only: end


def _not_released(entity: Entity, error: BaseException) -> None:
    logger.warning(
        "lease_not_released", extra={"entity": entity.kind, "error": type(error).__name__}
    )
