"""One call of a tool that acts: carried out once, or reported as unknown.

The intention is recorded before the tool is called, and the outcome after it, each in one commit.
If the process dies between the two, only the tool knows what happened: the effect is unknown, and
is not repeated unless `reconcile`, a person, or the service that takes the key decides so.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.codec import check_id, check_span, check_ttl
from stateward.errors import EffectUnknown, InvalidInput, LeaseLost, StoreUnavailable
from stateward.kinds import TASK, WORKFLOW, effect_of
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
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    Lease,
    NotYours,
    Outcome,
    Put,
    SetHead,
    Unheld,
    Write,
)
from stateward.records import Done, NotDone
from stateward.state.calls import awaited
from stateward.state.effect_record import (
    DECIDED,
    DONE,
    ERROR,
    FAILED,
    INTENDED,
    NOT_BEGUN,
    ORPHANED,
    READING,
    RESULT,
    UNDECIDED,
    UNKNOWN,
    EffectOptions,
    Ended,
    Values,
    call_of,
    check_options,
    decided_by,
    effect_info,
    effect_key,
    ended,
    error_text,
    failures,
    intention,
    is_uncertain,
    is_unknown,
    result_text,
    unknown_effect,
    value_of,
)
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.refusals import refuse, stored
from stateward.state.stored_document import document_at
from stateward.state.work import OF_THE_STORE, holds, key_of, working_on

logger = logging.getLogger("stateward.effects")

NEW: tuple[Check, ...] = (Unheld(), Absent())
DRIVEN = (TASK, WORKFLOW)
OWNED = DocumentAt(ORPHANED, 0)


class EffectRun:
    """A call of a tool that acts, in a thread, a workflow or a task (`whose`)."""

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
        self._undecided: Check = DocumentAt(DECIDED, 0)
        self._key = key_of(self._entity)
        self._retain = whose.retain
        self._function, self._args, self._kwargs, self._options = function, args, kwargs, options
        self._call = call_of(function, args, kwargs, options, scope.redact, scope.limits)

    async def recorded(self) -> Ended | None:
        """Return the recorded end, if there is one; raise a recorded failure."""
        fetched = await self._handle.fetch(documents=READING)
        return self._ended(fetched.head, fetched.documents)

    async def run(self) -> Any:
        """Return the recorded result, or call the tool and return its result."""
        if self._scope.capabilities.inline_reads:
            # A hit costs a read instead of a write where reads are almost free.
            recorded = await self.recorded()
            if recorded is not None:
                return self._repeat(recorded)
        if self._handle.owner is None:  # the effect is erased with the user of its thread
            owner = (await self._whose.fetch()).head.owner
            self._handle = replace(self._handle, owner=owner)
        taken = await self._take()
        return self._repeat(taken) if isinstance(taken, Ended) else await self._carry_out(*taken)

    def _repeat(self, recorded: Ended) -> Any:
        self._count("recorded")
        return recorded.value

    def _ended(self, head: Head, values: Values) -> Ended | None:
        return ended(self._entity, self._call, head, values, self._options.attempts)

    # --- acquiring it ---------------------------------------------------------------

    async def _take(self) -> Ended | tuple[Lease, float, Found]:
        """Acquire the right to carry it out and read its record; or return its end.

        Waits while another caller is carrying it out. Raises `EffectUnknown` if none is, its end is
        not recorded, and there is no way to learn it.
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
            end = self._ended(outcome.head, outcome.values)
            if end is not None:
                return end
            self._key = effect_key(self._entity, outcome.values)
            if is_unknown(outcome.head) and not (options.reconcile or options.keyed):
                raise self._unknown()
            before = Found(self._entity, outcome.head, outcome.values)
            checks = (Unheld(), CommitsAt(outcome.head.commits)) if outcome.head.exists else NEW

    async def _ask(self, acquire: Acquire, checks: tuple[Check, ...], before: Found) -> Outcome:
        """Record the intention; in the same round trip, check the owner of the thread."""
        ttl, label = self._options.ttl, self._call.name
        intended = SetHead(status=INTENDED, label=label, due_in=ttl, retain=0.0)
        owned = (Delete(ORPHANED),) if before.head.exists else ()
        commit = Commit(
            self._entity,
            self._scope.world.new_op(),
            (acquire, intended, intention(self._call, self._key), *owned),
            checks,
            self._handle.owner,
            None,  # an undecided effect does not expire
            READING,
        )
        back = UNDECIDED if is_unknown(before.head) else NOT_BEGUN
        whose = Fetch(self._whose.entity, self._whose.owner)
        outcome, theirs = await self._leases.claim_among(commit, whose, undo=(back,))
        of = self._whose.entity
        if isinstance(theirs, Fetched) and theirs.head.exists and of.kind not in DRIVEN:
            self._retain = theirs.head.retain
        # A thread may begin with an effect; a workflow or a task that runs must exist.
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
        return unknown_effect(self._entity, self._key)

    # --- carrying it out ------------------------------------------------------------

    async def _carry_out(self, lease: Lease, asked: float, before: Found) -> Any:
        held = self._leases.hold(self._entity, lease, self._options.ttl, asked, undo=(UNDECIDED,))
        try:
            held.keep()  # losing it ends nothing: a tool that was called may finish
            # A decision takes no lease, so it is noticed by the document that it writes.
            self._undecided = document_at(DECIDED, before.documents.get(DECIDED))
            return await self._try(held, before)
        except BaseException:
            await held.leave(None, None, None)
            await self._leases.release(held, UNDECIDED)  # does nothing if its end was recorded
            raise

    async def _try(self, held: HeldLease, before: Found) -> Any:
        decided: str | None = None
        if is_unknown(before.head):
            answer = await self._answer(before)
            if isinstance(answer, Done):
                return await self._done(held, answer.result, "reconcile")
            if answer is None and not self._options.keyed:
                raise self._unknown()
            decided = "retry" if answer is None else "reconcile"
            logger.info("effect_tried_again", extra={"effect": self._entity.id, "by": decided})
        handled = sys.exc_info()[1]
        try:
            with working_on(self._key):
                value = await awaited(self._function(*self._args, **self._kwargs))
        except BaseException as error:
            home = getattr(inspect.unwrap(self._function), "__module__", None) or ""
            uncertain = is_uncertain(error, handled, home)
            return await self._failed(held, before, error, uncertain)
        return await self._done(held, value, decided)

    async def _answer(self, effect: Found) -> Done | NotDone | None:
        """Ask the caller's `reconcile` function about an effect whose end is unknown."""
        if self._options.reconcile is None:
            return None
        answer = await awaited(self._options.reconcile(effect_info(effect, unheld=True)))
        if answer is None or isinstance(answer, Done | NotDone):
            return answer
        raise InvalidInput(
            f"reconcile answers Done(result), NotDone() or None, not {type(answer).__name__}"
        )

    async def _done(self, held: HeldLease, value: Any, decided: str | None) -> Any:
        """Record the result; return it as every later call will get it."""
        text = result_text(self._call.name, value, self._scope.redact, self._scope.limits)
        end = self._end(DONE)
        outcome = await self._finish(held, Put(RESULT, text), *decided_by(decided), end)
        if isinstance(outcome, Fenced | Conflict):
            # Another process considered it lost meanwhile. The recorded end counts.
            logger.warning("effect_decided_elsewhere", extra={"effect": self._entity.id})
            recorded = await self.recorded()
            if recorded is None:
                refuse(outcome, self._entity)
            return recorded.value
        stored(outcome, self._entity)
        self._count(decided or DONE)
        return value_of(self._entity, text)

    async def _failed(
        self, held: HeldLease, before: Found, error: BaseException, uncertain: bool
    ) -> Any:
        """Record how it failed, or that its end is unknown, and raise, unless it was `Done`."""
        failed = failures(before.documents)
        if uncertain:
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
        outcome = await self._finish(held, put, self._end(FAILED))
        if not isinstance(outcome, Fenced | Conflict):
            stored(outcome, self._entity)
        self._count(FAILED)
        raise error

    def _end(self, status: str) -> SetHead:
        return SetHead(status=status, due=0, retain=self._retain or 0)

    def _error_text(self, error: BaseException, failed: int) -> str:
        return error_text(self._call.name, error, failed, self._scope.redact)

    async def _leave_unknown(self, held: HeldLease, why: str) -> None:
        """Record that the end is unknown; if the store fails, the end of the lease shows it."""
        try:
            await self._finish(held, Put(ERROR, why), UNDECIDED, checks=())
        except StoreUnavailable as error:
            extra = {"effect": self._entity.id, "error": type(error).__name__}
            logger.warning("effect_not_recorded", extra=extra)

    async def _finish(
        self, held: HeldLease, *writes: Write, checks: tuple[Check, ...] = (OWNED,)
    ) -> Outcome:
        await held.leave(None, None, None)
        checks = (self._undecided, *checks)
        outcome = await self._leases.finish(held, *writes, checks=checks)
        if isinstance(outcome, Conflict) and outcome.failed == OWNED:
            outcome = await self._handle.commit((Drop(),), (held.fence,))
        return outcome

    def _count(self, outcome: str) -> None:
        count_effect(self._scope.counters, outcome)
