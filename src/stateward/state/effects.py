"""Effects: tools that act, each call of which is carried out once, or said to be unknown.

What is intended is recorded before the tool is called, and how it ended after it, each in one
commit. Between the two nobody but the tool knows. A process that dies there leaves an effect that
nobody has in hand and whose end is not recorded: it is unknown, and never repeated unless somebody
or something that can know says so.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from stateward.codec import (
    check_count,
    check_id,
    check_span,
    check_ttl,
    encode,
    encode_value,
    listing_mark,
)
from stateward.errors import (
    EffectUnknown,
    InvalidInput,
    LeaseLost,
    Permanent,
    StateConflictError,
    StoreUnavailable,
)
from stateward.kinds import (
    EFFECT,
    TASK,
    THREAD,
    WORKFLOW,
    effect_of,
    effect_parts,
    effects_of,
)
from stateward.layers.leases.held import HeldLease
from stateward.observe.counters import count_effect
from stateward.ops import (
    Absent,
    Acquire,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    Lease,
    List,
    Listed,
    NotYours,
    Outcome,
    Put,
    SetHead,
    StatusIn,
    Unheld,
    Write,
)
from stateward.records import Done, EffectInfo, NotDone
from stateward.state.calls import awaited
from stateward.state.documents import document_at
from stateward.state.effect_record import (
    CALL,
    DECIDED,
    DONE,
    ERROR,
    FAILED,
    INTENDED,
    NOT_BEGUN,
    READING,
    RESULT,
    UNDECIDED,
    UNKNOWN,
    EffectOptions,
    Ended,
    Values,
    call_of,
    check_options,
    effect_info,
    ended,
    error_text,
    failures,
    is_uncertain,
    is_unknown,
    result_text,
    unknown_effect,
    value_of,
)
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.refusals import refuse, stored
from stateward.state.scope import Scope
from stateward.state.work import OF_THE_STORE, holds, working_on

logger = logging.getLogger("stateward.effects")

NEW: tuple[Check, ...] = (Unheld(), Absent())
DRIVEN = (TASK, WORKFLOW)
STATUSES = (INTENDED, DONE, FAILED, UNKNOWN)

Decision = Literal["done", "failed", "not done"]


class EffectRun:
    """One call of a tool that acts, in a thread, a workflow or a task (`whose`)."""

    def __init__(
        self,
        whose: Handle,
        call: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: EffectOptions,
    ) -> None:
        check_options(options)
        check_ttl(options.ttl)
        if options.wait is not None:
            check_span(options.wait, "wait")
        scope = whose.scope
        self._whose = whose
        self._scope = scope
        self._leases = scope.leases
        self._entity = effect_of(whose.entity, check_id(call, "the id of a call"))
        check_id(self._entity.id, "the id of an effect")
        self._handle = Handle(scope, self._entity, whose.owner)
        self._function, self._args, self._kwargs, self._options = function, args, kwargs, options
        self._still: Check = DocumentAt(DECIDED, 0)
        self._call = call_of(function, args, kwargs, options, scope.redact, scope.limits)

    async def recorded(self) -> Ended | None:
        """Its end, if it is recorded; the recorded failure is raised."""
        fetched = await self._handle.fetch(documents=READING)
        return self._ended(fetched.head, fetched.documents)

    async def run(self) -> Any:
        """The result, of the tool now or as it was recorded."""
        if self._scope.capabilities.inline_reads:
            # A hit costs a read instead of a write where reads are almost free.
            found = await self.recorded()
            if found is not None:
                return self._again(found)
        if self._handle.owner is None:  # whoever's it is: so is the effect, to be erased with it
            owner = (await self._whose.fetch()).head.owner
            self._handle = replace(self._handle, owner=owner)
        taken = await self._take()
        return self._again(taken) if isinstance(taken, Ended) else await self._carry_out(*taken)

    def _again(self, found: Ended) -> Any:
        self._count("recorded")
        return found.value

    def _ended(self, head: Head, values: Values) -> Ended | None:
        return ended(self._entity, self._call, head, values, self._options.attempts)

    # --- taking it in hand ----------------------------------------------------------

    async def _take(self) -> Ended | tuple[Lease, float, Found]:
        """The right to carry it out, with what was recorded before; or its end.

        Whoever has it in hand is waited for. Raises `EffectUnknown` if nobody has, its end is not
        recorded, and there is no way to learn it.
        """
        world, options = self._scope.world, self._options
        waiting = LeaseWait(world, options.wait)
        acquire = Acquire(world.new_id(), options.ttl, world.name())
        before = Found(self._entity, Head())
        checks = NEW
        while True:
            asked = world.monotonic()
            outcome = await self._ask(acquire, checks, before)
            if isinstance(outcome, Applied | Duplicate):
                lease = stored(outcome, self._entity).lease
                assert lease is not None
                return lease, asked, before
            if isinstance(outcome, Held):
                self._ended(outcome.head, outcome.values)  # or it is another call
                await waiting.pause(outcome, self._entity)
                continue
            if not isinstance(outcome, Conflict):
                refuse(outcome, self._entity)
            found = self._ended(outcome.head, outcome.values)
            if found is not None:
                return found
            if is_unknown(outcome.head) and not (options.reconcile or options.keyed):
                raise self._unknown()
            before = Found(self._entity, outcome.head, outcome.values)
            checks = (Unheld(), CommitsAt(outcome.head.commits)) if outcome.head.exists else NEW

    async def _ask(self, acquire: Acquire, checks: tuple[Check, ...], before: Found) -> Outcome:
        """Record the intention, and ask in the same round trip whether the thread is theirs."""
        intended = SetHead(status=INTENDED, label=self._call.name, due_in=self._options.ttl)
        commit = Commit(
            self._entity,
            self._scope.world.new_op(),
            (acquire, intended, Put(CALL, self._call.json)),
            checks,
            self._handle.owner,
            None,  # what nobody has decided does not expire
            READING,
        )
        back = UNDECIDED if is_unknown(before.head) else NOT_BEGUN
        whose = Fetch(self._whose.entity, self._whose.owner)
        outcome, theirs = await self._leases.claim_among(commit, whose, undo=(back,))
        of = self._whose.entity
        # A thread may begin with an effect; a workflow or a task that is carried out is there.
        is_gone = isinstance(theirs, Fetched) and not theirs.head.exists and of.kind in DRIVEN
        if isinstance(theirs, NotYours) or is_gone:
            if isinstance(outcome, Applied) and outcome.lease is not None:
                fence = Fence(outcome.lease.token, outcome.lease.nonce)
                await self._handle.commit((Drop(),), (fence,))
            if is_gone:
                raise LeaseLost(
                    f"the {of.kind} {of.id!r} was deleted, or its user erased, before its effect "
                    f"{self._call.name!r} began; the effect was not carried out"
                )
            refuse(theirs, of)
        return outcome

    def _unknown(self) -> EffectUnknown:
        self._count(UNKNOWN)
        logger.warning("effect_unknown", extra={"effect": self._entity.id})
        return unknown_effect(self._entity)

    # --- carrying it out ------------------------------------------------------------

    async def _carry_out(self, lease: Lease, asked: float, before: Found) -> Any:
        held = self._leases.hold(self._entity, lease, self._options.ttl, asked, undo=(UNDECIDED,))
        try:
            held.keep()  # losing it ends nothing: a tool that was called is let come to its end
            # Whoever decides takes no lease, so a decision is noticed by what it leaves.
            self._still = document_at(DECIDED, before.documents.get(DECIDED))
            return await self._tried(held, before)
        except BaseException:
            await held.leave(None, None, None)
            await self._leases.release(held, UNDECIDED)  # unless it was told how it ended
            raise

    async def _tried(self, held: HeldLease, before: Found) -> Any:
        decided: str | None = None
        if is_unknown(before.head):
            answer = await self._answer(before)
            if isinstance(answer, Done):
                return await self._done(held, answer.result, "reconcile")
            if answer is None and not self._options.keyed:
                raise self._unknown()
            decided = "retry" if answer is None else "reconcile"
            logger.info("effect_tried_again", extra={"effect": self._entity.id, "by": decided})
        try:
            with working_on(self._entity):
                value = await awaited(self._function(*self._args, **self._kwargs))
        except BaseException as error:
            return await self._failed(held, before, error)
        return await self._done(held, value, decided)

    async def _answer(self, found: Found) -> Done | NotDone | None:
        """What the caller's function says of an effect that nobody knows the end of."""
        if self._options.reconcile is None:
            return None
        answer = await awaited(self._options.reconcile(effect_info(found, unheld=True)))
        if answer is None or isinstance(answer, Done | NotDone):
            return answer
        raise InvalidInput(
            f"reconcile answers Done(result), NotDone() or None, not {type(answer).__name__}"
        )

    async def _done(self, held: HeldLease, value: Any, decided: str | None) -> Any:
        """Record the result; what is returned is what every later call gets."""
        text = result_text(self._call.name, value, self._scope.redact, self._scope.limits)
        end = SetHead(status=DONE, due=0, retain=self._whose.retain or 0)
        outcome = await self._finish(held, Put(RESULT, text), *_decided(decided), end)
        if isinstance(outcome, Fenced | Conflict):
            # Somebody took it for lost meanwhile. What counts is what is recorded.
            logger.warning("effect_decided_elsewhere", extra={"effect": self._entity.id})
            found = await self.recorded()
            if found is None:
                refuse(outcome, self._entity)
            return found.value
        stored(outcome, self._entity)
        self._count(decided or DONE)
        return value_of(self._entity, text)

    async def _failed(self, held: HeldLease, before: Found, error: BaseException) -> Any:
        """Record how it failed, or that nobody knows; raises, unless `reconcile` knows better."""
        failed = failures(before.documents)
        if is_uncertain(error):
            of_the_tool = isinstance(error, Exception) and not holds(error, OF_THE_STORE)
            answer: Done | NotDone | None = None
            if of_the_tool and self._options.reconcile is not None:
                fetched = await self._handle.fetch(documents=READING)
                answer = await self._answer(Found(self._entity, fetched.head, fetched.documents))
            if isinstance(answer, Done):
                return await self._done(held, answer.result, "reconcile")
            if answer is None:
                await self._leave_unknown(held, self._error_text(error, failed))
                unknown = self._unknown()
                if of_the_tool:
                    raise unknown from error
                raise error
        put = Put(ERROR, self._error_text(error, failed + 1))
        end = SetHead(status=FAILED, due=0, retain=self._whose.retain or 0)
        outcome = await self._finish(held, put, end)
        if not isinstance(outcome, Fenced | Conflict):
            stored(outcome, self._entity)
        self._count(FAILED)
        raise error

    def _error_text(self, error: BaseException, failed: int) -> str:
        return error_text(self._call.name, error, failed, self._scope.redact)

    async def _leave_unknown(self, held: HeldLease, why: str) -> None:
        """Say so in the store; if that cannot be told, the end of the lease does."""
        try:
            await self._finish(held, Put(ERROR, why), UNDECIDED)
        except StoreUnavailable as error:
            extra = {"effect": self._entity.id, "error": type(error).__name__}
            logger.warning("effect_not_recorded", extra=extra)

    async def _finish(self, held: HeldLease, *writes: Write) -> Outcome:
        await held.leave(None, None, None)
        return await self._leases.finish(held, *writes, checks=(self._still,))

    def _count(self, outcome: str) -> None:
        count_effect(self._scope.counters, outcome)


