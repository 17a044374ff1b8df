"""The record of a schedule, and the decision which of its ticks run. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import (
    MOST,
    Limits,
    check_count,
    check_id,
    check_span,
    decode,
    encode,
    encode_value,
    shown,
)
from stateward.errors import InvalidInput
from stateward.kinds import TASK, WORKFLOW
from stateward.ops import Entity, Fetched, Found, SetHead, Value
from stateward.records import ScheduleInfo, moment
from stateward.state.cron import Cron
from stateward.state.work import error_text

ACTIVE, PAUSED = "active", "paused"
SPEC, STATE, ERROR = "spec", "state", "error"
READING = (SPEC, STATE)

COUNTED = 10_000  # missed ticks counted one by one; beyond that, only the newest are computed
MOST_AT_ONCE = 1000  # ticks recorded before the schedule is read again
SHORTEST_RETENTION = 3600.0  # a forgotten record cannot keep a tick from running twice

OnMissed = Literal["skip", "once", "all"]
Values = Mapping[str, Value]


class ScheduleSpec(Struct, frozen=True, kw_only=True):
    """A declared schedule."""

    cron: str
    tz: str
    task: str | None
    workflow: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    input: Any
    tick: str | None
    missed: OnMissed
    at_most: int
    grace: float
    attempts: int
    retain: float | None

    @property
    def target(self) -> str:
        """The name of the function, or the kind of workflow, that a tick runs."""
        return self.task or self.workflow or ""

    def call(self, tick: float) -> str:
        """Return the call of one tick's task, as a task records it."""
        kwargs = self.kwargs | ({self.tick: tick_text(tick)} if self.tick else {})
        record = {"name": self.task, "fingerprint": None, "args": self.args, "kwargs": kwargs}
        return encode(record | {"attempts": self.attempts}, "the call")

    def input_at(self, tick: float) -> Any:
        """Return the input of one tick's workflow."""
        return {**(self.input or {}), self.tick: tick_text(tick)} if self.tick else self.input


class Gap(Struct, frozen=True):
    """Ticks that did not run in their time, from the first to the last."""

    count: int
    skipped: int  # of those, never to run
    first: float
    last: float


class ScheduleState(Struct, frozen=True):
    """How far a schedule has come."""

    next: float | None = None  # None: the first tick from now on
    planned: list[float] = []  # decided to run, perhaps not recorded yet
    last: float | None = None  # the newest that was decided to run
    skipped: int = 0
    gap: Gap | None = None  # the last one


def check_spec(spec: ScheduleSpec) -> Cron:
    """Check a declaration; returns its cron expression."""
    if (spec.task is None) == (spec.workflow is None):
        raise InvalidInput("a schedule needs either task= or workflow=")
    check_id(spec.target, "the name of a function or of a kind of workflow")
    if spec.missed not in get_args(OnMissed):
        raise InvalidInput(f'missed= is "skip", "once" or "all", not {spec.missed!r}')
    if check_count(spec.at_most, "at_most") > MOST_AT_ONCE:
        raise InvalidInput(f"at_most= is at most {MOST_AT_ONCE:,}, not {spec.at_most!r}")
    check_span(spec.grace, "grace")
    if check_count(spec.attempts, "attempts") < spec.attempts:
        raise InvalidInput(f"attempts is at most {MOST}, not {shown(spec.attempts)}")
    if spec.retain is not None and spec.retain < SHORTEST_RETENTION:
        raise InvalidInput(
            "retain= of a schedule is an hour or more: a tick that is forgotten could run again"
        )
    if spec.tick is not None:
        check_id(spec.tick, "tick")
        if spec.workflow is not None and not isinstance(spec.input, dict | None):
            raise InvalidInput("tick= adds the time to the input, which must be a dict for that")
    return Cron(spec.cron, spec.tz)


def spec_text(spec: ScheduleSpec, limits: Limits) -> str:
    """Return the declaration as it is stored."""
    return encode_value(msgspec.structs.asdict(spec), "the schedule", limits)


