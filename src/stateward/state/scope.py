"""What every kind of state needs from its store, in one small object."""

from __future__ import annotations

import asyncio
import logging

# sync only: import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

from stateward.codec import Limits, check_id
from stateward.errors import (
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    StateConflictError,
    StatewardError,
    StoreUnavailable,
)
from stateward.layers.leases.held import HeldLease
from stateward.layers.stack import Stack
from stateward.ops import (
    Applied,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Duplicate,
    Entity,
    Fenced,
    Fetch,
    Fetched,
    Held,
    KeyReused,
    Lease,
    LogAt,
    NotYours,
    Op,
    Outcome,
    Release,
    SetHead,
    Write,
)

# sync only: from stateward.layers.leases.held import check_held
from stateward.volumes.residence import Residence
from stateward.world import World

logger = logging.getLogger("stateward.leases")

PLAIN_KEPT = 10_000

T = TypeVar("T")

Redact = Callable[[dict[str, Any]], dict[str, Any]]


# Called with the thread, its user and the messages, after they were stored.
OnAppend = Callable[[str, str | None, Sequence[Mapping[str, Any]]], object]


class Scope:
    """A namespace of a store, and the way down to its engine."""

    def __init__(
        self,
        namespace: str,
        stack: Stack,
        *,
        world: World,
        limits: Limits,
        residence: Residence | None = None,
        redact: Redact | None = None,
        on_append: OnAppend | None = None,
    ) -> None:
        self.namespace = check_id(namespace, "a namespace")
        self.stack = stack
        self.residence = residence
        self._execute = stack.execute
        self._execute_past_breaker = stack.execute_past_breaker
        self.suppress = stack.suppress  # None: a failed append raises like everything else
        self.wait = stack.wait
        self.capabilities = stack.capabilities
        self.world = world
        self.limits = limits
        self.redact = redact
        self.counters = stack.counters
        self.context_break = stack.context_break
        self._renewals = stack.renewals
        self._holdings: dict[HeldLease, None] = {}  # in the order in which they were granted
        self.on_append = on_append
        self._behind: set[asyncio.Task[Any]] = set()  # async only
        self._aside: dict[Any, Any] = {}
        self.plain_beginnings: dict[Entity, int] = {}  # threads without system messages, by life
        self._queues: WeakValueDictionary[tuple[Entity, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def holder(self) -> str:
        """How this process is named on the leases it holds."""
        return self.world.name()

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """Down to the engine, in one round trip; what lives with another replica raises."""
        # sync only: check_held()
        if self.residence is not None:
            return await self.residence.execute(ops)
        return await self._execute(ops)

    async def execute_here(self, ops: Sequence[Op]) -> list[Outcome]:
        """Down to the engine, whoever's it is: also what another replica has a right to."""
        # sync only: check_held()
        return await self._execute(ops)

    def hold(
        self, entity: Entity, lease: Lease, ttl: float, asked: float, keeps_due: bool = False
    ) -> HeldLease:
        """A lease that was granted, in the hands of this process."""
        holding = HeldLease(
            entity, lease, ttl, asked, self._renewals, self.world, keeps_due=keeps_due
        )
        self._holdings[holding] = None
        return holding

    def let_go(self, holding: HeldLease) -> bool:
        """This process does not hold it any more; False if it did not before."""
        self._renewals.remove(holding)
        held = holding in self._holdings
        self._holdings.pop(holding, None)
        return held

    async def give_back(
        self, entity: Entity, writes: tuple[Write, ...], checks: tuple[Check, ...] = ()
    ) -> Outcome:
        """A commit that is made though its caller is cancelled, or a lease around it is lost.

        One that gives a lease back must not be forgotten: everybody would wait for the ttl.
        """
        commit = Commit(entity, self.world.new_op(), writes, checks)
        # async only: begin
        giving = self.behind(self._execute_past_breaker((commit,)))
        try:
            return (await asyncio.shield(giving))[0]
        except asyncio.CancelledError:  # nobody else will hear how it ended
            giving.add_done_callback(lambda done: _say_if_lost(entity, done))
            raise
        # async only: end
        # sync only: return self._execute_past_breaker((commit,))[0]

    # async only: begin
    def behind(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """What has to be done though its caller is gone; `release_all` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    # async only: end

    def aside(self, work: Callable[[], Coroutine[Any, Any, Any]], name: Any) -> None:
        """Do something that nobody waits for, unless something of that name is under way here."""
        if name in self._aside:
            return
        # async only: begin
        task = asyncio.get_running_loop().create_task(work())
        self._aside[name] = task
        task.add_done_callback(lambda _: self._aside.pop(name, None))
        # async only: end
        # sync only: thread = threading.Thread(target=self._work_aside, args=(work, name))
        # sync only: thread.daemon = True
        # sync only: self._aside[name] = thread
        # sync only: thread.start()

    # sync only: def _work_aside(self, work: Callable[[], Any], name: Any) -> None:
    # sync only:     try:
    # sync only:         work()
    # sync only:     finally:
    # sync only:         self._aside.pop(name, None)

    async def end_aside(self) -> None:
        """Cancel what nobody waits for; a blocking store waits for it a little instead."""
        for task in list(self._aside.values()):
            # async only: begin
            task.cancel()
            await asyncio.wait((task,))
            # async only: end
            # sync only: task.join(5.0)

    def remember_plain(self, entity: Entity, life: int) -> None:
        """This thread, in this life, does not begin with system messages."""
        while len(self.plain_beginnings) >= PLAIN_KEPT:
            self.plain_beginnings.pop(next(iter(self.plain_beginnings)), None)
        self.plain_beginnings[entity] = life

    async def release_all(self) -> None:
        """Give every lease back at once, so that nobody waits for a ttl, be it to drive it.

        Code that still holds one learns that it has lost it.
        """
        await self.end_aside()
        # async only: begin
        while self._behind:
            await asyncio.wait(self._behind)
        # async only: end
        commits: dict[Entity, Commit] = {}  # of two leases on one entity the older one is lost
        for holding in list(self._holdings):
            self.let_go(holding)
            holding.lost()
            writes: tuple[Write, ...] = (Release(holding.token, holding.nonce),)
            if holding.keeps_due:
                writes = (*writes, SetHead(due_in=0))
            commits[holding.entity] = Commit(holding.entity, self.world.new_op(), writes)
        if not commits:
            return
        try:
            await self._execute_past_breaker(list(commits.values()))
        except StoreUnavailable as error:  # the ttl does it
            logger.warning(
                "leases_not_released",
                extra={"leases": len(commits), "error": type(error).__name__},
            )

    async def close(self) -> None:
        """Give everything back, then let go of the engine."""
        if self.stack.is_open():
            await self.release_all()
            if self.residence is not None:
                await self.residence.leave()
        await self.stack.close()

    def queue(self, entity: Entity, name: str) -> asyncio.Lock:
        """A lock within this process for those who have met a conflict over one document.

        Only a courtesy: it keeps a hundred tasks of one replica from racing each other. What
        keeps changes from getting lost is the version check.
        """
        return self._queues.setdefault((entity, name), asyncio.Lock())

    def entity(self, kind: str, id: str) -> Entity:
        """The address of a thing in this namespace."""
        return Entity(self.namespace, kind, check_id(id, f"the id of a {kind}"))

    async def commit(
        self,
        entity: Entity,
        writes: tuple[Write, ...],
        checks: tuple[Check, ...] = (),
        *,
        owner: str | None = None,
        retain: float | None = None,
        reading: tuple[str, ...] = (),
        op: str | None = None,
    ) -> Outcome:
        """One commit, with a fresh op unless given one, as the engine answered it."""
        op = op or self.world.new_op()
        commit = Commit(entity, op, writes, checks, owner, retain, reading)
        return (await self.execute((commit,)))[0]

    async def fetch(self, fetch: Fetch) -> Fetched:
        """One fetch; another's entity raises."""
        outcome = (await self.execute((fetch,)))[0]
        if type(outcome) is not Fetched:
            refuse(outcome, fetch.entity)
        return outcome


# async only: begin
def _say_if_lost(entity: Entity, giving: asyncio.Task[list[Outcome]]) -> None:
    """The lease of a caller that is gone could not be given back either: the ttl does it."""
    error = None if giving.cancelled() else giving.exception()
    if error is not None:
        logger.warning(
            "lease_not_released", extra={"entity": entity.kind, "error": type(error).__name__}
        )


# async only: end


def stored(outcome: Outcome, entity: Entity) -> Applied:
    """What was stored by this call, now or at an earlier try; every refusal raises."""
    if type(outcome) is Applied:
        return outcome
    if type(outcome) is Duplicate:
        return outcome.first
    refuse(outcome, entity)


def refuse(outcome: Outcome, entity: Entity) -> NoReturn:
    """The exception that says in words what the engine refused."""
    what = f"{entity.kind} {entity.id!r}"
    error: StatewardError
    match outcome:
        case NotYours():
            error = NotYoursError(
                f"the {what} does not belong to the user it was addressed with; check the id and "
                "the user, or claim() a conversation that was begun without one"
            )
        case KeyReused(key=key, version=version):
            error = KeyReusedError(
                f"the key {key!r} was already used in the {what} (at version {version}) for other "
                "messages; use a new key for a new turn"
            )
        case Conflict(failed=LogAt(version=expected), head=head):
            error = StateConflictError(
                f"the {what} is at version {head.version}, not at {expected}: somebody else wrote "
                "first; load it again and decide anew",
                expected=expected,
                current=head.version,
            )
        case Conflict(failed=DocumentAt(name=name, version=expected), values=values):
            current = values[name].version if name in values else 0
            error = StateConflictError(
                f"the document {name!r} of the {what} is at version {current}, not at {expected}: "
                "somebody else changed it first; get it again and decide anew",
                expected=expected,
                current=current,
            )
        case Conflict(failed=failed, head=head):
            error = StateConflictError(
                f"the {what} is not as expected ({failed}); its status is {head.status!r}",
                expected=failed,
                current=head.status,
            )
        case Held(remaining=remaining, head=head):
            holder = head.lease.holder if head.lease else ""
            error = LeaseHeld(
                f"the {what} is held by {holder!r} for up to {remaining:.1f} s",
                remaining=remaining,
                holder=holder,
            )
        case Fenced():
            error = LeaseLost(
                f"the lease on the {what} was released or taken over; nothing was written"
            )
        case _:
            raise AssertionError(f"no refusal: {outcome!r}")
    raise error
