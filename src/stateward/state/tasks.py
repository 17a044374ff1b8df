"""Work that is committed once, whoever delivers it and however often.

The effect of a task may happen twice if a process dies between the effect and its record (pass
`idempotency_key()` on); its result is recorded once, and every delivery gets that result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from stateward.codec import decode, encode
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseLost,
    StoreUnavailable,
    TaskFailed,
)
from stateward.keys import working_on
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
    Fetch,
    Head,
    Held,
    Lease,
    List,
    Listed,
    Outcome,
    Put,
    Release,
    SetHead,
    StatusIn,
    Value,
    Write,
)
from stateward.records import TaskInfo, moment
from stateward.state.calls import result_json, said, settle
from stateward.state.locks import ask, check_ttl, release
from stateward.state.scope import Scope, refuse, stored

PENDING, RUNNING, COMPLETED, FAILED = "pending", "running", "completed", "failed"
UNFINISHED = StatusIn((PENDING, RUNNING))
CALL, RESULT, ERROR = "call", "result", "error"
READING = (CALL, RESULT, ERROR)

ATTEMPTS = 3
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.25
FIRST_RETRY = 1.0  # seconds until a scheduled task that failed is tried again; doubles
LONGEST_RETRY = 300.0

Values = Mapping[str, Value]


class TaskOptions(msgspec.Struct, frozen=True):
    """How a task is run; see `Store.once`."""

    user: str | None = None
    ttl: float = 30.0
    wait: float | None = None
    attempts: int = ATTEMPTS
    at: datetime | float | None = None
    fingerprint: str | None = None
    retain: float | None = 30 * 86_400.0


class Claim(msgspec.Struct, frozen=True):
    """The right to run a task now."""

    lease: Lease
    asked: float
    failures: int
    attempts: int | None  # of a scheduled task, which nobody delivers again


class Finished(msgspec.Struct, frozen=True):
    """The recorded result."""

    value: Any


class Task:
    """One task and the call it stands for."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: TaskOptions,
    ) -> None:
        self._scope = scope
        self._entity = scope.entity("task", id)
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._options = options
        check_ttl(options.ttl)
        if type(options.attempts) is not int or options.attempts < 1:
            raise InvalidInput(f"attempts is a number of at least 1, not {options.attempts!r}")
        self._call = call_json(function, args, kwargs, options.fingerprint)
        kept = decode(self._call)
        self._fingerprint, self._name = kept["fingerprint"], kept["name"]

    async def run(self) -> Any:
        """The result, computed now or recorded earlier; None if it was only scheduled."""
        if self._scope.capabilities.inline_reads:
            # A hit costs a read instead of a write where reads are almost free.
            fetched = await self._scope.fetch(
                Fetch(self._entity, self._options.user, documents=READING)
            )
            if fetched.head.status in (COMPLETED, FAILED):
                finished = self._judge(fetched.head, fetched.documents)
                if finished is not None:
                    return finished.value
        if self._options.at is not None and await self._schedule(self._options.at):
            return None
        claimed = await self._claim()
        if isinstance(claimed, Finished):
            return claimed.value
        return await self._carry_out(claimed)

    async def _schedule(self, at: datetime | float) -> bool:
        """Record a task of the future; False if its time has come."""
        due = at.timestamp() if isinstance(at, datetime) else float(at)
        left = due - self._scope.world.now()
        if left <= 0:
            return False
        if "args" not in decode(self._call):
            raise InvalidInput(
                f"the task {self._entity.id!r} is to run later, but its arguments are not JSON and "
                "cannot be kept until then; pass ids or plain values"
            )
        retain = self._options.retain
        call = encode(decode(self._call) | {"attempts": self._options.attempts}, "the call")
        outcome = await self._scope.commit(
            self._entity,
            (SetHead(status=PENDING, label=self._name, due=due), Put(CALL, call)),
            (Absent(),),
            owner=self._options.user,
            retain=None if retain is None else left + retain,
            reading=READING,
        )
        if isinstance(outcome, Conflict):
            finished = self._judge(outcome.head, outcome.values)
            return finished is None and outcome.head.status == PENDING
        stored(outcome, self._entity)
        return True

    async def _claim(self) -> Claim | Finished:
        """Wait for the right to run it, or for its result."""
        world, wait = self._scope.world, self._options.wait
        end = None if wait is None else world.monotonic() + wait
        nonce = world.new_id()
        longest = FIRST_PAUSE
        checks: tuple[Check, ...] = (Absent(),)
        while True:
            asked = world.monotonic()
            outcome = await self._try_claim(nonce, checks)
            if isinstance(outcome, Applied | Duplicate):
                lease = stored(outcome, self._entity).lease
                assert lease is not None
                values = outcome.values
                return Claim(lease, asked, failures(values), scheduled_attempts(values))
            if isinstance(outcome, Conflict):
                finished = self._judge(outcome.head, outcome.values)
                if finished is not None:
                    return finished
                checks = claimable(outcome.head, outcome.values)
                continue
            if not isinstance(outcome, Held):
                refuse(outcome, self._entity)
            self._judge(outcome.head, outcome.values)
            if end is not None and world.monotonic() >= end:
                refuse(outcome, self._entity)
            pause = min(longest * (0.5 + world.random() / 2), outcome.remaining + 0.001)
            if end is not None:
                pause = min(pause, max(0.0, end - world.monotonic()))
            longest = min(longest * 2, LONGEST_PAUSE)
            await world.pause(pause)

    async def _try_claim(self, nonce: str, checks: tuple[Check, ...]) -> Outcome:
        options = self._options
        new = checks == (Absent(),)
        take = (
            Acquire(nonce, options.ttl, self._scope.holder),
            SetHead(status=RUNNING, label=self._name, due_in=options.ttl),
        )
        claim = Commit(
            self._entity,
            self._scope.world.new_op(),
            (*take, Put(CALL, self._call)) if new else take,
            checks,
            options.user,
            options.retain,
            READING,
        )
        return await ask(self._scope, claim, SetHead(status=PENDING, due_in=0))

    def _judge(self, head: Head, values: Values) -> Finished | None:
        """The recorded end, if there is one; raises if it failed for good or is another call."""
        if not head.exists:
            return None
        recorded = decode(values[CALL].json)["fingerprint"] if CALL in values else None
        if recorded and self._fingerprint and recorded != self._fingerprint:
            raise KeyReusedError(
                f"the task {self._entity.id!r} was already used with other arguments; use a new "
                "id for new work (or pass fingerprint= to say what makes two calls the same)"
            )
        if head.status == COMPLETED:
            return Finished(decode(values[RESULT].json)["value"])
        if head.status == FAILED and ERROR in values:
            error = decode(values[ERROR].json)
            if error["permanent"] or error["failures"] >= self._options.attempts:
                raise TaskFailed(
                    f"the task {self._entity.id!r} failed for good after {error['failures']} "
                    f"attempt(s): {error['type']}: {error['message']}"
                )
        return None

    async def _carry_out(self, claim: Claim) -> Any:
        scope, entity = self._scope, self._entity
        holding = scope.hold(entity, claim.lease, self._options.ttl, claim.asked, keeps_due=True)
        await holding.enter()
        try:
            holding.check()  # the answer to the claim may have taken longer than the lease lasts
            with working_on(entity):
                value = await settle(self._function(*self._args, **self._kwargs))
            text = result_json(value, f"the task {entity.id!r}")
        except BaseException as error:
            await self._failed(holding, claim, error)
            raise
        await holding.leave(None, None, None)
        return await self._record(holding, value, text)

    async def _record(self, holding: HeldLease, value: Any, text: str) -> Any:
        end = SetHead(status=COMPLETED, due=0, retain=self._options.retain or 0)
        outcome = await self._finish(holding, Put(RESULT, text), end)
        if isinstance(outcome, Fenced):
            # Taken over meanwhile. What counts is what is recorded, be it the successor's.
            fetched = await self._scope.fetch(Fetch(self._entity, documents=READING))
            finished = self._judge(fetched.head, fetched.documents)
            if finished is None:
                refuse(outcome, self._entity)
            return finished.value
        stored(outcome, self._entity)
        return value

    async def _failed(self, holding: HeldLease, claim: Claim, error: BaseException) -> None:
        """Record a failure of the task itself; a failure around it leaves the task to others."""
        try:
            await holding.leave(type(error), error, error.__traceback__)
        except LeaseLost:
            await release(self._scope, holding, SetHead(status=PENDING, due_in=0))
            raise
        around = isinstance(error, StoreUnavailable | LeaseLost) or not isinstance(error, Exception)
        if around:
            await release(self._scope, holding, SetHead(status=PENDING, due_in=0))
            return
        record = said(error) | {"failures": claim.failures + 1}
        put = Put(ERROR, encode(record, "the error"))
        end = SetHead(status=FAILED, due=0)
        if claim.attempts and record["failures"] < claim.attempts and not record["permanent"]:
            pause = min(FIRST_RETRY * 2**claim.failures, LONGEST_RETRY)
            end = SetHead(status=FAILED, due_in=pause)
        outcome = await self._finish(holding, put, end)
        if not isinstance(outcome, Fenced):
            stored(outcome, self._entity)

    async def _finish(self, holding: HeldLease, *writes: Write) -> Outcome:
        """Record how it ended and give it back, if it is still ours."""
        release = Release(holding.token, holding.nonce)
        try:
            return await self._scope.give_back(self._entity, (*writes, release), (holding.fence,))
        finally:
            self._scope.let_go(holding)  # told or not: its ttl ends it


