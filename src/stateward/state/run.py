"""A workflow being driven: the calls that its code makes, and the parts that answer them.

`Run` checks arguments and delegates to its parts; each gets the earlier ones that it needs in its
constructor. Read them in this order:

1. `RunRecord` (run_record) is the log of the workflow, indexed by the calls that it answers.
2. `Drive` (run_drive) holds lease, record and clock of this one drive; all parts share it.
3. `RunNames` (run_names) numbers calls of the same name, so that a replay finds their answers.
4. `StepFailures` (step_failures) holds failures of steps until the next commit records them.
5. `RunCommits` (run_commits) makes every write to the workflow, with the driver's fence.
6. `Branches` (run_branches) counts busy branches, and parks the run when all others only wait.
7. `Steps` (run_steps), `Waits` (run_waits) and `Children` (run_children) answer the calls.

`RunEnd` (run_end) records the end after the block was left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, overload

from stateward.codec import (
    MOST,
    check_id,
    check_seconds,
    check_time,
    decode,
    encode_document,
    encode_value,
    shown,
)
from stateward.errors import InvalidInput, LeaseLost, StatewardError, WorkflowCancelled
from stateward.kinds import WORKFLOW
from stateward.layers.leases.held import HeldLease
from stateward.ops import Put
from stateward.state.effect_record import EffectOptions, Reconcile
from stateward.state.effect_run import EffectRun
from stateward.state.handle import Handle
from stateward.state.loose_ends import OPEN, LooseEnds
from stateward.state.machine import move
from stateward.state.refusals import stored
from stateward.state.run_branches import Branches
from stateward.state.run_children import Children
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive
from stateward.state.run_names import RunNames
from stateward.state.run_record import RunRecord
from stateward.state.run_steps import Steps
from stateward.state.run_waits import Waits
from stateward.state.step_failures import StepFailures
from stateward.state.value_delta import thaw
from stateward.state.work import OF_THE_STORE
from stateward.state.workflow_record import ACTIVE, COMPLETED, META, SNAPSHOT, STATE, STEP

UNREAD = object()  # stands for a checkpoint's value that has not been decoded yet

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Run:
    """One execution of a workflow: what `async with store.workflow(…) as run` returns."""

    def __init__(
        self,
        handle: Handle,
        status: str,
        documents: Mapping[str, str],
        record: RunRecord,
        held: HeldLease | None,
        clock: float,
        since: float,
        deaths: int,
    ) -> None:
        """`documents` are the workflow's documents as JSON when it was entered, at `since`."""
        meta = decode(documents[META])
        self.kind: str = meta["kind"]
        self.input: Any = meta["input"]
        self.user = handle.owner or None
        self.state: dict[str, Any] = decode(documents[STATE]) if STATE in documents else {}
        self.at: str | None = decode(documents[STEP])["at"] if STEP in documents else None
        self.status = status
        self.result: Any = None  # returned by `Workflow.result` after completion
        self.retain: float | None = meta.get("retain")
        self._handle = handle
        self._scope = handle.scope
        self._record = record
        self._checkpointed: Any = UNREAD
        self._has_parent = "parent" in meta
        loose_ends = LooseEnds(documents.get(OPEN))
        self._drive = Drive(handle, status, record, loose_ends, held, clock, since, deaths)
        self._names = RunNames(self.id, record)
        self._failures = StepFailures()
        self._commits = RunCommits(self._drive, self._failures)
        self._branches = Branches(self._drive, self._names, self._commits)
        self._steps = Steps(self._drive, self._branches, self._commits, self._failures)
        self._waits = Waits(self._drive, self._branches, self._commits)
        self._children = Children(self._drive, self._branches, self._commits)

    @property
    def id(self) -> str:
        return self._handle.entity.id

    @property
    def parked(self) -> bool:
        """Whether the workflow was parked to wait."""
        return self._drive.parked

    @property
    def broken(self) -> StatewardError | None:
        """The error after which every further call of this run raises it again, or None."""
        return self._drive.broken

    # async only: begin
    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[R]],
        *args: *Ts,
        retries: int,
        timeout: float | None = None,
    ) -> R: ...

    @overload
    async def step(
        self, name: str, function: Callable[[*Ts], Awaitable[R]], *args: *Ts, timeout: float
    ) -> R: ...

    # async only: end
    @overload
    async def step(
        self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], R],
        *args: *Ts,
        retries: int,
        timeout: float | None = None,
    ) -> R: ...

    @overload
    async def step(
        self, name: str, function: Callable[[*Ts], R], *args: *Ts, timeout: float
    ) -> R: ...

    async def step(  # type: ignore[misc]  # as with `Store.once`
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        retries: int = 0,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the result of `function`, run now or recorded earlier.

        A restart does not run a recorded step again. A failing function is retried `retries` times,
        after growing pauses, unless it raises `Permanent`. An attempt that takes longer than
        `timeout` seconds fails with `TimeoutError` and is cancelled (blocking code cannot be
        cancelled, but its result is discarded). Concurrent steps need distinct names. A failure
        that the workflow handles is recorded as well: each replay raises an exception of the same
        class, with the same text, without running the function again.
        """
        if type(retries) is not int or not 0 <= retries <= MOST:
            raise InvalidInput(f"retries is a whole number from 0 to {MOST}, not {shown(retries)}")
        if timeout is not None and check_seconds(timeout, "timeout") <= 0:
            raise InvalidInput(f"timeout is a number of seconds above 0, not {timeout!r}")
        id_ = self._names.number(name)
        if self._steps.has(id_):
            return await self._steps.recorded(id_)
        what = f"the step {id_!r}"
        return await self._alone(
            name, what, self._steps.run, id_, function, args, kwargs, retries, timeout
        )

    async def effect(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        reconcile: Reconcile | None = None,
        keyed: bool = False,
        attempts: int = 1,
        ttl: float = 30.0,
        **kwargs: Any,
    ) -> Any:
        """Carry out a tool that acts, once at this point of the workflow. See `Thread.effect`.

        Concurrent effects need distinct names, as steps do. The end is recorded like that of a
        step. If the outcome is unknown and cannot be resolved, raises `EffectUnknown`, which fails
        the workflow unless it is caught; `Workflow.retry` continues once it is resolved.
        """
        id_ = self._names.number(f"effect {name}")
        options = EffectOptions(reconcile, keyed, attempts, ttl, name=name)
        effect = EffectRun(self._handle, id_, function, args, kwargs, options)
        if self._steps.has(id_):
            return await self._steps.recorded(id_)
        what, act = f"the effect {id_!r}", self._effect
        return await self._alone(f"effect {name}", what, self._steps.run, id_, act, (effect,), {})

    async def _effect(self, effect: EffectRun) -> Any:
        """Run the effect unless the workflow was cancelled; its own entity does not show that."""
        if self.retain is not None:
            self._drive.loose_ends.acts()
        head = (await self._drive.beside(self._handle.fetch)).head
        if head.exists and head.status != ACTIVE:
            await self._commits.stop()
        return await effect.run()

    async def wait(
        self, name: str, *, timeout: float | None = None, ask: Any = None, for_: str | None = None
    ) -> Any:
        """Return the value of the next signal `name`. Until it arrives, the workflow is parked.

        Parking leaves the block; no process is needed until the signal arrives or the wait times
        out (then `TimeoutError` is raised here). With `ask`, which is JSON, or `for_`, a user or a
        role, `Store.waiting` lists the question until then, and `Store.answer` answers it.
        """
        check_id(name, "the name of a signal")
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if for_ is not None:
            check_id(for_, "for_")
        id_ = self._names.number(f"wait {name}")
        if id_ not in self._record.waits:
            question = None
            if ask is not None or for_ is not None:
                question = {"ask": ask, "for": for_, "kind": self.kind}
            what = f"the wait for {name!r}"
            await self._alone(f"wait {name}", what, self._waits.wait, id_, name, timeout, question)
        record = self._record.waits[id_]
        if "over" in record:
            over = TimeoutError(f"nothing came for {name!r} of the workflow {self.id!r} in time")
            self._failures.raised(id_, over)
            raise over
        return record["value"]

    async def child(self, name: str, *, kind: str, input: Any = None, id: str | None = None) -> Any:
        """Return the result of another workflow, started for this one and driven by any worker.

        This workflow is parked until the child has ended. `id` is the child's; the default is made
        from this workflow's id and the name. If the child fails or is cancelled, `WorkflowFailed`
        is raised here and recorded like the failure of a step. Cancelling this workflow cancels its
        children. A child is retained after its end as long as this workflow is after its own.
        """
        check_id(kind, "the kind of a workflow")
        id_ = self._names.number(f"child {check_id(name, 'the name of a child')}")
        if self._steps.has(id_):
            return await self._steps.recorded(id_)
        child = f"{self.id}/{id_[len('child ') :]}" if id is None else id
        meta = {"kind": kind, "input": input, "machine": {}, "parent": self.id}
        if self.retain is not None:
            meta["retain"] = self.retain
        text = encode_value(meta, "the input of a workflow", self._scope.limits)
        entity = self._scope.entity(WORKFLOW, child)
        result, args = self._children.result, (id_, entity, text)
        return await self._alone(
            f"child {name}", f"the child {name!r}", self._steps.run, id_, result, args, {}
        )

    async def sleep(
        self,
        seconds: float | None = None,
        *,
        until: datetime | None = None,
        name: str | None = None,
    ) -> None:
        """Park until a time, or for this many seconds.

        Concurrent sleeps need distinct names, as steps do.
        """
        if (seconds is None) == (until is None):
            raise InvalidInput("sleep takes seconds or until=, one of them")
        if seconds is not None:
            check_seconds(seconds, "sleep")
        if until is not None:
            if not isinstance(until, datetime):
                raise InvalidInput(
                    f"until is a datetime, e.g. datetime(2027, 1, 31, tzinfo=UTC), not "
                    f"{shown(until)}; for a number of seconds: sleep(seconds)"
                )
            check_time(until, "until")
        name = "sleep" if name is None else f"sleep {check_id(name, 'the name of a sleep')}"
        id_ = self._names.number(name)
        if id_ not in self._record.waits:
            await self._alone(name, "a sleep", self._waits.sleep, id_, seconds, until)

    async def save(self, state: dict[str, Any]) -> None:
        """Replace the workflow's state document. Replaying a completed workflow stores nothing."""
        if self.status == COMPLETED:
            self.state = state
            return
        put = Put(STATE, encode_document(state, self._scope.limits))
        await self._branches.busily("saving the state", self._save, put)
        self.state = state

    async def _save(self, put: Put) -> None:
        stored((await self._commits.commit((put,)))[0], self._handle.entity)

    async def checkpoint(self, value: Any) -> None:
        """Make every restart begin here, with `value` as `run.checkpointed`.

        Earlier records are neither needed nor read again, and counting of names starts over. Of a
        list that has grown since the last checkpoint, only the new part is stored. Raises
        `InvalidInput` while a step, a wait or a sleep is in progress in another branch. If the call
        fails, the run is over: another driver starts from this checkpoint or the one before.
        """
        with self._names.marked():
            # async only: begin
            try:
                await self._branches.busily("a checkpoint", self._checkpoint, value)
            except asyncio.CancelledError:  # perhaps stored: the next driver finds out
                cut_short = f"a checkpoint of the workflow {self.id!r} was cut short"
                self._drive.broken = LeaseLost(cut_short)
                raise
            # async only: end
            # sync only: self._branches.busily("a checkpoint", self._checkpoint, value)

    async def _checkpoint(self, value: Any) -> None:
        text = encode_value({"value": value}, "the checkpoint", self._scope.limits)
        body, parts = self._record.checkpoint_body(text)
        applied = await self._commits.append(f"checkpoint:{self._record.checkpoints + 1}", body)
        self._record.passed(parts, len(body))
        self._names.count_anew()
        self._checkpointed = UNREAD
        if self._record.snapshot_due(applied.version):
            if self._record.version < applied.version:
                await self._drive.catch_up()
            await self._save(Put(SNAPSHOT, self._record.snapshot()))

    async def transition(self, to: str, *, expect: str | None = None) -> str:
        """Move to another state of the declared machine, as a step: a replay does not repeat it.

        See `Workflow.transition`. A refusal that the workflow handles is recorded as well.
        """
        id_ = self._names.number(f"transition {to}")
        if self._steps.has(id_):
            was = str(await self._steps.recorded(id_))
            self.at = to
            return was
        what = f"the transition to {to!r}"
        return str(await self._branches.busily(what, self._transition, id_, to, expect))

    async def _transition(self, id_: str, to: str, expect: str | None) -> str:
        held = self._drive.held
        assert held is not None
        await self._commits.record_failures()
        try:
            was = await move(self._handle, to, expect, id_, (held.fence,))
        except (*OF_THE_STORE, WorkflowCancelled) as error:
            self._drive.broken = error
            raise
        except StatewardError as error:
            self._failures.add(id_, error)
            raise
        self._record.stepped(id_)
        self.at = to
        return was

    @property
    def checkpointed(self) -> Any:
        """The value of the last checkpoint; None before the first."""
        if self._checkpointed is UNREAD:
            self._checkpointed = decode(thaw(self._record.checkpoint))
        return self._checkpointed

    @property
    def has_loose_ends(self) -> bool:
        """Whether children, questions or a parent need attention after the end."""
        return self._has_parent or bool(self._drive.loose_ends)

    @property
    def unasked(self) -> list[str]:
        """Recorded steps that this run has not reached (yet)."""
        return self._names.unasked

    async def _untaken(self, version: int) -> list[str]:
        """Return the names of signals not taken; `version` is the total number of entries."""
        if self._record.version < version:  # entries were added that this run has not read
            await self._drive.catch_up()
        return self._record.untaken

    async def leave(self) -> None:
        """Mark the block as left: tasks that outlive it can neither call nor park the run."""
        await self._branches.leave()

    async def _alone(self, name: str, what: str, answer: Callable[..., Any], *args: Any) -> Any:
        """Return the answer to a named call; raises if a call of that name is in progress."""
        with self._names.alone(name, what):
            return await self._branches.busily(what, answer, *args)
