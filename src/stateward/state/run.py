"""A workflow being driven: steps, waits, sleeps, and what is recorded of them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, overload

from msgspec import Struct

from stateward.codec import (
    check_id,
    check_seconds,
    decode,
    encode,
    encode_document,
    encode_value,
)
from stateward.errors import (
    InvalidInput,
    LeaseLost,
    Permanent,
    StatewardError,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowFinished,
)
from stateward.kinds import WORKFLOW
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Absent,
    Append,
    Applied,
    Check,
    Conflict,
    Fenced,
    KeyReused,
    Log,
    LogAt,
    NotDroppedSince,
    Outcome,
    Put,
    Release,
    SetHead,
    StatusIn,
    Write,
)
from stateward.state.calls import awaited, cancellations
from stateward.state.effect_record import EffectOptions, Reconcile
from stateward.state.effects import EffectRun
from stateward.state.handle import Handle
from stateward.state.intervention_record import check_child
from stateward.state.loose_ends import OPEN, LooseEnds
from stateward.state.machine import move
from stateward.state.questions import ask as show_question
from stateward.state.questions import question_id, withdraw
from stateward.state.refusals import refuse, stored
from stateward.state.run_record import (
    ACTIVE,
    CANCELLED,
    COMPLETED,
    ERROR,
    META,
    NOBODY_DRIVES,
    RESULT,
    SNAPSHOT,
    STATE,
    STEP,
    TROUBLE,
    WAITS,
    Cut,
    Parked,
    RunRecord,
    error_text,
    raised_again,
    step_failure,
)
from stateward.state.value_delta import thaw
from stateward.state.work import (
    ENDS,
    OF_THE_STORE,
    error_record,
    holds,
    result_json,
    working_on,
)

FIRST_PAUSE = 0.5  # before a failed step is tried again; doubles
LONGEST_PAUSE = 60.0
# A branch that could go on does so within this many rounds of the event loop, and this time.
ROUNDS, MOMENT = 20, 0.001

UNREAD = object()  # what a checkpoint holds, as long as nobody asks

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


STILL_ACTIVE = StatusIn((ACTIVE,))


class ParkedFor(Struct, frozen=True):
    """Something that the run is parked for."""

    what: str
    name: str
    until: float | None = None
    seen: int = 0  # of a child: the last that was told of it when it was looked at


class Run:
    """What `async with store.workflow(…) as run` gives."""

    def __init__(
        self,
        handle: Handle,
        status: str,
        documents: Mapping[str, str],
        record: RunRecord,
        held: HeldLease | None,
        clock: float,
        since: float,
    ) -> None:
        """`documents` are those that were there when it was entered, at `since`, as JSON."""
        meta = decode(documents[META])
        self.kind: str = meta["kind"]
        self.input: Any = meta["input"]
        self.user = handle.owner or None
        self.state: dict[str, Any] = decode(documents[STATE]) if STATE in documents else {}
        self.at: str | None = decode(documents[STEP])["at"] if STEP in documents else None
        self.status = status
        self.result: Any = None  # what `Workflow.result` gives when it has completed
        self.retain: float | None = meta.get("retain")
        self.parked = False
        self.broken: StatewardError | None = None
        self.cut_off = False  # whether it was parked while some of it wanted to go on
        self._handle = handle
        self._scope = handle.scope
        self._entity = handle.entity
        self._record = record
        self._held = held
        self._clock = clock
        self._checkpointed: Any = UNREAD
        self._since = since
        self._asked: Counter[str] = Counter()
        self._marked = False  # whether a checkpoint is being recorded
        self._answered: set[str] = set()
        self._waits: dict[str, ParkedFor] = {}  # those that are to be parked for
        self._loose_ends = LooseEnds(documents.get(OPEN))
        self._has_parent = "parent" in meta
        self._raised: list[tuple[str, BaseException]] = []  # by steps: to tell which one failed it
        self._attempts: Counter[str] = Counter()  # by step
        self._unrecorded: dict[str, str] = {}  # failures of steps, by step: see `_commit`
        self._cuts: dict[str, Cut] = {}  # of those, steps that were cancelled
        self._open: set[str] = set()  # names that are asked for and not answered
        self._left = False
        self._driver: Any = None
        # async only: begin
        self._driver = asyncio.current_task()
        self._busy = 0  # branches that do something else than wait
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._parking = asyncio.Lock()
        self._failing = asyncio.Lock()
        # async only: end

    @property
    def id(self) -> str:
        return self._entity.id

    # async only: begin
    @overload
    async def step(
        self,
        name: str,
        function: Callable[P, Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
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
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[R]],
        *args: *Ts,
        timeout: float,
    ) -> R: ...

    # async only: end
    @overload
    async def step(
        self,
        name: str,
        function: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
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
        self,
        name: str,
        function: Callable[[*Ts], R],
        *args: *Ts,
        timeout: float,
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
        """The result of `function`, run now or recorded earlier; a restart does not run it again.

        A failing function is tried `retries` more times, after growing pauses, unless it raises
        `Permanent`. One that takes longer than `timeout` seconds has failed with `TimeoutError`,
        each try for itself: it is cancelled then (blocking code is not, but comes too late). Steps
        that run at the same time need distinct names. A failure that the workflow goes on after is
        recorded as well: each replay raises an exception of the same class, with the same text,
        without running the function again.
        """
        if type(retries) is not int or retries < 0:
            raise InvalidInput(f"retries is a number of at least 0, not {retries!r}")
        if timeout is not None and check_seconds(timeout, "timeout") <= 0:
            raise InvalidInput(f"timeout is a number of seconds above 0, not {timeout!r}")
        id_ = self._number(name)
        if id_ in self._record.failures or id_ in self._record.steps:
            return await self._recorded(id_)
        what = f"the step {id_!r}"
        return await self._alone(
            name, what, self._stepped, id_, function, args, kwargs, retries, timeout
        )

    async def _recorded(self, id_: str) -> Any:
        """How a step ended before."""
        if id_ in self._record.failures:  # also of one that was cut short while it was recorded
            failed = self._record.failures[id_]
            # async only: begin
            if failed.get("cut_short"):
                await self._moment()  # whoever cut it short then is faster this time too
            # async only: end
            error = raised_again(failed)
            self._raised.append((id_, error))
            raise error
        return self._record.value(id_)

    async def _stepped(
        self,
        id_: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        retries: int,
        timeout: float | None,
    ) -> Any:
        here, driver = cancellations(), cancellations(self._driver)  # async only
        try:
            value = await self._try(id_, function, args, kwargs, retries, timeout)
            text = result_json(value, f"the step {id_!r}", self._scope.limits)
        except BaseException as error:
            if holds(error, OF_THE_STORE) or holds(error, (*ENDS, Parked)) or self.broken:
                raise  # not of the step: it stays to be done
            self._raised.append((id_, error))
            self._unrecorded[id_] = step_failure(id_, error)
            self._note_cut(id_, error, here, driver)  # async only
            raise
        body, parts = self._record.step_body(id_, text)
        self._loose_ends.close(id_)
        # async only: begin
        try:
            await self._append(f"step:{id_}", body)
        except asyncio.CancelledError as error:  # stored or not, nobody was given the result
            self._note_cut(id_, error, here, driver)
            raise
        # async only: end
        # sync only: self._append(f"step:{id_}", body)
        self._record.stepped(id_, parts)
        return decode(text)["value"]  # as every replay gives it

    # async only: begin
    def _note_cut(self, id_: str, error: BaseException, here: int, driver: int) -> None:
        """A step that was cancelled by a timeout around it, perhaps: then the run goes on."""
        if isinstance(error, asyncio.CancelledError) and cancellations() > here:
            cut_short = TimeoutError(f"the step {id_!r} was cut short")
            self._unrecorded[id_] = step_failure(id_, cut_short, cut_short=True)
            self._cuts[id_] = Cut(driver, asyncio.all_tasks())

    def _taken_in(self, cut: Cut) -> bool:
        """Whether the run goes on after a cancellation, told by whoever asks for something now.

        The driver's count alone does not tell: a `TaskGroup` may have left it too high. One that is
        being cancelled is, when it asks for something, handling just that.
        """
        if cancellations(self._driver) <= cut.before:
            return True
        task = asyncio.current_task()
        if task is not self._driver and task in cut.tasks:
            return False
        return not isinstance(sys.exc_info()[1], asyncio.CancelledError)

    # async only: end

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
        """Carry out a tool that acts, once for this place in the workflow. See `Thread.effect`.

        Effects that run at the same time need distinct names, as steps do. One that is unknown and
        cannot be decided raises `EffectUnknown`, which fails the workflow unless it is caught.
        """
        id_ = self._number(f"effect {name}")
        options = EffectOptions(reconcile, keyed, attempts, ttl, name=name)
        effect = EffectRun(self._handle, id_, function, args, kwargs, options)
        if self._held is None and (found := await effect.recorded()) is not None:
            return found.value
        return await self._alone(f"effect {name}", f"the effect {id_!r}", self._effect, effect)

    async def _effect(self, effect: EffectRun) -> Any:
        """It is recorded elsewhere, so whether the workflow was cancelled is asked for first."""
        head = (await self._beside(self._handle.fetch)).head
        if head.exists and head.status != ACTIVE:
            await self._stop(())
        return await effect.run()

    async def wait(
        self, name: str, *, timeout: float | None = None, ask: Any = None, for_: str | None = None
    ) -> Any:
        """The value of the next signal `name`. Until it comes the workflow is parked.

        Parking leaves the block; no process is needed until the signal comes or the time is up
        (then `TimeoutError` is raised here). With `ask`, which is JSON, or `for_`, a user or a
        role, `Store.waiting` shows it to people until then, and `Store.answer` answers it.
        """
        check_id(name, "the name of a signal")
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if for_ is not None:
            check_id(for_, "for_")
        id_ = self._number(f"wait {name}")
        if id_ not in self._record.waits:
            question = None if ask is None and for_ is None else {"ask": ask, "for": for_}
            what = f"the wait for {name!r}"
            await self._alone(f"wait {name}", what, self._wait, id_, name, timeout, question)
        record = self._record.waits[id_]
        if "over" in record:
            over = TimeoutError(f"nothing came for {name!r} of the workflow {self.id!r} in time")
            self._raised.append((id_, over))
            raise over
        return record["value"]

    async def _wait(
        self, id_: str, name: str, timeout: float | None, question: dict[str, Any] | None
    ) -> None:
        while id_ not in self._record.waits:
            self._must_drive(f"the wait for {name!r}")
            begun = self._record.begun.get(id_)
            late = None if timeout is None or begun is None else begun + timeout
            signal = self._signal(id_, name, late)
            if signal is not None:
                await self._waited(id_, {"taken": signal[0], "value": signal[1]})
                break
            if question is not None and id_ not in self._loose_ends.questions:
                self._loose_ends.asks(id_, question_id(self._scope.world, self._now()))
            begun = await self._begun(id_)
            until = None if timeout is None else begun + timeout
            if until is not None and self._now() >= until:
                await self._catch_up()  # a signal that came in time still counts
                if self._signal(id_, name, until) is None:
                    await self._waited(id_, {"over": True})
            else:
                if question is not None:
                    await self._ask(id_, name, until, question)
                await self._park(id_, ParkedFor("signal", name, until))

    def _signal(self, id_: str, name: str, until: float | None) -> tuple[int, Any] | None:
        """What has come for a wait: an answer to its very question, or a signal of that name."""
        return self._record.signal(id_, until) or self._record.signal(name, until)

    async def _ask(
        self, id_: str, name: str, until: float | None, question: dict[str, Any]
    ) -> None:
        """Show what is asked, if it is not shown yet: before the run is parked for it."""
        await self._record_failures()  # first of all it is known what is to be closed
        shown = {
            **question,
            "workflow": self.id,
            "kind": self.kind,
            "signal": name,
            "wait": id_,
            "asked": self._record.begun[id_],
            "until": until,
        }
        as_, owner = self._loose_ends.questions[id_], await self._owner()
        await self._beside(show_question, self._scope, as_, owner, shown, self._since)

    async def child(self, name: str, *, kind: str, input: Any = None, id: str | None = None) -> Any:
        """The result of another workflow, begun for this one and driven by whoever works.

        Until it has come to its end this one is parked. `id` is the child's, by default made of
        this workflow's and the name. If it fails or is cancelled, `WorkflowFailed` is raised here,
        and recorded as the failure of a step is. Cancelling this one cancels its children.
        """
        check_id(kind, "the kind of a workflow")
        id_ = self._number(f"child {check_id(name, 'the name of a child')}")
        if id_ in self._record.failures or id_ in self._record.steps:
            return await self._recorded(id_)
        child = f"{self.id}/{id_[len('child ') :]}" if id is None else id
        meta = {"kind": kind, "input": input, "machine": {}, "parent": self.id}
        text = encode_value(meta, "the input of a workflow", self._scope.limits)
        entity = self._scope.entity(WORKFLOW, child)
        what, args = f"the child {name!r}", (id_, Handle(self._scope, entity), text)
        return await self._alone(
            f"child {name}", what, self._stepped, id_, self._child, args, {}, 0, None
        )

    async def _child(self, id_: str, child: Handle, meta: str) -> Any:
        kind, entity = decode(meta)["kind"], child.entity
        if id_ not in self._loose_ends.children:
            self._loose_ends.has(id_, entity.id, kind)
            await self._record_failures()
        begin = SetHead(status=ACTIVE, label=kind, due_in=0), Put(META, meta)
        child = Handle(self._scope, entity, await self._owner())
        while True:
            self._must_drive(f"the child {entity.id!r}")
            seen = self._record.told.get(entity.id, 0)
            unforbidden = (Absent(), NotDroppedSince(self._since))
            outcome = await self._beside(
                child.commit, begin, unforbidden, reading=(META, RESULT, ERROR)
            )
            if isinstance(outcome, Conflict) and not outcome.head.exists:
                self.broken = LeaseLost(f"the child {entity.id!r} was deleted: it is begun anew")
                raise self.broken
            if isinstance(outcome, Conflict):
                values = {name: decode(value.json) for name, value in outcome.values.items()}
                check_child(entity.id, values.get(META, {}), decode(meta))
                if outcome.head.status == COMPLETED:
                    return values[RESULT]["value"] if RESULT in values else None
                if outcome.head.status != ACTIVE:
                    why = error_text(values[ERROR]) if ERROR in values else ""
                    how = "was" if outcome.head.status == CANCELLED else "has"
                    raise WorkflowFailed(
                        f"the child {entity.id!r} {how} {outcome.head.status}: {why}"
                    )
            else:
                stored(outcome, entity)
            await self._park(id_, ParkedFor("child", entity.id, seen=seen))

    async def _owner(self) -> str:
        """Whose this workflow is, also if it was addressed without saying so."""
        if self._handle.owner is None:
            return str((await self._beside(self._handle.fetch)).head.owner)
        return self._handle.owner

    async def _beside(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """A call to another entity. If it is not sure what became of it, the run is over."""
        try:
            return await call(*args, **options)
        except OF_THE_STORE as error:
            self.broken = error
            raise

    async def sleep(
        self,
        seconds: float | None = None,
        *,
        until: datetime | None = None,
        name: str | None = None,
    ) -> None:
        """Park until a time, or for so many seconds.

        Sleeps that run at the same time need distinct names, as steps do.
        """
        if (seconds is None) == (until is None):
            raise InvalidInput("sleep takes seconds or until=, one of them")
        if seconds is not None:
            check_seconds(seconds, "sleep")
        name = "sleep" if name is None else f"sleep {check_id(name, 'the name of a sleep')}"
        id_ = self._number(name)
        if id_ not in self._record.waits:
            await self._alone(name, "a sleep", self._sleep, id_, seconds, until)

    async def _sleep(self, id_: str, seconds: float | None, until: datetime | None) -> None:
        while id_ not in self._record.waits:
            self._must_drive("a sleep")
            # Recorded: an end that is computed anew in every replay is one end all the same.
            end = await self._begun(id_, None if until is None else until.timestamp())
            end = self._record.ends.get(id_, end + (seconds or 0.0))
            if self._now() >= end:
                await self._waited(id_, {"slept": True})
            else:
                name = id_.rpartition("#")[0].partition(" ")[2]
                await self._park(id_, ParkedFor("sleep", name, end))

    async def save(self, state: dict[str, Any]) -> None:
        """Replace the workflow's state document. A replay of what completed stores nothing."""
        if self.status == COMPLETED:
            self.state = state
            return
        put = Put(STATE, encode_document(state, self._scope.limits))
        await self._busily("saving the state", self._save, put)
        self.state = state

    async def _save(self, put: Put) -> None:
        stored((await self._commit((put,)))[0], self._entity)

    async def checkpoint(self, value: Any) -> None:
        """Let every restart begin here, with `value` as `run.checkpointed`.

        Nothing that was recorded before is asked for again, nor read: names are counted anew from
        here. A list that has grown since the last checkpoint is stored by its new part. Raises
        `InvalidInput` while a step, a wait or a sleep is under way in another branch. When the call
        fails, the run is over: another driver begins at this checkpoint or at the one before.
        """
        if self._open or self._marked:
            raise InvalidInput(
                f"the workflow {self.id!r} takes a checkpoint while a step, a wait or another "
                "checkpoint is under way; take it when all branches are done"
            )
        self._marked = True
        try:
            await self._busily("a checkpoint", self._checkpoint, value)
        # async only: begin
        except asyncio.CancelledError:  # stored or not: the next driver sees
            self.broken = LeaseLost(f"a checkpoint of the workflow {self.id!r} was cut short")
            raise
        # async only: end
        finally:
            self._marked = False

    async def _checkpoint(self, value: Any) -> None:
        text = encode_value({"value": value}, "the checkpoint", self._scope.limits)
        body, parts = self._record.checkpoint_body(text)
        applied = await self._append(f"checkpoint:{self._record.checkpoints + 1}", body)
        self._record.passed(parts, len(body))
        self._asked.clear()
        self._answered.clear()
        self._checkpointed = UNREAD
        if self._record.snapshot_due(applied.version):
            if self._record.version < applied.version:
                await self._catch_up()
            await self._save(Put(SNAPSHOT, self._record.snapshot()))

    async def transition(self, to: str, *, expect: str | None = None) -> str:
        """Move along the declared machine, as a step: a restart does not move again.

        See `Workflow.transition`.
        """
        id_ = self._number(f"transition {to}")
        if id_ in self._record.steps:
            self.at = to
            return str(self._record.value(id_))
        what = f"the transition to {to!r}"
        return str(await self._busily(what, self._transition, id_, to, expect))

    async def _transition(self, id_: str, to: str, expect: str | None) -> str:
        assert self._held is not None
        await self._record_failures()
        try:
            was = await move(self._handle, to, expect, id_, (self._held.fence,))
        except (*OF_THE_STORE, WorkflowCancelled) as error:
            self.broken = error
            raise
        self._record.stepped(id_)
        self.at = to
        return was

    @property
    def checkpointed(self) -> Any:
        """What the last checkpoint holds; None before the first."""
        if self._checkpointed is UNREAD:
            self._checkpointed = decode(thaw(self._record.checkpoint))
        return self._checkpointed

    @property
    def has_loose_ends(self) -> bool:
        """Whether there is something to be done elsewhere when it has come to its end."""
        return self._has_parent or bool(self._loose_ends)

    def _blamed(self, error: BaseException) -> tuple[list[str], int]:
        """The steps whose failure this is, or comes of, and how often they were tried at most."""
        errors = [error]
        for each in errors:
            if each.__cause__ is not None and each.__cause__ not in errors:
                errors.append(each.__cause__)
            errors += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        steps = {id_: None for id_, raised in self._raised if any(raised is e for e in errors)}
        return list(steps), max((self._attempts[id_] for id_ in steps), default=0)

    @property
    def unasked(self) -> list[str]:
        """Recorded steps that this run has not asked for (yet)."""
        return sorted(self._record.steps.keys() - self._answered)

    # --- inside ---------------------------------------------------------------------

    def _number(self, name: str) -> str:
        """The id of this occurrence: name#1, name#2 …; after the third checkpoint, name#3.1 …"""
        check_id(name, "the name of a step")
        if self._marked:
            raise InvalidInput(
                f"{name!r} of the workflow {self.id!r} is asked for while a checkpoint is recorded"
            )
        self._asked[name] += 1
        id_ = f"{name}#{self._record.mark}{self._asked[name]}"
        self._answered.add(id_)
        return id_

    async def _alone(self, name: str, what: str, answer: Callable[..., Any], *args: Any) -> Any:
        """The answer to what is asked for under a name, if nothing of that name is under way.

        Two of one name are told apart by their order, which is another in a replay, where what is
        recorded takes no time.
        """
        if name in self._open:
            raise InvalidInput(
                f"{what} of the workflow {self.id!r} is asked for while another of the same name "
                "runs; give what runs at the same time distinct names"
            )
        self._open.add(name)
        try:
            return await self._busily(what, answer, *args)
        finally:
            self._open.discard(name)

    async def _busily(self, what: str, answer: Callable[..., Any], *args: Any) -> Any:
        """The answer, worked out by a branch that the run is not parked under meanwhile."""
        # async only: begin
        if self._held is None:
            await self._moment()  # a branch that was left behind then is left behind again
        late = self._parking.locked()
        async with self._parking:  # a run that is being parked begins nothing
            self.cut_off |= late and self.parked
            self._must_drive(what)
            self._busy += 1
            self._quiet.clear()
        try:
            return await answer(*args)
        finally:
            self._rests()
        # async only: end
        # sync only: self._must_drive(what)
        # sync only: return answer(*args)

    # async only: begin
    def _rests(self) -> None:
        """One branch less that is busy."""
        self._busy -= 1
        if not self._busy:
            self._quiet.set()

    # async only: end

    async def leave(self) -> None:
        """The block is over: whatever runs beside it asks for nothing and parks nothing."""
        self._left = True
        # async only: begin
        if self._parking.locked():
            async with self._parking:
                self.cut_off |= self.parked
        # async only: end

    def _must_drive(self, what: str) -> None:
        if self.parked:
            raise Parked
        if self._left:
            raise LeaseLost(f"the block of the workflow {self.id!r} was left before {what}")
        if self.broken is not None:
            raise self.broken
        if self._held is None and self.status == CANCELLED:
            raise WorkflowCancelled(f"the workflow {self.id!r} was cancelled before {what}")
        if self._held is None:
            raise WorkflowFinished(
                f"the workflow {self.id!r} has already {self.status} and did not record {what}"
            )
        try:
            self._held.check()
        except LeaseLost as error:
            self.broken = error
            raise

    async def _try(
        self,
        id_: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        retries: int,
        timeout: float | None,
    ) -> Any:
        longest = FIRST_PAUSE
        for left in range(retries, -1, -1):
            self._attempts[id_] += 1
            try:
                with working_on((*self._entity, id_)):
                    if timeout is not None:
                        return await self._in_time(id_, timeout, function, args, kwargs)
                    return await awaited(function(*args, **kwargs))
            except Exception as error:
                if not left or self.broken or holds(error, (Permanent, *OF_THE_STORE)):
                    raise
                await self._tell_of_trouble(id_, error)
            await self._scope.world.pause(longest * (0.5 + self._scope.world.random() / 2))
            longest = min(longest * 2, LONGEST_PAUSE)
            self._must_drive(f"the step {id_!r}")
        raise AssertionError("unreachable")

    async def _in_time(
        self, id_: str, timeout: float, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        """What the function returns, if it does so in time."""
        begun = self._scope.world.monotonic()
        # async only: begin
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                value = await awaited(function(*args, **kwargs))
        except TimeoutError as error:
            if limit.expired():
                raise _too_long(id_, timeout) from error
            raise  # the function's own
        # async only: end
        # sync only: value = awaited(function(*args, **kwargs))
        if self._scope.world.monotonic() - begun > timeout:
            raise _too_long(id_, timeout)
        return value

    async def _tell_of_trouble(self, id_: str, error: BaseException) -> None:
        """Have `WorkflowInfo` show a failure before the next try, if that can be stored."""
        assert self._held is not None
        try:
            await self._handle.commit(
                (self._trouble(id_, error_record(error)),), (self._held.fence,)
            )
        except OF_THE_STORE:
            pass  # whoever cannot be reached will be missed at the next record

    def _trouble(self, id_: str, error: Mapping[str, Any]) -> Put:
        told = {name: error[name] for name in ("type", "message", "permanent")}
        record = told | {"step": id_, "attempt": self._attempts[id_]}
        return Put(TROUBLE, encode(record, "the failure"))

    async def _commit(self, writes: tuple[Write, ...], *checks: Check) -> tuple[Outcome, int]:
        """A commit with the driver's fence; if it is refused or not sure, the run is over.

        Failures of steps that the run went on after are recorded with it, before anything that came
        of them: the outcome, and how many there were. Before that nothing came of them, and a
        replay may run the step again.
        """
        # async only: begin
        async with self._failing:  # what comes of a failure is not recorded before it
            failures = self._failures()
            if failures or self._loose_ends.changed:
                return await self._commit_with(failures, writes, checks), len(failures)
        # async only: end
        # sync only: if failures := self._failures():
        # sync only:     return self._commit_with(failures, writes, checks), len(failures)
        return await self._commit_with({}, writes, checks), 0

    async def _commit_with(
        self, failures: dict[str, str], writes: tuple[Write, ...], checks: tuple[Check, ...]
    ) -> Outcome:
        assert self._held is not None
        if failures and writes and isinstance(writes[0], Append):
            both = Append((*failures.values(), *writes[0].bodies), writes[0].key)
            writes = (both, *writes[1:])
        elif failures:
            writes = (*writes, Append(tuple(failures.values())))
        for id_ in failures:
            self._loose_ends.close(id_)
        if failures:
            id_, body = list(failures.items())[-1]
            writes = (*writes, self._trouble(id_, decode(body)["failed"]))
        loose = self._loose_ends.changed
        if loose:
            writes = (*writes, self._loose_ends.put)
            self._loose_ends.changed = False
        try:
            fence = self._held.fence
            outcome = await self._handle.commit(writes, (fence, STILL_ACTIVE, *checks))
            if isinstance(outcome, Conflict) and outcome.failed == STILL_ACTIVE:
                await self._stop(writes)
            if isinstance(outcome, KeyReused):
                raise LeaseLost(
                    f"another driver of the workflow {self.id!r} recorded {outcome.key!r}"
                )
            if isinstance(outcome, Fenced):
                refuse(outcome, self._entity)
        except OF_THE_STORE as error:
            self.broken = error
            raise
        if isinstance(outcome, Conflict):
            self._loose_ends.changed |= loose
        else:
            for id_, body in failures.items():
                self._record.failures[id_] = decode(body)["failed"]
                self._unrecorded.pop(id_, None)
                self._cuts.pop(id_, None)
        return outcome

    async def _stop(self, writes: tuple[Write, ...]) -> None:
        """The workflow was cancelled. What was finished by then is recorded all the same."""
        assert self._held is not None
        if writes and isinstance(writes[0], Append):
            checks = (self._held.fence, StatusIn((CANCELLED, ACTIVE)))
            outcome = await self._handle.commit(writes, checks)
            if isinstance(outcome, Fenced):
                refuse(outcome, self._entity)
        fetched = await self._handle.fetch(documents=(ERROR,))
        error = fetched.documents.get(ERROR)
        reason = decode(error.json)["message"] if error is not None else ""
        self.broken = WorkflowCancelled(
            f"the workflow {self.id!r} was cancelled{': ' if reason else ''}{reason}"
        )
        raise self.broken

    def _failures(self) -> dict[str, str]:
        """Failures that are to be recorded now.

        A step that was cancelled has failed only if the run was not: then somebody took the
        cancellation in.
        """
        cut: set[str] = set()
        cut = {id_ for id_, cut in self._cuts.items() if not self._taken_in(cut)}  # async only
        return {id_: body for id_, body in self._unrecorded.items() if id_ not in cut}

    async def _record_failures(self) -> None:
        """Store now what would have been stored with whatever comes next."""
        # async only: begin
        async with self._failing:  # or somebody else just does
            failures = self._failures()
            if failures or self._loose_ends.changed:
                stored(await self._commit_with(failures, (), ()), self._entity)
        # async only: end
        # sync only: failures = self._failures()
        # sync only: if failures or self._loose_ends.changed:
        # sync only:     stored(self._commit_with(failures, (), ()), self._entity)

    async def _append(self, key: str, body: str) -> Applied:
        """Add to what is recorded."""
        if self._record.retried:
            key = f"{key}:{self._record.retried}"  # the same may have been recorded before
        outcome, failures = await self._commit((Append((body,), key),))
        applied = stored(outcome, self._entity)
        if outcome is applied:  # stored just now, not at an earlier try
            self._clock = applied.at - self._scope.world.monotonic()
        if applied.version == self._record.version + failures + 1:
            self._record.version = applied.version  # else signals came in between: still unread
        return applied

    async def _begun(self, id_: str, end: float | None = None) -> float:
        """When this wait began, by the engine's clock; recorded at its first try, with its end."""
        if id_ not in self._record.begun:
            begun = {"begun": id_} if end is None else {"begun": id_, "end": end}
            applied = await self._append(f"begun:{id_}", encode(begun, "the wait"))
            self._record.begun[id_] = applied.at
            if end is not None:
                self._record.ends[id_] = end
        return self._record.begun[id_]

    async def _waited(self, id_: str, how: dict[str, Any]) -> None:
        """Record how a wait ended, so that it ends the same way in every replay."""
        if id_ in self._loose_ends.questions:
            await self._beside(withdraw, self._scope, self._loose_ends.questions[id_])
            self._loose_ends.close(id_)
        record = {"wait": id_, **how}
        await self._append(f"wait:{id_}", encode(record, "the signal"))
        self._record.waits[id_] = record
        self._record.taken.add(record.get("taken", 0))

    async def _park(self, id_: str, wait: ParkedFor) -> None:
        """Give the lease back and leave the block, unless something arrived in between.

        Not under a branch that is busy: what it does could not be recorded any more. Of several
        waits the one that ends first says when the workflow is due.
        """
        self._waits[id_] = wait
        # async only: begin
        self._rests()
        try:
            await self._settle()
            # Shielded: a parking that is cut short may have been, and nobody would know.
            parking = asyncio.ensure_future(self._give_back_at_rest())
            try:
                await asyncio.shield(parking)
            except asyncio.CancelledError:
                parking.add_done_callback(lambda done: done.cancelled() or done.exception())
                self.cut_off |= self._parking.locked()  # whoever cut it short goes on
                raise
        finally:
            self._busy += 1
            self._quiet.clear()
            self._waits.pop(id_, None)
        # async only: end
        # sync only: self._give_back()
        # sync only: self._waits.pop(id_, None)

    # async only: begin
    async def _settle(self) -> None:
        """Until every branch has come as far as it can: to a wait, or to its end.

        Whoever is told of the end of a branch (a group, a `gather`, and the code around it) hears
        of it some rounds of the event loop later, and then may go on, or cut this wait short.
        """
        asked = -1
        while asked != (asked := self._asked.total()) or self._busy:
            await self._quiet.wait()
            await self._moment()

    async def _moment(self) -> None:
        await self._scope.world.pause(MOMENT)
        for _ in range(ROUNDS):
            await self._scope.world.pause(0)

    async def _give_back_at_rest(self) -> None:
        async with self._parking:
            # Another wait may just have read what came, for itself and for others.
            came = any(self._has_come(id_, wait) for id_, wait in self._waits.items())
            if not self._busy and not came:
                self._must_drive("a wait")
                await self._give_back()

    def _has_come(self, id_: str, wait: ParkedFor) -> bool:
        if wait.what == "child":
            return self._record.told.get(wait.name, 0) > wait.seen
        return wait.what == "signal" and self._signal(id_, wait.name, wait.until) is not None

    # async only: end

    async def _give_back(self) -> None:
        assert self._held is not None
        release = Release(self._held.token, self._held.nonce)
        due = min((w.until for w in self._waits.values() if w.until is not None), default=0.0)
        waits = [
            {
                "what": wait.what,
                "name": wait.name,
                "since": self._record.begun.get(id_, self._now()),
                "until": wait.until,
            }
            for id_, wait in self._waits.items()
        ]
        waiting = Put(WAITS, encode({"waits": waits}, "what it waits for"))
        give_back = (SetHead(due=due), release, NOBODY_DRIVES, waiting)
        outcome, _ = await self._commit(give_back, LogAt(self._record.version))
        if isinstance(outcome, Conflict):
            await self._catch_up()
            return
        stored(outcome, self._entity)
        self.parked = True
        raise Parked

    async def _catch_up(self) -> None:
        """Read what others (signals, transitions) have appended since."""
        page = Log(self._record.version, details=True)
        fetched = await self._handle.fetch(page)
        for entry in fetched.entries:
            self._record.add(entry)

    def _now(self) -> float:
        """The engine's clock, as far as it is known here."""
        return self._scope.world.monotonic() + self._clock


def _too_long(id_: str, timeout: float) -> TimeoutError:
    return TimeoutError(f"the step {id_!r} took longer than {timeout:g} s")