def claimable(head: Head, values: Values) -> tuple[Check, ...]:
    """What must still hold when a task that was judged worth running is claimed.

    A failed one only with the very failure that was judged: another may have ended it meanwhile.
    """
    if not head.exists:
        return (Absent(),)
    if head.status == FAILED and ERROR in values:
        error = values[ERROR]
        return StatusIn((FAILED,)), DocumentAt(ERROR, error.version, error.stamp)
    return (UNFINISHED,)


def failures(values: Values) -> int:
    """How often the task has failed so far."""
    return int(decode(values[ERROR].json)["failures"]) if ERROR in values else 0


def scheduled_attempts(values: Values) -> int | None:
    """How often a scheduled task may fail; None for one that is delivered."""
    attempts: int | None = decode(values[CALL].json).get("attempts") if CALL in values else None
    return attempts


def call_json(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    fingerprint: str | None,
) -> str:
    """What is kept of the call. Arguments that are not JSON are not compared, nor scheduled."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        text = encode([list(args), dict(kwargs)], "the arguments")
    except InvalidInput:
        return encode({"name": name, "fingerprint": fingerprint}, "the call")
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    record = {
        "name": name,
        "fingerprint": fingerprint or digest,
        "args": list(args),
        "kwargs": dict(kwargs),
    }
    return encode(record, "the call")


async def list_tasks(scope: Scope, status: str | None, user: str | None) -> AsyncIterator[TaskInfo]:
    """Tasks by id."""
    after: str | None = None
    while True:
        page = List(
            scope.namespace,
            kind="task",
            owner=user,
            status=status,
            documents=(ERROR, CALL),
            limit=scope.capabilities.page,
            after=after,
        )
        listed = (await scope.execute((page,)))[0]
        assert isinstance(listed, Listed)
        for found in listed.entities:
            head = found.head
            error = decode(found.documents[ERROR].json) if ERROR in found.documents else None
            yield TaskInfo(
                found.entity.id,
                head.owner or None,
                head.status,
                decode(found.documents[CALL].json)["name"] if CALL in found.documents else "",
                error["failures"] if error else 0,
                f"{error['type']}: {error['message']}" if error else None,
                moment(head.updated),
                None if head.due is None else moment(head.due),
            )
        if listed.next is None:
            return
        after = listed.next
