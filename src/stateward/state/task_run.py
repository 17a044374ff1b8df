"""Work whose result is recorded once, however often and by whichever process it is delivered.

The effect of a task may happen twice if a process dies between the effect and its record (pass
`idempotency_key()` on); its result is recorded once, and every delivery gets that result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from stateward.codec import MOST, check_span, check_time, check_ttl, decode, encode, shown
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseLost,
    Permanent,
    StoreClosed,
    StoreUnavailable,
    TaskCancelled,
    TaskFailed,
)
from stateward.kinds import TASK
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Absent,
    Acquire,
    Applied,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Duplicate,
    Fenced,
    Head,
    Held,
    Outcome,
    Put,
    SetHead,
    StatusIn,
)
from stateward.state.calls import awaited, cancellations, interrupted
from stateward.state.handle import Handle
from stateward.state.leases import LeaseWait
from stateward.state.refusals import refuse, stored
from stateward.state.scope import Scope
from stateward.state.task_record import (
    CALL,
    CANCELLED,
    COMPLETED,
    DEATHS,
    DEATHS_FORGIVEN,
    DIED,
    ERROR,
    FAILED,
    FIRST_RETRY,
    LONGEST_RETRY,
    PENDING,
    READING,
    RESULT,
    RUNNING,
    Claim,
    Finished,
    TaskOptions,
    Values,
    call_of,
    cancelled_because,
    claimable,
    deaths,
    failures,
    is_runnable,
    scheduled_attempts,
)
from stateward.state.work import (
    OF_THE_STORE,
    error_record,
    error_text,
    holds,
    result_json,
    working_on,
)

BACK_TO_OTHERS = SetHead(status=PENDING, due_in=0)


class TaskRun:
    """One delivery of a task: runs its function unless a result is recorded."""

    claimed = False  # whether this delivery had the right to run it
    _cancellations = 0

    def __init__(
        self,
        scope: Scope,
        id: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
    ) -> None:
        self._handle = Handle(scope, scope.entity(TASK, id), options.owner, options.retain)
        self._entity = self._handle.entity
        self._function, self._args, self._kwargs, self._options = function, args, kwargs, options
        check_ttl(options.ttl)
        if options.wait is not None:
            check_span(options.wait, "wait")
        if type(options.attempts) is not int or not 1 <= options.attempts <= MOST:
            raise InvalidInput(
                f"attempts is a whole number from 1 to {MOST}, not {shown(options.attempts)}"
            )
        self._call = call_of(function, args, kwargs, options.fingerprint, scope.limits)

    async def run(self) -> Any:
        """Return the result, computed now or recorded earlier; None if it was only scheduled."""
        if self._handle.scope.capabilities.inline_reads:
            # A hit costs a read instead of a write where reads are almost free.
            fetched = await self._handle.fetch(documents=READING)
            if fetched.head.status in (COMPLETED, FAILED, CANCELLED):
                finished = self._judge(fetched.head, fetched.documents)
                if finished is not None:
                    return finished.value
        if self._options.at is not None and await self._schedule(self._options.at):
            return None
        claimed = await self._claim()
        if isinstance(claimed, Finished):
            return claimed.value
        try:
            return await self._carry_out(claimed)
        except LeaseLost:
            await self._raise_if_cancelled()
            raise

    async def _schedule(self, at: datetime | float) -> bool:
        """Record a task to run later; False if its time has come."""
        due = check_time(at, "at")
        left = due - self._handle.scope.world.now()
        if left <= 0:
            return False
        if self._call.arguments is None:
            raise InvalidInput(
                f"the task {self._entity.id!r} is to run later, but its arguments are not JSON, or "
                "too large, and cannot be stored until then; pass ids or plain values"
            )
        retain = self._options.retain
        span = None if retain is None else left + retain
        call = encode(decode(self._call.json) | {"attempts": self._options.attempts}, "the call")
        handle = Handle(self._handle.scope, self._entity, self._options.owner, span)
        record = (SetHead(status=PENDING, label=self._call.name, due=due), Put(CALL, call))
        outcome = await handle.commit(record, (Absent(),), reading=READING)
        if isinstance(outcome, Conflict):
            head, values = outcome.head, outcome.values
            if self._judge(head, values) is not None or head.status != PENDING:
                return False
            if is_runnable(values):
                return True  # recorded already
            # It is to be retried, and no delivery could store its arguments until now.
            same = DocumentAt(CALL, values[CALL].version, values[CALL].stamp)
            outcome = await handle.commit(record, (StatusIn((PENDING,)), same))
            if isinstance(outcome, Conflict):
                return False  # another delivery claimed it: wait for that
        stored(outcome, self._entity)
        return True

    async def _claim(self) -> Claim | Finished:
        """Wait for the right to run the task, or for its result."""
        world = self._handle.scope.world
        waiting = LeaseWait(world, self._options.wait)
        nonce = world.new_id()
        checks: tuple[Check, ...] = (Absent(),)
        died = False
        while True:
            asked = world.monotonic()
            outcome = await self._try_claim(nonce, checks, died)
            if type(outcome) is Applied or type(outcome) is Duplicate:
                applied, values = stored(outcome, self._entity), outcome.values
                assert applied.lease is not None
                died_with_it = applied.documents.get(DEATHS) or deaths(values)
                attempts = scheduled_attempts(values)
                return Claim(applied.lease, asked, failures(values), attempts, died_with_it)
            if type(outcome) is Conflict:
                finished = self._judge(outcome.head, outcome.values)
                if finished is not None:
                    return finished
                checks = claimable(outcome.head, outcome.values)
                died = outcome.head.lease is not None  # a holder that lives gives its lease back
                continue
            if not isinstance(outcome, Held):
                refuse(outcome, self._entity)
            self._judge(outcome.head, outcome.values)
            await waiting.pause(outcome, self._entity)

    async def _try_claim(self, nonce: str, checks: tuple[Check, ...], died: bool) -> Outcome:
        options = self._options
        new = checks == (Absent(),)
        more = Put(CALL, self._call.json) if new else DIED
        take = (
            Acquire(nonce, options.ttl, self._handle.scope.world.name()),
            SetHead(status=RUNNING, label=self._call.name, due_in=options.ttl),
        )
        claim = Commit(
            self._entity,
            self._handle.scope.world.new_op(),
            (*take, more) if new or died else take,
            checks,
            options.owner,
            options.retain,
            READING,
        )
        return await self._handle.scope.leases.claim(claim, BACK_TO_OTHERS)

    def _judge(self, head: Head, values: Values) -> Finished | None:
        """Return the recorded result, if any; raises if the task failed or the call differs."""
        if not head.exists:
            return None
        recorded = decode(values[CALL].json)["fingerprint"] if CALL in values else None
        if recorded and self._call.fingerprint and recorded != self._call.fingerprint:
            raise KeyReusedError(
                f"the task {self._entity.id!r} was already used with other arguments; use a new "
                "id for new work (or pass fingerprint= to say what makes two calls the same)"
            )
        if head.status == COMPLETED:
            return Finished(decode(values[RESULT].json)["value"])
        if head.status == CANCELLED:
            raise TaskCancelled(
                f"the task {self._entity.id!r} was cancelled: {cancelled_because(values)}; "
                "store.task(id).retry() lets it run again",
                task=self._entity.id,
            )
        if head.status == FAILED and ERROR in values:
            error = decode(values[ERROR].json)
            if error["permanent"] or error["failures"] >= self._options.attempts:
                raise TaskFailed(
                    f"the task {self._entity.id!r} failed permanently after {error['failures']} "
                    f"attempt(s): {error_text(error)}",
                    task=self._entity.id,
                )
        return None

    async def _carry_out(self, claim: Claim) -> Any:
        self.claimed, entity, ttl = True, self._entity, self._options.ttl
        leases = self._handle.scope.leases
        held = leases.hold(entity, claim.lease, ttl, claim.asked, undo=(BACK_TO_OTHERS,))
        self._cancellations = cancellations()
        try:
            await held.enter()
            held.check()  # the claim may have outlasted the lease
            if claim.deaths >= self._options.attempts + DEATHS_FORGIVEN:
                raise Permanent(
                    f"{claim.deaths} processes have died with the task {entity.id!r} in hand"
                )
            with working_on(entity):
                value = await awaited(self._function(*self._args, **self._kwargs))
            text = result_json(value, f"the task {entity.id!r}", self._handle.scope.limits)
        except BaseException as error:
            await self._failed(held, claim, error)
            raise
        try:
            await held.leave(None, None, None)
            return await self._record(held, text)
        except BaseException:
            await leases.release(held, BACK_TO_OTHERS)  # no effect if the end is recorded
            raise

    async def _record(self, held: HeldLease, text: str) -> Any:
        """Record the result, and return it as every later delivery gets it."""
        end = SetHead(status=COMPLETED, due=0, retain=self._options.retain or 0)
        result = (Put(RESULT, text), *self._call.forgotten)
        outcome = await self._handle.scope.leases.finish(held, *result, end)
        if isinstance(outcome, Fenced):
            # Taken over meanwhile: the recorded result counts, even if it is the successor's.
            fetched = await self._handle.fetch(documents=READING)
            finished = self._judge(fetched.head, fetched.documents)
            if finished is None:
                refuse(outcome, self._entity)
            return finished.value
        stored(outcome, self._entity)
        return decode(text)["value"]

    async def _raise_if_cancelled(self) -> None:
        """Raise `TaskCancelled` if a cancellation is why the lease was lost."""
        with suppress(StoreUnavailable, StoreClosed):  # then `LeaseLost` is raised
            fetched = await self._handle.fetch(documents=READING)
            if fetched.head.status == CANCELLED:
                self._judge(fetched.head, fetched.documents)

    async def _failed(self, held: HeldLease, claim: Claim, error: BaseException) -> None:
        """Record a failure of the task; after any other error, give its lease back."""
        try:
            await held.leave(type(error), error, error.__traceback__)
        except LeaseLost:
            await self._handle.scope.leases.release(held, BACK_TO_OTHERS)
            raise
        if holds(error, OF_THE_STORE) or interrupted(error, self._cancellations):
            # A task that exits its process counts as a death, like one that kills it.
            died = (DIED,) if holds(error, (SystemExit,)) else ()
            await self._handle.scope.leases.release(held, BACK_TO_OTHERS, *died)
            return
        record = error_record(error) | {"failures": claim.failures + 1}
        put = Put(ERROR, encode(record, "the error"))
        end = SetHead(status=FAILED, due=0)
        if claim.attempts and record["failures"] < claim.attempts and not record["permanent"]:
            pause = min(FIRST_RETRY * 2**claim.failures, LONGEST_RETRY)
            end = SetHead(status=FAILED, due_in=pause)
        # Keep the arguments of a scheduled task: a retry needs them, as no caller has them.
        forgotten = self._call.forgotten if record["permanent"] and not claim.attempts else ()
        outcome = await self._handle.scope.leases.finish(held, put, end, *forgotten)
        if not isinstance(outcome, Fenced):
            stored(outcome, self._entity)
