"""Durable workflows: finished steps are never run again, whoever goes on.

A workflow is a status, a journal of what was finished, a state document, and a lease that one
driver holds at a time. The record of a step carries the driver's fence; the *effect* of a step may
happen twice if a process dies between the effect and its record (pass `idempotency_key()` on).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any

from stateward.codec import check_id, decode, encode
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseLost,
    StateConflictError,
    StatewardError,
    StoreUnavailable,
    WorkflowFinished,
)
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fetch,
    Found,
    Head,
    Held,
    List,
    Listed,
    Log,
    Outcome,
    Put,
    Release,
    SetHead,
    StatusIn,
    Value,
    Write,
)
from stateward.records import WorkflowInfo, moment
from stateward.state.calls import said
from stateward.state.locks import ask, check_ttl, release
from stateward.state.run import Parked, Run, RunRecord
from stateward.state.scope import Scope, refuse, stored

logger = logging.getLogger("stateward.workflows")

ACTIVE, COMPLETED, FAILED = "active", "completed", "failed"
META, STATE, STEP, ERROR = "meta", "state", "step", "error"
READING = (META, STATE, STEP, ERROR)
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5

Machine = Mapping[str, tuple[str, ...] | list[str]]
Values = Mapping[str, Value]


class Workflow:
    """One workflow. `async with` drives it; signals and transitions need no driver."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        *,
        kind: str | None = None,
        user: str | None = None,
        input: Any = None,
        machine: Machine | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
    ) -> None:
        self._scope = scope
        self._entity = scope.entity("workflow", id)
        self._kind = None if kind is None else check_id(kind, "the kind of a workflow")
        self._user = None if user is None else check_id(user, "a user")
        self._input = input
        self._machine = check_machine(machine)
        self._ttl = check_ttl(ttl)
        self._wait = wait
        self._run: Run | None = None
        self._holding: HeldLease | None = None

    @property
    def id(self) -> str:
        return self._entity.id

    # --- driving --------------------------------------------------------------------

    async def __aenter__(self) -> Run:
        if self._run is not None:
            raise InvalidInput("this workflow is already entered; call store.workflow(...) again")
        self._run = await self._enter()
        return self._run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        run, holding = self._run, self._holding
        self._run = self._holding = None
        assert run is not None
        if holding is None:
            return False  # a finished workflow was replayed
        try:
            await holding.leave(kind, error, trace)
        except LeaseLost:
            # Lost by our own clock, it may still be ours in the store: nobody need wait for it.
            await release(self._scope, holding, SetHead(due_in=0))
            raise
        if isinstance(error, Parked):
            self._scope.let_go(holding)
            return True
        error = error or run.broken
        if error is None:
            await self._end(holding, SetHead(status=COMPLETED, due=0))
            self._report_unasked(run)
        elif isinstance(error, StoreUnavailable | LeaseLost) or not isinstance(error, Exception):
            await release(self._scope, holding, SetHead(due_in=0))  # for another replica, at once
        else:
            why = said(error)
            failed = Append((encode({"failed": why}, "the failure"),))
            put = Put(ERROR, encode(why, "the failure"))  # where a listing can see it
            await self._end(holding, SetHead(status=FAILED, due=0), failed, put)
        if kind is None and error is not None:
            raise error
        return False

    def _report_unasked(self, run: Run) -> None:
        """Recorded steps that the code no longer asks for: it has changed since. Not fatal."""
        if run.unasked:
            logger.warning(
                "workflow_steps_not_asked_for", extra={"workflow": self.id, "steps": run.unasked}
            )

    async def _enter(self) -> Run:
        """Create it, take it over, or open it for replay."""
        world = self._scope.world
        end = None if self._wait is None else world.monotonic() + self._wait
        nonce = world.new_id()
        longest = FIRST_PAUSE
        new = self._kind is not None
        while True:
            asked = world.monotonic()
            outcome = await self._try_take(nonce, new)
            if isinstance(outcome, Held):
                self._check_same(outcome.values)
                if end is not None and world.monotonic() >= end:
                    refuse(outcome, self._entity)
                pause = min(longest * (0.5 + world.random() / 2), outcome.remaining + 0.001)
                if end is not None:
                    pause = min(pause, max(0.0, end - world.monotonic()))
                longest = min(longest * 2, LONGEST_PAUSE)
                await world.pause(pause)
            elif isinstance(outcome, Conflict):
                if not outcome.head.exists:
                    if self._kind is None:
                        raise missing(self._entity)
                    new = True
                elif outcome.head.status == ACTIVE:
                    new = False
                else:
                    return await self._begin(outcome.head.status, outcome.values, 0.0)
            else:
                applied = stored(outcome, self._entity)
                assert applied.lease is not None
                holding = self._scope.hold(
                    self._entity, applied.lease, self._ttl, asked, keeps_due=True
                )
                self._holding = holding
                await holding.enter()  # a long journal may take longer to read than the ttl
                values = {} if applied.created else _values(outcome)
                # The engine's clock from ours: rather behind than ahead, or a sleep ends early.
                clock = applied.lease.until - self._ttl - world.monotonic()
                try:
                    run = await self._begin(ACTIVE, values, clock, fresh=applied.created)
                    holding.check()  # the answer may have taken longer than the lease lasts
                    return run
                except BaseException as error:
                    self._holding = None
                    try:
                        await holding.leave(type(error), error, error.__traceback__)
                    finally:
                        await release(self._scope, holding, SetHead(due_in=0))
                    raise

    async def _try_take(self, nonce: str, new: bool) -> Outcome:
        writes: list[Write] = [
            Acquire(nonce, self._ttl, self._scope.holder),
            SetHead(status=ACTIVE, label=self._kind, due_in=self._ttl),
        ]
        if new:
            writes.append(Put(META, encode(self._meta(), "the input of a workflow")))
            if self._machine:
                first = {"at": next(iter(self._machine))}
                writes.append(Put(STEP, encode(first, "the step")))
        take = Commit(
            self._entity,
            self._scope.world.new_op(),
            tuple(writes),
            (Absent(),) if new else (StatusIn((ACTIVE,)),),
            self._user,
            reading=READING,
        )
        return await ask(self._scope, take, SetHead(due_in=0))

    async def _begin(
        self, status: str, values: Values, clock: float, *, fresh: bool = False
    ) -> Run:
        self._check_same(values)
        meta = decode(values[META].json) if META in values else self._meta()
        journal = RunRecord()
        if not fresh:
            async for entry in read_journal(self._scope, self._entity):
                journal.add(entry)
        state = decode(values[STATE].json) if STATE in values else {}
        step = decode(values[STEP].json)["at"] if STEP in values else None
        return Run(
            self._scope,
            self._entity,
            self._user,
            meta["kind"],
            meta["input"],
            state,
            step or (next(iter(self._machine)) if self._machine else None),
            status,
            journal,
            self._holding,
            clock,
            self,
        )

    def _meta(self) -> dict[str, Any]:
        machine = {step: list(after) for step, after in self._machine.items()}
        return {"kind": self._kind, "input": self._input, "machine": machine}

    def _check_same(self, values: Values) -> None:
        """The same id with another kind or input is a mistake that must not pass silently."""
        if META not in values:
            return
        meta = decode(values[META].json)
        if self._kind is not None and self._kind != meta["kind"]:
            raise KeyReusedError(
                f"the workflow {self.id!r} is of kind {meta['kind']!r}, not {self._kind!r}"
            )
        if self._input is not None and encode(self._input, "the input") != encode(
            meta["input"], "the input"
        ):
            raise KeyReusedError(
                f"the workflow {self.id!r} was begun with another input; use a new id for new work"
            )

    async def _end(self, holding: HeldLease, *writes: Write) -> None:
        release = Release(holding.token, holding.nonce)
        try:
            end = (*writes, release)
            outcome = await self._scope.give_back(self._entity, end, (holding.fence,))
        finally:
            self._scope.let_go(holding)  # told or not: its ttl ends it
        stored(outcome, self._entity)

    # --- from outside ---------------------------------------------------------------

    async def signal(self, name: str, value: Any = None, *, key: str | None = None) -> bool:
        """Tell the workflow something it waits for, now or later. Needs no lease.

        `key` makes a repeated delivery harmless: False if this key was delivered before. Raises
        `WorkflowFinished` if nobody will ever wait for it.
        """
        check_id(name, "the name of a signal")
        body = encode({"signal": name, "value": value}, "the signal")
        # The length keeps the name "a:b" with the key "c" from being "a" with "b:c".
        if key is not None:
            key = f"signal:{len(name)}:{name}:{check_id(key, 'the key of a signal')}"
        outcome = await self._scope.commit(
            self._entity,
            (Append((body,), key), SetHead(due_in=0)),
            (StatusIn((ACTIVE,)),),
            owner=self._user,
        )
        if isinstance(outcome, Conflict):
            raise self._not_active(outcome.head)
        stored(outcome, self._entity)
        return not (isinstance(outcome, Duplicate) and not outcome.own)

    async def transition(self, to: str, *, expect: str | None = None) -> str:
        """Move along the declared machine, by compare-and-swap; returns where it was.

        Raises `StateConflictError` if the workflow is not at `expect`, and `InvalidInput` if
        the machine has no such way.
        """
        was, _ = await self._move(to, expect, None, ())
        return was

    async def _move(
        self, to: str, expect: str | None, step_id: str | None, checks: tuple[Check, ...]
    ) -> tuple[str, Outcome]:
        """A transition, recorded as a step of the driver's if it has an id."""
        key = None if step_id is None else f"step:{step_id}"
        while True:
            fetch = Fetch(self._entity, self._user, documents=(META, STEP))
            fetched = await self._scope.fetch(fetch)
            if fetched.head.status != ACTIVE:
                raise self._not_active(fetched.head)
            machine = decode(fetched.documents[META].json)["machine"]
            if STEP not in fetched.documents:
                raise InvalidInput(
                    f"the workflow {self.id!r} declares no machine; pass machine= when it is begun"
                )
            step = fetched.documents[STEP]
            at = decode(step.json)["at"]
            if expect is not None and at != expect:
                raise StateConflictError(
                    f"the workflow {self.id!r} is at {at!r}, not at {expect!r}: somebody else "
                    "moved it",
                    expected=expect,
                    current=at,
                )
            if to not in machine.get(at, ()):
                ways = ", ".join(repr(way) for way in machine.get(at, ())) or "nowhere"
                raise InvalidInput(f"from {at!r} the workflow {self.id!r} can go to: {ways}")
            record: dict[str, Any] = {"transition": [at, to]}
            if step_id is not None:
                record |= {"step": step_id, "value": at}
            outcome = await self._scope.commit(
                self._entity,
                (
                    Put(STEP, encode({"at": to}, "the step")),
                    Append((encode(record, "the transition"),), key),
                ),
                (*checks, StatusIn((ACTIVE,)), DocumentAt(STEP, step.version, step.stamp)),
                owner=self._user,
            )
            if not isinstance(outcome, Conflict):
                stored(outcome, self._entity)
                return str(at), outcome

    async def info(self) -> WorkflowInfo | None:
        """How it stands; None if it does not exist."""
        fetched = await self._scope.fetch(Fetch(self._entity, self._user, documents=READING))
        if not fetched.head.exists:
            return None
        return workflow_info(Found(self._entity, fetched.head, fetched.documents))

    async def delete(self) -> None:
        """Remove it with all it recorded; nothing happens if there is none."""
        stored(await self._scope.commit(self._entity, (Drop(),), owner=self._user), self._entity)

    def _not_active(self, head: Head) -> StatewardError:
        if not head.exists:
            return missing(self._entity)
        return WorkflowFinished(f"the workflow {self.id!r} has already {head.status}")