def spec_of(values: Values) -> ScheduleSpec:
    return msgspec.convert(decode(values[SPEC].json), ScheduleSpec)


def state_text(state: ScheduleState) -> str:
    return encode(msgspec.to_builtins(state), "the schedule's state")


def state_of(values: Values) -> ScheduleState:
    return msgspec.convert(decode(values[STATE].json), ScheduleState)


def due_at(state: ScheduleState) -> SetHead:
    """Return the write that makes the schedule due at its next tick."""
    return SetHead(due_in=0.0) if state.next is None else SetHead(due=state.next)


def decide(spec: ScheduleSpec, state: ScheduleState, now: float) -> ScheduleState:
    """Decide which ticks up to now run, and which tick is next.

    All ticks within `grace` run. Earlier ones were missed: none of them runs, the newest does, or
    the newest `at_most` do.
    """
    cron = Cron(spec.cron, spec.tz)
    if state.next is None:
        return replace(state, next=cron.after(now))
    missed: deque[float] = deque(maxlen=spec.at_most)
    count, first, tick = 0, state.next, state.next
    in_time = now - spec.grace
    ticks = cron.ticks(tick)
    while tick < in_time:
        if count == COUNTED:
            missed.extend(cron.newest(spec.at_most, missed[-1], in_time))
            ticks = cron.ticks(in_time - 1.0)
            while tick < in_time:
                tick = next(ticks)
            break
        missed.append(tick)
        count += 1
        tick = next(ticks)
    late = {"skip": 0, "once": 1, "all": spec.at_most}[spec.missed]
    planned = list(missed)[-late:] if late else []
    gap = state.gap
    if count:
        gap = Gap(count, count - len(planned), first, missed[-1])
    while tick <= now and len(planned) < MOST_AT_ONCE:
        planned.append(tick)
        tick = next(ticks)
    return ScheduleState(
        next=tick,
        planned=planned,
        last=planned[-1] if planned else state.last,
        skipped=state.skipped + (gap.skipped if gap is not None and count else 0),
        gap=gap,
    )


def tick_text(tick: float) -> str:
    """Return the time of a tick in UTC, as ISO 8601."""
    return datetime.fromtimestamp(tick, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_of(schedule: Entity, spec: ScheduleSpec, tick: float) -> Entity:
    """Return the task or workflow of one tick. Every worker derives the same id."""
    kind = TASK if spec.task is not None else WORKFLOW
    return Entity(schedule.namespace, kind, f"{schedule.id}@{tick_text(tick)}")


def last_run(found: Found) -> Entity | None:
    """Return the task or workflow of the last tick, if there was one."""
    last = state_of(found.documents).last
    return None if last is None else run_of(found.entity, spec_of(found.documents), last)


def schedule_info(found: Found, run: Fetched | None) -> ScheduleInfo:
    """Return a schedule as listed, with the outcome of its last tick."""
    spec, state = spec_of(found.documents), state_of(found.documents)
    last = last_run(found)
    there = run if run is not None and run.head.exists else None
    error = decode(there.documents[ERROR].json) if there and ERROR in there.documents else None
    active = found.head.status == ACTIVE
    return ScheduleInfo(
        id=found.entity.id,
        user=found.head.owner or None,
        status=found.head.status,
        cron=spec.cron,
        tz=spec.tz,
        task=spec.task,
        workflow=spec.workflow,
        next_at=moment(state.next) if active and state.next is not None else None,
        last_at=None if state.last is None else moment(state.last),
        last_id=None if last is None else last.id,
        last_status=there.head.status if there else None,
        last_error=error_text(error) if error else None,
        skipped=state.skipped,
        missed=state.gap.count if state.gap else 0,
        missed_from=moment(state.gap.first) if state.gap else None,
        missed_to=moment(state.gap.last) if state.gap else None,
    )