class Effect:
    """A handle on an effect by its id, to inspect, resolve or delete it. Creation does no I/O."""

    def __init__(self, scope: Scope, id: str, retain: float | None) -> None:
        if effect_parts(check_id(id, "the id of an effect")) is None:
            raise InvalidInput(
                f"{id!r} is not the id of an effect, which looks like 'thread/<thread>/<call>'; "
                "store.effects() lists them"
            )
        self._handle = Handle(scope, Entity(scope.namespace, EFFECT, id))
        self._retain = retain

    @property
    def id(self) -> str:
        return self._handle.entity.id

    async def info(self) -> EffectInfo | None:
        """Return what is known about the effect; None if it does not exist."""
        scope, entity = self._handle.scope, self._handle.entity
        fetched = await self._handle.fetch(documents=READING)
        head = fetched.head
        if not head.exists:
            return None
        if head.status == INTENDED and head.due is not None:
            # Whether somebody has it, the engine's clock knows: what it lists as due, nobody has.
            before = encode([head.due, EFFECT, entity.id[:-1]], "a cursor")
            due = List(scope.namespace, EFFECT, prefix=entity.id, due=True, after=before)
            (page,) = await scope.execute((replace(due, documents=READING, limit=1),))
            assert isinstance(page, Listed)
            for found in page.entities:
                if found.entity == entity:
                    return effect_info(found, unheld=True)
        return effect_info(Found(entity, head, fetched.documents))

    async def resolve(
        self,
        decision: Decision,
        *,
        result: Any = None,
        error: str = "",
        by: str = "a person",
    ) -> EffectInfo:
        """Record the outcome of an effect that is unknown or failed.

        "done": it happened, and every call gets `result`. "failed": it did not happen and must not
        be retried; every call raises `error`, as a `Permanent`. "not done": it did not happen; the
        next call carries it out. `by` is recorded with it. Raises `LeaseHeld` while a process is
        carrying it out, and `StateConflictError` if it is done.
        """
        entity = self._handle.entity
        writes = (*self._decision(decision, result, error), *_decided(by))
        still = StatusIn((INTENDED, UNKNOWN, FAILED))
        outcome = await self._handle.commit(writes, (Unheld(), still), reading=READING)
        if isinstance(outcome, Conflict):
            if not outcome.head.exists:
                raise InvalidInput(f"there is no effect {self.id!r}; store.effects() lists them")
            raise StateConflictError(
                f"the effect {self.id!r} is done, and its result recorded: there is nothing to "
                "decide",
                expected=still.statuses,
                current=outcome.head.status,
            )
        stored(outcome, entity)
        count_effect(self._handle.scope.counters, "resolved")
        logger.info("effect_resolved", extra={"effect": self.id, "decision": decision})
        info = await self.info()
        if info is None:
            raise InvalidInput(f"the effect {self.id!r} has been removed")
        return info

    def _decision(self, decision: str, result: Any, error: str) -> tuple[Write, ...]:
        scope = self._handle.scope
        if decision == "not done":
            return (NOT_BEGUN,)
        end = SetHead(
            status=DONE if decision == "done" else FAILED, due=0, retain=self._retain or 0
        )
        if decision == "done":
            encode_value(result, "the result", scope.limits)  # or raises
            return end, Put(RESULT, result_text("", result, scope.redact, scope.limits))
        if decision == "failed":
            why = error or "a person decided that it has failed"
            return end, Put(ERROR, error_text("", Permanent(why), 1, scope.redact))
        raise InvalidInput(f'the decision is "done", "failed" or "not done", not {decision!r}')

    async def delete(self) -> None:
        """Delete the record: the next call carries out the effect as if it were the first."""
        stored(await self._handle.commit((Drop(),)), self._handle.entity)


