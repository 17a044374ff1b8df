"""The REST API of schedules."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from stateward.records import ScheduleInfo
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Page, Whom, answer, missing, page, past, whose
from stateward.server.route import RestCall, Routes


class SchedulesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Some of the schedules, by id."""

    user: str | None = None
    limit: Limit = 100
    after: str | None = None


class ScheduleBody(Struct, frozen=True, forbid_unknown_fields=True):
    """When, and which task or workflow; see `Schedule.declare`."""

    cron: str
    task: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    workflow: str | None = None
    input: Any = None
    tz: str = "UTC"
    missed: Literal["skip", "once", "all"] = "once"


SCHEDULES = Routes()


@SCHEDULES.route("GET /v1/schedules", "read", Page[ScheduleInfo], SchedulesQuery)
async def _schedules(call: RestCall) -> Reply:
    """List schedules by id."""
    query: SchedulesQuery = call.query
    listing = call.store.schedules(whose(call, query.user))
    return await page(
        call, query.limit, past(listing, query.after, lambda info: info.id), lambda info: info.id
    )


@SCHEDULES.route("GET /v1/schedules/{schedule}", "read", ScheduleInfo, Whom)
async def _schedule_shown(call: RestCall) -> Reply:
    """Get a schedule."""
    return answer(await _schedule(call))


@SCHEDULES.logged("schedule declare")
@SCHEDULES.route(
    "PUT /v1/schedules/{schedule}", "write", ScheduleInfo, Whom, ScheduleBody, one_users=False
)
async def _declare(call: RestCall) -> Reply:
    """Create or replace a schedule."""
    body: ScheduleBody = call.body
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    info = await schedule.declare(
        body.cron,
        task=body.task,
        args=body.args,
        kwargs=body.kwargs,
        workflow=body.workflow,
        input=body.input,
        tz=body.tz,
        missed=body.missed,
    )
    return answer(info)


async def _schedule(call: RestCall) -> ScheduleInfo:
    info = await call.store.schedule(call.path["schedule"], whose(call, call.query.user)).info()
    if info is None:
        raise missing("schedule", call.path["schedule"])
    return info


@SCHEDULES.logged("schedule pause")
@SCHEDULES.route(
    "POST /v1/schedules/{schedule}/pause", "operate", ScheduleInfo, Whom, one_users=False
)
async def _pause(call: RestCall) -> Reply:
    """Pause a schedule."""
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.pause())


@SCHEDULES.logged("schedule resume")
@SCHEDULES.route(
    "POST /v1/schedules/{schedule}/resume", "operate", ScheduleInfo, Whom, one_users=False
)
async def _resume(call: RestCall) -> Reply:
    """Resume a schedule."""
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.resume())


@SCHEDULES.logged("schedule remove", makes_room=True)
@SCHEDULES.route("DELETE /v1/schedules/{schedule}", "operate", None, Whom, one_users=False)
async def _remove_schedule(call: RestCall) -> Reply:
    """Delete a schedule."""
    await call.store.schedule(call.path["schedule"], whose(call, call.query.user)).remove()
    return Reply(204)
