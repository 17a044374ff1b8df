"""Durable workflows: a finished step never runs again, whichever process continues.

A workflow is a status, a log of finished steps, a state document, and a lease that one driver holds
at a time. The record of a step carries the driver's fence; the *effect* of a step may happen twice
if a process dies between the effect and its record (pass `idempotency_key()` on).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any

from stateward.codec import canonical, check_id, check_span, check_ttl, decode, encode, encode_value
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseLost,
    Permanent,
    Reset,
    WorkflowCancelled,
    WorkflowFailed,
)
from stateward.kinds import WORKFLOW
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Absent,
    Acquire,
    Commit,
    Conflict,
    Duplicate,
    Found,
    Held,
    List,
    Outcome,
    Put,
    SetHead,
    StatusIn,
    Value,
    Write,
)
from stateward.records import WorkflowInfo
from stateward.state.calls import cancellations, interrupted
from stateward.state.handle import Handle
from stateward.state.interventions import cancel, delete, fork, retry
from stateward.state.leases import LeaseWait
from stateward.state.loose_ends import OPEN
from stateward.state.machine import missing, move, not_active
from stateward.state.malformed import readable
from stateward.state.recent import Order, listed
from stateward.state.refusals import stored
from stateward.state.run import Run
from stateward.state.run_end import TO_OTHERS, RunEnd
from stateward.state.run_pages import read_record
from stateward.state.run_record import RunRecord, is_parked
from stateward.state.scope import Scope
from stateward.state.work import OF_THE_STORE, error_text, holds, signal_writes
from stateward.state.workflow_record import (
    ACTIVE,
    CANCELLED,
    COMPLETED,
    DEATHS,
    DEATHS_FORGIVEN,
    ERROR,
    META,
    READING,
    RESULT,
    SOMEBODY_DRIVES,
    STEP,
    TELLING,
    Machine,
    check_machine,
    workflow_info,
)

logger = logging.getLogger("stateward.workflows")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # between two reads in `result`
AT_ONCE = SetHead(due_in=0)

Values = Mapping[str, Value]


class Workflow:
    """One workflow. `async with` drives it; signals and transitions need no driver."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        *,
        kind: str | None = None,
        owner: str | None = None,
        input: Any = None,
        machine: Machine | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
        retain: float | None = None,
    ) -> None:
        self._handle = Handle(scope, scope.entity(WORKFLOW, id), owner)
        self._leases = scope.leases
        self._entity = self._handle.entity
        self._kind = None if kind is None else check_id(kind, "the kind of a workflow")
        self._input = input
        self._machine = check_machine(machine)
        self._ttl = check_ttl(ttl)
        self._wait = None if wait is None else check_span(wait, "wait")
        self._retain = retain
        self._run: Run | None = None
        self._held: HeldLease | None = None
        self._cancellations = 0

    @property
    def id(self) -> str:
        return self._entity.id

    # --- driving --------------------------------------------------------------------

    async def __aenter__(self) -> Run:
        if self._run is not None:
            raise InvalidInput("this workflow is already entered; call store.workflow(...) again")
        self._cancellations = cancellations()
        while self._run is None:
            try:
                self._run = await self._enter()
            except Reset:
                continue  # deleted, and perhaps started again, while its log was read
        return self._run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        run, held = self._run, self._held
        self._run = self._held = None
        assert run is not None
        if held is None:
            return False  # a finished workflow was replayed
        try:
            await held.leave(kind, error, trace)
        except LeaseLost:
            # Expired by our clock, the lease may still be ours in the store: spare others the wait.
            await self._leases.release(held, *TO_OTHERS)
            raise
        try:
            await run.leave()
        except BaseException:
            await self._leases.release(held, *TO_OTHERS)
            raise
        if run.parked:
            self._leases.let_go(held)
            if run._drive.cut_off:
                await self._handle.commit((SetHead(due_in=0),), (StatusIn((ACTIVE,)),))
            return error is None or is_parked(error)
        if run.broken is not None:
            error = run.broken  # the cause, whatever the block made of it, e.g. an exception group
        end = RunEnd(self._handle, held, run)
        if error is None:
            error = await end.complete(run)
        elif isinstance(error, WorkflowCancelled) and error is run.broken:
            await end.cancelled()
        elif holds(error, OF_THE_STORE) or interrupted(error, self._cancellations):
            # A handler that exits its process counts as a crash, so that a workflow whose handler
            # always does so is given up.
            died = holds(error, (SystemExit,))
            await self._leases.release(held, *((AT_ONCE,) if died else TO_OTHERS))
        else:
            await end.fail(error)
        if kind is None and error is not None:
            raise error
        return False

    async def _enter(self) -> Run:
        """Create the workflow, take it over, or open it for replay."""
        world = self._handle.scope.world
        waiting = LeaseWait(world, self._wait)
        nonce = world.new_id()
        new = self._kind is not None
        while True:
            asked = world.monotonic()
            outcome = await self._try_take(nonce, new)
            if isinstance(outcome, Held):
                self._check_same(outcome.values)
                await waiting.pause(outcome, self._entity)
            elif isinstance(outcome, Conflict):
                if not outcome.head.exists:
                    if self._kind is None:
                        raise missing(self._entity)
                    new = True
                elif outcome.head.status == ACTIVE:
                    new = False
                else:
                    return await self._begin(outcome.head.status, outcome.values)
            else:
                applied = stored(outcome, self._entity)
                assert applied.lease is not None
                lease = applied.lease
                held = self._leases.hold(self._entity, lease, self._ttl, asked, undo=TO_OTHERS)
                self._held = held
                # An answer repeated after an erasure has no documents; the fence refuses writes.
                deaths = applied.documents.get(DEATHS, 1) - 1
                if deaths > DEATHS_FORGIVEN:
                    self._held = None
                    error = Permanent(f"{deaths} processes died driving the workflow {self.id!r}")
                    await RunEnd(self._handle, held).fail(error)
                    raise error
                await held.enter()  # reading a long log may take longer than the ttl
                values: Values = {} if applied.created else getattr(outcome, "values", {})
                # Estimate the engine's clock low rather than high, or a sleep ends early.
                since = lease.until - self._ttl
                clock = since - world.monotonic()
                try:
                    run = await self._begin(ACTIVE, values, clock, since, deaths, applied.created)
                    held.check()  # the read may have outlasted the lease
                    return run
                except BaseException as error:
                    self._held = None
                    try:
                        await held.leave(type(error), error, error.__traceback__)
                    finally:
                        await self._leases.release(held, *TO_OTHERS)
                    raise

    async def _try_take(self, nonce: str, new: bool) -> Outcome:
        world = self._handle.scope.world
        writes: list[Write] = [
            Acquire(nonce, self._ttl, world.name()),
            SetHead(status=ACTIVE, label=self._kind, due_in=self._ttl),
            SOMEBODY_DRIVES,
        ]
        if new:
            writes += (Put(name, text) for name, text in self._first_documents().items())
        take = Commit(
            self._entity,
            world.new_op(),
            tuple(writes),
            (Absent(),) if new else (StatusIn((ACTIVE,)),),
            self._handle.owner,
            reading=(*READING, OPEN),
        )
        return await self._leases.claim(take, *TO_OTHERS)

    async def _begin(
        self,
        status: str,
        values: Values,
        clock: float = 0.0,
        since: float = 0.0,
        deaths: int = 0,
        fresh: bool = False,
    ) -> Run:
        self._check_same(values)
        record = RunRecord() if fresh else await read_record(self._handle)
        texts = {name: value.json for name, value in values.items()}
        documents = self._first_documents() | texts
        return Run(self._handle, status, documents, record, self._held, clock, since, deaths)

    def _first_documents(self) -> dict[str, str]:
        """Return the documents that the workflow starts with."""
        machine = {step: list(after) for step, after in self._machine.items()}
        meta = {"kind": self._kind, "input": self._input, "machine": machine}
        if self._retain is not None:
            meta["retain"] = self._retain
        limits = self._handle.scope.limits
        documents = {META: encode_value(meta, "the input of a workflow", limits)}
        if machine:
            documents[STEP] = encode({"at": next(iter(machine))}, "the step")
        return documents

    def _check_same(self, values: Values) -> None:
        """Raise `KeyReusedError` if the id is used with another kind or input."""
        if META not in values:
            return
        meta = decode(values[META].json)
        if self._kind is not None and self._kind != meta["kind"]:
            raise KeyReusedError(
                f"the workflow {self.id!r} is of kind {meta['kind']!r}, not {self._kind!r}"
            )
        before = canonical(meta["input"], "the input")
        if self._input is not None and canonical(self._input, "the input") != before:
            raise KeyReusedError(
                f"the workflow {self.id!r} was started with another input; use a new id for new "
                "work"
            )

    # --- from outside ---------------------------------------------------------------

    async def signal(self, name: str, value: Any = None, *, key: str | None = None) -> bool:
        """Send a signal that the workflow waits for, now or later. Needs no lease.

        `key` is an idempotency key: returns False if it was delivered before. Raises
        `WorkflowFinished` if the workflow has ended.
        """
        check_id(name, "the name of a signal")
        writes = signal_writes(name, value, key, self._handle.scope.limits)
        outcome = await self._handle.commit(writes, (StatusIn((ACTIVE,)),))
        if isinstance(outcome, Conflict):
            raise not_active(self._entity, outcome.head)
        stored(outcome, self._entity)
        return not (isinstance(outcome, Duplicate) and not outcome.own)

    async def transition(self, to: str, *, expect: str | None = None) -> str:
        """Move to another state of the declared machine, by compare-and-swap; returns the old one.

        Raises `StateConflictError` if the workflow is not in `expect`, and `InvalidInput` if the
        machine has no such transition.
        """
        return await move(self._handle, to, expect)

    async def info(self) -> WorkflowInfo | None:
        """Return the workflow's current state; None if it does not exist."""
        fetched = await self._handle.fetch(documents=TELLING)
        if not fetched.head.exists:
            return None
        workflow = Found(self._entity, fetched.head, fetched.documents)
        return workflow_info(workflow, now=self._handle.scope.world.now())

    async def start(self) -> bool:
        """Start the workflow and leave it to a worker. Returns False if it was started before.

        The same id with another kind or input raises `KeyReusedError`.
        """
        if self._kind is None:
            raise InvalidInput("start() needs to know the kind: store.workflow(id, kind=...)")
        begin: list[Write] = [SetHead(status=ACTIVE, label=self._kind, due_in=0)]
        begin += (Put(name, text) for name, text in self._first_documents().items())
        outcome = await self._handle.commit(tuple(begin), (Absent(),), reading=(META,))
        if isinstance(outcome, Conflict):
            self._check_same(outcome.values)
            return False
        stored(outcome, self._entity)
        return True

    async def result(self, *, wait: float | None = None) -> Any:
        """Return the workflow's result: `run.result`, or the return value of its handler.

        Waits up to `wait` seconds for the end (None: as long as it takes; 0: not at all), then
        raises `TimeoutError`. Raises `WorkflowFailed` if the workflow failed, and
        `WorkflowCancelled` if it was cancelled.
        """
        world = self._handle.scope.world
        end = None if wait is None else world.monotonic() + check_span(wait, "wait")
        longest = FIRST_PAUSE
        while True:
            fetched = await self._handle.fetch(documents=(RESULT, ERROR))
            status, documents = fetched.head.status, fetched.documents
            if not fetched.head.exists:
                raise missing(self._entity)
            if status == COMPLETED:
                return decode(documents[RESULT].json)["value"] if RESULT in documents else None
            if status != ACTIVE:
                ended = WorkflowCancelled if status == CANCELLED else WorkflowFailed
                how = "was" if status == CANCELLED else "has"
                why = error_text(decode(documents[ERROR].json))
                raise ended(f"the workflow {self.id!r} {how} {status}: {why}")
            if end is not None and world.monotonic() >= end:
                raise TimeoutError(f"the workflow {self.id!r} has not come to its end in time")
            pause = longest * (0.5 + world.random() / 2)
            left = pause if end is None else max(0.0, end - world.monotonic())
            await world.pause(min(pause, left))
            longest = min(longest * 2, LONGEST_PAUSE)

    async def cancel(self, reason: str = "") -> bool:
        """Cancel the workflow and its children, whichever process drives it.

        Returns False if it was cancelled before. The driver finishes and records the current step,
        then gets `WorkflowCancelled`. Raises `WorkflowFinished` if the workflow has completed or
        failed.
        """
        return await cancel(self._handle, reason)

    async def retry(self) -> bool:
        """Resume a failed or cancelled workflow at the step that failed: a worker continues it.

        Returns False if it is active. Raises `WorkflowFinished` if it has completed, and
        `LeaseHeld` if it was cancelled and its driver is still finishing a step. Recorded steps are
        not run again; children that failed with it are retried too.
        """
        return await retry(self._handle)

    async def fork(self, at_step: str, *, id: str) -> None:
        """Start another workflow from the state this one had before a step: a worker continues it.

        `at_step` is a recorded step or wait, e.g. "pay#1" or "wait approval#1"; another raises
        `InvalidInput`. The new workflow has the same kind, input and user, and everything recorded
        before that step; this one does not change. Raises `StateConflictError` if the id is taken.
        """
        await fork(self._handle, at_step, id)

    async def delete(self) -> None:
        """Remove the workflow with everything it recorded. Does nothing if it does not exist.

        Its children and its effects are removed with it, except unknown effects: they stay until
        they are decided. A workflow with open questions or children is cancelled first.
        """
        await delete(self._handle)


async def list_workflows(
    scope: Scope,
    *,
    kind: str | None,
    owner: str | None,
    status: str | None,
    order: Order,
    before: str | None,
    limit: int | None,
) -> AsyncIterator[WorkflowInfo]:
    """Yield workflows by id, or the most recently updated first."""
    op = List(
        scope.namespace, kind=WORKFLOW, label=kind, owner=owner, status=status, documents=TELLING
    )
    async for workflow, cursor in listed(
        *(scope, op, order, before, limit),
        lambda one: readable(one.entity, lambda: workflow_info(one, "", 0.0)) is not None,
    ):
        yield workflow_info(workflow, cursor, scope.world.now())
