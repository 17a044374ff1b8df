"""Schedules: work that is due repeatedly, and runs once each time.

A schedule is an entity that is due at its next tick. The first worker to find it decides which
ticks run, by compare-and-swap, and then records a task or a workflow for each of them, whose id is
made from the schedule and the tick. No worker leads: if one dies in between, any other continues
and derives the same ids.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from stateward.codec import Retention, check_id, seconds
from stateward.errors import InvalidInput, KeyReusedError, NotYoursError
from stateward.kinds import SCHEDULE
from stateward.ops import (
    Absent,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    DocumentAt,
    Drop,
    Fetch,
    Fetched,
    Found,
    Head,
    List,
    Put,
    SetHead,
    StatusIn,
    Write,
)
from stateward.records import ScheduleInfo
from stateward.state.handle import Handle
from stateward.state.malformed import readable
from stateward.state.refusals import stored
from stateward.state.schedule_record import (
    ACTIVE,
    ERROR,
    PAUSED,
    READING,
    SPEC,
    STATE,
    OnMissed,
    ScheduleSpec,
    ScheduleState,
    check_spec,
    decide,
    due_at,
    last_run,
    run_of,
    schedule_info,
    spec_of,
    spec_text,
    state_of,
    state_text,
    tick_text,
)
from stateward.state.scope import Scope
from stateward.state.stored_document import document_at
from stateward.state.task_record import ATTEMPTS, CALL, PENDING
from stateward.state.workflows import Workflow

logger = logging.getLogger("stateward.schedules")

SUCCEEDED_AFTER = 5.0  # seconds after which another worker continues if one died
AT_ONCE = 100  # commits in one round trip


class Schedule:
    """A handle on one schedule. Any worker may run what is due."""

    def __init__(self, scope: Scope, id: str, owner: str | None = None) -> None:
        self._handle = Handle(scope, scope.entity(SCHEDULE, id), owner)

    @property
    def id(self) -> str:
        return self._handle.entity.id

    async def declare(
        self,
        cron: str,
        *,
        task: str | Callable[..., Any] | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        workflow: str | None = None,
        input: Any = None,
        tz: str = "UTC",
        tick: str | None = None,
        missed: OnMissed = "once",
        at_most: int = 100,
        grace: float = 60.0,
        attempts: int = ATTEMPTS,
        retain: Retention = timedelta(days=30),
    ) -> ScheduleInfo:
        """Create the schedule, or change it to this declaration. Does nothing if nothing differs.

        A worker runs each tick once, as the task of a function or as a workflow of a kind. A new
        `cron` or `tz` applies from now on. A paused schedule stays paused.
        """
        name = task if isinstance(task, str | None) else getattr(task, "__name__", "")
        if name == "<lambda>":
            raise InvalidInput(
                "a worker finds the task of a schedule by its name, and a lambda has none: write "
                "a function with def, and pass the function or its name"
            )
        spec = ScheduleSpec(
            cron=cron,
            tz=tz,
            task=name,
            workflow=workflow,
            args=list(args),
            kwargs=dict(kwargs or {}),
            input=input,
            tick=tick,
            missed=missed,
            at_most=at_most,
            grace=grace,
            attempts=attempts,
            retain=seconds(retain),
        )
        scope = self._handle.scope
        check_spec(spec).after(scope.world.now())
        check_id(run_of(self._handle.entity, spec, 0.0).id, "the id of a schedule with its tick")
        if scope.stack.replica is not None:
            raise InvalidInput(
                "schedules need a store that all replicas reach: open it with workflows=, the URL "
                "of a server, beside the volumes"
            )
        await self._make(spec, spec_text(spec, scope.limits))
        return await self._planned()

    async def _make(self, spec: ScheduleSpec, text: str) -> None:
        declared = (SetHead(label=spec.target), Put(SPEC, text))
        first = SetHead(status=ACTIVE, label=spec.target, due_in=0.0)
        create = (first, Put(SPEC, text), Put(STATE, state_text(ScheduleState())))
        while True:
            outcome = await self._handle.commit(create, (Absent(),), reading=READING)
            if isinstance(outcome, Conflict):
                head, before = outcome.head, spec_of(outcome.values)
                if before == spec:
                    return
                writes: tuple[Write, ...] = declared
                if (before.cron, before.tz) != (spec.cron, spec.tz):
                    state = replace(state_of(outcome.values), next=None)
                    writes = (replace(declared[0], due_in=_now_if_active(head)), declared[1])
                    writes = (*writes, Put(STATE, state_text(state)))
                if await self._handle.commit_if((CommitsAt(head.commits),), *writes):
                    return
            else:
                stored(outcome, self._handle.entity)
                return

    async def pause(self) -> ScheduleInfo:
        """Stop ticks until `resume`. Recorded ticks still run; `store.task` cancels them."""
        return await self._change(PAUSED)

    async def resume(self) -> ScheduleInfo:
        """Run ticks again, from the next one on; ticks during the pause are not made up for."""
        return await self._change(ACTIVE)

    async def _change(self, status: str) -> ScheduleInfo:
        while True:
            schedule = await self._existing()
            if schedule.head.status == status:
                return await self._planned()
            state = replace(state_of(schedule.documents), next=None)
            head = SetHead(status=status, due=0.0)
            if status == ACTIVE:
                head = SetHead(status=status, due_in=0.0)
            as_read = (CommitsAt(schedule.head.commits),)
            if await self._handle.commit_if(as_read, head, Put(STATE, state_text(state))):
                return await self._planned()

    async def remove(self) -> None:
        """Remove the schedule, if it exists. Ticks already recorded still run."""
        stored(await self._handle.commit((Drop(),)), self._handle.entity)

    async def info(self) -> ScheduleInfo | None:
        """Return the state and the outcome of the last tick; None if there is no such schedule."""
        schedule = await self._fetched()
        if not schedule.head.exists:
            return None
        return (await infos(self._handle.scope, (schedule,)))[0]

    async def _planned(self) -> ScheduleInfo:
        """Return the same as `info`, after the next tick was computed if necessary."""
        schedule = await self._existing()
        if state_of(schedule.documents).next is None:
            await record_ticks(self._handle.scope, schedule)
            schedule = await self._existing()
        return (await infos(self._handle.scope, (schedule,)))[0]

    async def _existing(self) -> Found:
        schedule = await self._fetched()
        if not schedule.head.exists:
            raise InvalidInput(f"there is no schedule {self.id!r}; declare() makes one")
        return schedule

    async def _fetched(self) -> Found:
        fetched = await self._handle.fetch(documents=READING)
        return Found(self._handle.entity, fetched.head, fetched.documents)


async def list_schedules(scope: Scope, owner: str | None) -> AsyncIterator[ScheduleInfo]:
    """Yield schedules by id."""
    op = List(scope.namespace, kind=SCHEDULE, owner=owner, documents=READING)
    async for page in scope.pages(op):
        for info in await infos(scope, page.entities):
            yield info


async def infos(scope: Scope, schedules: Sequence[Found]) -> list[ScheduleInfo]:
    """Return schedules with the outcomes of their last ticks, which are read in one batch."""
    schedules = [
        schedule
        for schedule in schedules
        if readable(schedule.entity, partial(schedule_info, schedule, None)) is not None
    ]
    runs = [last_run(schedule) for schedule in schedules]
    fetches = [Fetch(run, documents=(ERROR,)) for run in runs if run is not None]
    outcomes = iter(await scope.execute(fetches) if fetches else ())
    fetched = [None if run is None else next(outcomes) for run in runs]
    return [
        schedule_info(schedule, run if isinstance(run, Fetched) else None)
        for schedule, run in zip(schedules, fetched, strict=True)
    ]


# --- by a worker ------------------------------------------------------------------------


async def record_ticks(scope: Scope, schedule: Found) -> bool:
    """Record the ticks of a due schedule that are to run; False if another worker was faster."""
    handle = Handle(scope, schedule.entity)
    spec, state = spec_of(schedule.documents), state_of(schedule.documents)
    unchanged: tuple[Check, ...] = (
        StatusIn((ACTIVE,)),
        document_at(SPEC, schedule.documents[SPEC]),
        document_at(STATE, schedule.documents[STATE]),
    )
    if not state.planned:
        # Ask the engine for the time: if our own clock is ahead, ticks would run early.
        claimed = await handle.commit((SetHead(due_in=SUCCEEDED_AFTER),), unchanged)
        if isinstance(claimed, Conflict):
            return False
        before, state = state, decide(spec, state, stored(claimed, schedule.entity).at)
        # The decision is stored first, so that a successor carries out the same one.
        writes: tuple[Write, ...] = (Put(STATE, state_text(state)),)
        if not state.planned:
            writes = (*writes, due_at(state))
        outcome = await handle.commit(writes, unchanged)
        if isinstance(outcome, Conflict):
            return False
        decided = stored(outcome, schedule.entity)
        _report(scope, schedule, state, before)
        if not state.planned:
            return True
        unchanged = (unchanged[0], DocumentAt(STATE, decided.documents[STATE], None))
    if spec.task is not None:
        await _record_tasks(scope, schedule, spec, state.planned)
    else:
        await _begin_workflows(scope, schedule, spec, state.planned)
    done = replace(state, planned=[])
    outcome = await handle.commit((Put(STATE, state_text(done)), due_at(done)), unchanged)
    if not isinstance(outcome, Conflict):
        stored(outcome, schedule.entity)
        return True
    if schedule.head.owner and not outcome.head.exists:
        # The user was erased meanwhile: tasks recorded after that must not stay.
        runs = [run_of(schedule.entity, spec, tick) for tick in state.planned]
        await _at_once(scope, [Commit(run, scope.world.new_op(), (Drop(),)) for run in runs])
    return False  # or another worker has done the same meanwhile


async def _record_tasks(
    scope: Scope, schedule: Found, spec: ScheduleSpec, ticks: Sequence[float]
) -> None:
    """Record a task for each tick that has none yet."""
    commits = [
        Commit(
            run_of(schedule.entity, spec, tick),
            scope.world.new_op(),
            (SetHead(status=PENDING, label=spec.task, due=tick), Put(CALL, spec.call(tick))),
            (Absent(),),
            schedule.head.owner,
            spec.retain,
        )
        for tick in ticks
    ]
    await _at_once(scope, commits)


async def _at_once(scope: Scope, commits: Sequence[Commit]) -> None:
    for begin in range(0, len(commits), AT_ONCE):
        await scope.execute(commits[begin : begin + AT_ONCE])


async def _begin_workflows(
    scope: Scope, schedule: Found, spec: ScheduleSpec, ticks: Sequence[float]
) -> None:
    """Start a workflow for each tick that has none yet; a worker drives it."""
    assert spec.workflow is not None
    for tick in ticks:
        entity = run_of(schedule.entity, spec, tick)
        owner, input = schedule.head.owner, spec.input_at(tick)
        workflow = Workflow(scope, entity.id, kind=spec.workflow, owner=owner, input=input)
        try:
            await workflow.start()
        except (KeyReusedError, NotYoursError):
            pass  # started before the schedule was changed, or by other code


def _report(scope: Scope, schedule: Found, state: ScheduleState, before: ScheduleState) -> None:
    """Count the ticks, and log missed ones."""
    counters, gap = scope.counters, state.gap
    late = 0
    if gap is not None and gap != before.gap:
        late = gap.count - gap.skipped
        counters.ticks_late += late
        counters.ticks_skipped += gap.skipped
        logger.warning(
            "schedule_missed",
            extra={
                "schedule": schedule.entity.id,
                "missed": gap.count,
                "run_late": late,
                "skipped": gap.skipped,
                "first": tick_text(gap.first),
                "last": tick_text(gap.last),
            },
        )
    counters.ticks_on_time += len(state.planned) - late


def _now_if_active(head: Head) -> float | None:
    return 0.0 if head.status == ACTIVE else None