def missing(entity: Entity) -> InvalidInput:
    return InvalidInput(
        f"there is no workflow {entity.id!r}; begin it with store.workflow(id, kind=...)"
    )


def check_machine(machine: Machine | None) -> dict[str, tuple[str, ...]]:
    """A declared machine: every place and where it leads; the first is where it begins."""
    if machine is None:
        return {}
    places = {check_id(at, "a step"): tuple(ways) for at, ways in machine.items()}
    for at, ways in places.items():
        for way in ways:
            if way not in places:
                raise InvalidInput(f"the machine leads from {at!r} to {way!r}, which it lacks")
    return places


async def read_journal(scope: Scope, entity: Entity) -> AsyncIterator[Entry]:
    """All that was recorded so far."""
    after = 0
    while True:
        page = Log(after, first=scope.capabilities.page, details=True)
        fetched = await scope.fetch(Fetch(entity, log=page))
        for entry in fetched.entries:
            yield entry
        if len(fetched.entries) < scope.capabilities.page:
            return
        after = fetched.entries[-1].seq


async def list_workflows(
    scope: Scope, *, kind: str | None, user: str | None, status: str | None
) -> AsyncIterator[WorkflowInfo]:
    """Workflows by id."""
    after: str | None = None
    while True:
        page = List(
            scope.namespace,
            kind="workflow",
            label=kind,
            owner=user,
            status=status,
            documents=READING,
            limit=scope.capabilities.page,
            after=after,
        )
        listed = (await scope.execute((page,)))[0]
        assert isinstance(listed, Listed)
        for found in listed.entities:
            yield workflow_info(found)
        if listed.next is None:
            return
        after = listed.next


def workflow_info(found: Found) -> WorkflowInfo:
    """A workflow as listed."""
    documents = found.documents
    step = decode(documents[STEP].json)["at"] if STEP in documents else None
    error = decode(documents[ERROR].json) if ERROR in documents else None
    return WorkflowInfo(
        found.entity.id,
        decode(documents[META].json)["kind"] if META in documents else "",
        found.head.owner or None,
        found.head.status,
        step,
        decode(documents[STATE].json) if STATE in documents else {},
        moment(found.head.updated),
        f"{error['type']}: {error['message']}" if error else None,
    )


def _values(outcome: Outcome) -> Values:
    values: Values = getattr(outcome, "values", {})
    return values