def _decided(by: str | None) -> tuple[Write, ...]:
    return () if by is None else (Put(DECIDED, encode({"by": by}, "who decided")),)


async def list_effects(
    scopes: Sequence[Scope],
    status: str | None,
    owner: str | None,
    whose: Entity | None,
    name: str | None,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[EffectInfo]:
    """Effects by id; those that are unknown the oldest first, which is one page of one index."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"status is one of {', '.join(STATUSES)}, not {status!r}")
    left = None if limit is None else check_count(limit, "limit")
    prefix = "" if whose is None else effects_of(whose)
    if after is not None:
        due, _, id = listing_mark(after)
        after = encode([due if status == UNKNOWN else 0.0, EFFECT, id], "a cursor")
        if id.partition("/")[0] != THREAD:
            scopes = scopes[-1:]  # those of threads come first, and are shown already
    for scope in scopes:
        op = List(
            scope.namespace, EFFECT, owner=owner, prefix=prefix, label=name, documents=READING
        )
        op, after = replace(op, after=after), None
        async for info in _listed(scope, op, status):
            yield info
            if left is not None:
                left -= 1
                if not left:
                    return


async def _listed(scope: Scope, op: List, status: str | None) -> AsyncIterator[EffectInfo]:
    if status == UNKNOWN:
        async for page in scope.pages(replace(op, due=True)):
            for found in page.entities:
                yield effect_info(found, unheld=True)
        return
    undecided: set[Entity] = set()
    if status in (None, INTENDED):
        async for page in scope.pages(replace(op, due=True, documents=(), after=None)):
            undecided.update(found.entity for found in page.entities)
    async for page in scope.pages(replace(op, status=status)):
        for found in page.entities:
            if found.entity not in undecided:
                yield effect_info(found)
            elif status is None:
                yield effect_info(found, unheld=True)


async def give_effects(scope: Scope, whose: Entity, user: str) -> None:
    """Give the effects of a conversation that was nobody's to the user that it has now."""
    op = List(scope.namespace, EFFECT, owner="", prefix=effects_of(whose))
    async for page in scope.pages(op):
        for found in page.entities:
            give = Commit(found.entity, scope.world.new_op(), (SetHead(owner=user),), (), owner="")
            await scope.execute((give,))
