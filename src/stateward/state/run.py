"""A workflow being driven: steps, waits, sleeps, and what is recorded of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from stateward.codec import check_id, check_seconds, decode, encode, encode_document
from stateward.errors import (
    InvalidInput,
    LeaseLost,
    Permanent,
    StatewardError,
    StoreUnavailable,
    WorkflowFinished,
)
from stateward.layers.leases.held import HeldLease
from stateward.ops import (
    Append,
    Applied,
    Check,
    Conflict,
    Fenced,
    KeyReused,
    Log,
    LogAt,
    Outcome,
    Put,
    Release,
    SetHead,
    Write,
)
from stateward.state.calls import awaited
from stateward.state.handle import Handle
from stateward.state.machine import move
from stateward.state.refusals import refuse, stored
from stateward.state.run_record import (
    COMPLETED,
    META,
    STATE,
    STEP,
    Parked,
    RunRecord,
    raised_again,
    step_failure,
)
from stateward.state.work import result_json, working_on

FIRST_PAUSE = 0.5  # before a failed step is tried again; doubles
LONGEST_PAUSE = 60.0


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
    ) -> None:
        """`documents` are those that were there when it was entered, as JSON."""
        meta = decode(documents[META])
        self.kind: str = meta["kind"]
        self.input: Any = meta["input"]
        self.user = handle.owner
        self.state: dict[str, Any] = decode(documents[STATE]) if STATE in documents else {}
        self.at: str | None = decode(documents[STEP])["at"] if STEP in documents else None
        self.status = status
        self.parked = False
        self.broken: StatewardError | None = None
        self._handle = handle
        self._scope = handle.scope
        self._entity = handle.entity
        self._record = record
        self._held = held
        self._clock = clock
        self._asked: Counter[str] = Counter()
        self._answered: set[str] = set()
        self._waits: dict[str, float | None] = {}  # those that are to be parked for, and until when
        self._unrecorded: dict[str, str] = {}  # failures of steps, by step: see `_failures`
        self._interrupted: set[str] = set()  # of those, steps that were cancelled
        # async only: begin
        self._under_way = 0  # steps
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._parking = asyncio.Lock()
        # async only: end

    @property
    def id(self) -> str:
        return self._entity.id

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        retries: int = 0,
        **kwargs: Any,
    ) -> Any:
        """The result of `function`, run now or recorded earlier; a restart does not run it again.

        A failing function is tried `retries` more times, after growing pauses, unless it raises
        `Permanent`. Steps that run at the same time need distinct names. A failure that the
        workflow goes on after is recorded as well: each replay raises an exception of the same
        class, with the same text, without running the function again.
        """
        if type(retries) is not int or retries < 0:
            raise InvalidInput(f"retries is a number of at least 0, not {retries!r}")
        id_ = self._number(name)
        if id_ in self._record.steps:
            return self._record.steps[id_]
        if id_ in self._record.failures:
            raise raised_again(self._record.failures[id_])
        # async only: begin
        async with self._parking:  # a run that is being parked begins nothing
            self._must_drive(f"the step {id_!r}")
            self._under_way += 1
            self._quiet.clear()
        try:
            return await self._stepped(id_, function, args, kwargs, retries)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()
        # async only: end
        # sync only: self._must_drive(f"the step {id_!r}")
        # sync only: return self._stepped(id_, function, args, kwargs, retries)

    async def _stepped(
        self, id_: str, function: Callable[..., Any], args: Any, kwargs: Any, retries: int
    ) -> Any:
        try:
            value = await self._try(id_, function, args, kwargs, retries)
            text = result_json(value, f"the step {id_!r}")
        except (StoreUnavailable, LeaseLost):
            raise  # of the store, not of the step: it stays to be done
        except Exception as error:
            self._unrecorded[id_] = step_failure(id_, error)
            raise
        # async only: begin
        except asyncio.CancelledError:  # by a timeout around it, perhaps: then the run goes on
            self._unrecorded[id_] = step_failure(
                id_, TimeoutError(f"the step {id_!r} was cut short")
            )
            self._interrupted.add(id_)
            raise
        # async only: end
        body = f'{{"step":{encode(id_, "the step")},{text[1:]}'
        await self._append(f"step:{id_}", body)
        self._record.steps[id_] = value
        return value

    async def wait(self, name: str, *, timeout: float | None = None) -> Any:
        """The value of the next signal `name`. Until it comes the workflow is parked.

        Parking leaves the block; no process is needed until the signal comes or the time is up
        (then `TimeoutError` is raised here).
        """
        check_id(name, "the name of a signal")
        if timeout is not None:
            check_seconds(timeout, "timeout")
        id_ = self._number(f"wait {name}")
        while id_ not in self._record.waits:
            self._must_drive(f"the wait for {name!r}")
            begun = self._record.begun.get(id_)
            late = None if timeout is None or begun is None else begun + timeout
            signal = self._record.signal(name, late)
            if signal is not None:
                await self._waited(id_, {"taken": signal[0], "value": signal[1]})
                break
            begun = await self._begun(id_)
            until = None if timeout is None else begun + timeout
            if until is not None and self._now() >= until:
                await self._catch_up()  # a signal that came in time still counts
                if self._record.signal(name, until) is None:
                    await self._waited(id_, {"over": True})
            else:
                await self._park(id_, until)
        record = self._record.waits[id_]
        if "over" in record:
            raise TimeoutError(f"nothing came for {name!r} of the workflow {self.id!r} in time")
        return record["value"]

    async def sleep(self, seconds: float | None = None, *, until: datetime | None = None) -> None:
        """Park until a time, or for so many seconds."""
        if (seconds is None) == (until is None):
            raise InvalidInput("sleep takes seconds or until=, one of them")
        if seconds is not None:
            check_seconds(seconds, "sleep")
        id_ = self._number("sleep")
        while id_ not in self._record.waits:
            self._must_drive("a sleep")
            # Recorded: an end that is computed anew in every replay is one end all the same.
            end = await self._begun(id_, None if until is None else until.timestamp())
            end = self._record.ends.get(id_, end + (seconds or 0.0))
            if self._now() >= end:
                await self._waited(id_, {"slept": True})
            else:
                await self._park(id_, end)

    async def save(self, state: dict[str, Any]) -> None:
        """Replace the workflow's state document. A replay of what completed stores nothing."""
        if self.status == COMPLETED:
            self.state = state
            return
        self._must_drive("saving the state")
        put = Put(STATE, encode_document(state, self._scope.limits))
        stored(await self._commit((put,)), self._entity)
        self.state = state

    async def transition(self, to: str, *, expect: str | None = None) -> str:
        """Move along the declared machine, as a step: a restart does not move again.

        See `Workflow.transition`.
        """
        id_ = self._number(f"transition {to}")
        if id_ in self._record.steps:
            self.at = to
            return str(self._record.steps[id_])
        self._must_drive(f"the transition to {to!r}")
        assert self._held is not None
        await self._record_failures()
        try:
            was = await move(self._handle, to, expect, id_, (self._held.fence,))
        except (StoreUnavailable, LeaseLost) as error:
            self.broken = error
            raise
        self._record.steps[id_] = was
        self.at = to
        return was

    @property
    def unasked(self) -> list[str]:
        """Recorded steps that this run has not asked for (yet)."""
        return sorted(self._record.steps.keys() - self._answered)

    # --- inside ---------------------------------------------------------------------

    def _number(self, name: str) -> str:
        """The id of this occurrence: name#1, name#2 …"""
        check_id(name, "the name of a step")
        self._asked[name] += 1
        id_ = f"{name}#{self._asked[name]}"
        self._answered.add(id_)
        return id_

    def _must_drive(self, what: str) -> None:
        if self.parked:
            raise Parked
        if self.broken is not None:
            raise self.broken
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
        self, id_: str, function: Callable[..., Any], args: Any, kwargs: Any, retries: int
    ) -> Any:
        longest = FIRST_PAUSE
        for left in range(retries, -1, -1):
            try:
                with working_on((*self._entity, id_)):
                    return await awaited(function(*args, **kwargs))
            except (Permanent, StoreUnavailable, LeaseLost):
                raise
            except Exception:
                if not left:
                    raise
            await self._scope.world.pause(longest * (0.5 + self._scope.world.random() / 2))
            longest = min(longest * 2, LONGEST_PAUSE)
            self._must_drive(f"the step {id_!r}")
        raise AssertionError("unreachable")

    async def _commit(self, writes: tuple[Write, ...], *checks: Check) -> Outcome:
        """A commit with the driver's fence; if it is refused or not sure, the run is over."""
        assert self._held is not None
        failures = () if any(type(write) is Append for write in writes) else self._failures()
        if failures:
            writes = (*writes, Append(failures))
        try:
            outcome = await self._handle.commit(writes, (self._held.fence, *checks))
            if isinstance(outcome, KeyReused):
                raise LeaseLost(
                    f"another driver of the workflow {self.id!r} recorded {outcome.key!r}"
                )
            if isinstance(outcome, Fenced):
                refuse(outcome, self._entity)
        except (StoreUnavailable, LeaseLost) as error:
            self.broken = error
            raise
        return outcome

    async def _append(self, key: str, body: str) -> Applied:
        """Add to what is recorded."""
        bodies = (*self._failures(), body)
        outcome = await self._commit((Append(bodies, key),))
        applied = stored(outcome, self._entity)
        if outcome is applied:  # stored just now, not at an earlier try
            self._clock = applied.at - self._scope.world.monotonic()
        if applied.version == self._record.version + len(bodies):
            self._record.version = applied.version  # else signals came in between: still unread
        return applied

    def _failures(self) -> tuple[str, ...]:
        """The failures of steps that the run went on after: recorded with whatever comes next.

        Before that nothing came of them, and a replay may run the step again. A step that was
        cancelled has failed only if the run was not: then somebody took the cancellation in.
        """
        failed = self._unrecorded
        # async only: begin
        task = asyncio.current_task()
        if self._interrupted and task is not None and task.cancelling():
            failed = {id_: failed[id_] for id_ in failed if id_ not in self._interrupted}
        # async only: end
        for id_ in failed:
            self._record.failures[id_] = decode(failed[id_])["failed"]
        bodies = tuple(failed.values())
        self._unrecorded, self._interrupted = {}, set()
        return bodies

    async def _record_failures(self) -> None:
        """Record now what would have been recorded with whatever comes next."""
        if self._unrecorded and (bodies := self._failures()):
            stored(await self._commit((Append(bodies),)), self._entity)

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
        record = {"wait": id_, **how}
        await self._append(f"wait:{id_}", encode(record, "the signal"))
        self._record.waits[id_] = record
        self._record.taken.add(record.get("taken", 0))

    async def _park(self, id_: str, until: float | None) -> None:
        """Give the lease back and leave the block, unless something arrived in between.

        Not under a step that runs beside: its effect could not be recorded any more. Of several
        waits the one that ends first says when the workflow is due.
        """
        self._waits[id_] = until
        try:
            # async only: begin
            await self._scope.world.pause(0)  # whoever runs beside gets to its own step or wait
            await self._quiet.wait()
            async with self._parking:
                if self._under_way:
                    return
                self._must_drive("a wait")
                await self._give_back()
            # async only: end
            # sync only: self._give_back()
        finally:
            self._waits.pop(id_, None)

    async def _give_back(self) -> None:
        assert self._held is not None
        release = Release(self._held.token, self._held.nonce)
        due = min((end for end in self._waits.values() if end is not None), default=0.0)
        outcome = await self._commit((SetHead(due=due), release), LogAt(self._record.version))
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
