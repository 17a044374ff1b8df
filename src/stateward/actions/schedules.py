"""Actions on schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

from msgspec import field

from stateward.actions.action import ActionCall, Actions, Cli, Rest
from stateward.actions.arguments import After, Arguments, Fields, Id, Items, Limit, Name, User
from stateward.actions.page import past
from stateward.kinds import SCHEDULE
from stateward.records import ScheduleInfo
from stateward.state.schedules import Schedule


def _schedule(call: ActionCall) -> Schedule:
    return call.store.schedule(call.arguments.schedule, call.whose)


async def _info(call: ActionCall) -> ScheduleInfo | None:
    return await _schedule(call).info()


SCHEDULES = Actions(SCHEDULE, _info)


class OneSchedule(Arguments, frozen=True):
    """Which schedule."""

    schedule: Id
    user: User = None


class ListSchedules(Arguments, frozen=True):
    """Some of the schedules, by id."""

    user: User = None
    limit: Limit = 100
    after: After = None


@SCHEDULES.list(
    ListSchedules,
    ScheduleInfo,
    lambda info: info.id,
    for_one_user=True,
    rest=Rest("GET /v1/schedules"),
    cli=Cli(
        """\
When each is due next, what it runs, and how its last run ended. Changes nothing.

examples:
  stateward schedule list sqlite:///agents.db
  stateward schedule list sqlite:///agents.db --limit 20 --json""",
        columns=("id", "status", "cron", "tz", "next_at", "user"),
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[ScheduleInfo]:
    """List schedules by id."""
    return past(call.store.schedules(call.whose), call.arguments.after, lambda info: info.id)


@SCHEDULES.read(
    "show",
    OneSchedule,
    ScheduleInfo,
    unlogged="a schedule says when programs run, and nothing of people",
    for_one_user=True,
    rest=Rest("GET /v1/schedules/{schedule}"),
    cli=Cli(
        """\
Changes nothing.

examples:
  stateward schedule show sqlite:///agents.db nightly
  stateward schedule show sqlite:///agents.db nightly --json"""
    ),
)
async def _show(call: ActionCall) -> ScheduleInfo | None:
    """Get a schedule."""
    return await _info(call)


class DeclareSchedule(OneSchedule, frozen=True, kw_only=True):
    """When, and which task or workflow; see `Schedule.declare`."""

    cron: Name
    task: Name | None = None
    args: Items = field(default_factory=list)
    kwargs: Fields = field(default_factory=dict)
    workflow: Name | None = None
    input: Any = None
    tz: Name = "UTC"
    missed: Literal["skip", "once", "all"] = "once"


@SCHEDULES.change(
    "declare",
    DeclareSchedule,
    ScheduleInfo,
    role="agent",
    look_up=None,
    rest=Rest("PUT /v1/schedules/{schedule}", "ScheduleBody"),
)
async def _declare(call: ActionCall) -> ScheduleInfo:
    """Create or replace a schedule."""
    asked: DeclareSchedule = call.arguments
    return await _schedule(call).declare(
        asked.cron,
        task=asked.task,
        args=asked.args,
        kwargs=asked.kwargs,
        workflow=asked.workflow,
        input=asked.input,
        tz=asked.tz,
        missed=asked.missed,
    )


@SCHEDULES.change(
    "pause",
    OneSchedule,
    ScheduleInfo,
    rest=Rest("POST /v1/schedules/{schedule}/pause"),
    cli=Cli(
        """\
Nothing is started until stateward schedule resume. What is running goes on.

examples:
  stateward schedule pause sqlite:///agents.db nightly --dry-run
  stateward schedule pause sqlite:///agents.db nightly --yes""",
        "Pause the schedule {schedule!r}, which is {status}",
        "paused",
    ),
)
async def _pause(call: ActionCall) -> ScheduleInfo:
    """Pause a schedule."""
    return await _schedule(call).pause()


@SCHEDULES.change(
    "resume",
    OneSchedule,
    ScheduleInfo,
    rest=Rest("POST /v1/schedules/{schedule}/resume"),
    cli=Cli(
        """\
It continues with its next time; what was due during the pause is not made up for.

examples:
  stateward schedule resume sqlite:///agents.db nightly --dry-run
  stateward schedule resume sqlite:///agents.db nightly --yes""",
        "Resume the schedule {schedule!r}, which is {status}",
        "resumed",
    ),
)
async def _resume(call: ActionCall) -> ScheduleInfo:
    """Resume a schedule."""
    return await _schedule(call).resume()


@SCHEDULES.change(
    "delete",
    OneSchedule,
    None,
    makes_room=True,
    rest=Rest("DELETE /v1/schedules/{schedule}"),
    cli=Cli(
        """\
Nothing is started by it any more. What it has started already goes on.

examples:
  stateward schedule delete sqlite:///agents.db nightly --dry-run
  stateward schedule delete sqlite:///agents.db nightly --yes""",
        "Delete the schedule {schedule!r}, which is {status}",
        "deleted",
    ),
)
async def _delete(call: ActionCall) -> None:
    """Delete a schedule."""
    await _schedule(call).remove()
