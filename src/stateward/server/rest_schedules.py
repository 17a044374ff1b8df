"""The REST API of schedules."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from stateward.kinds import SCHEDULE
from stateward.records import (
    ScheduleInfo,
)
from stateward.server.reply import Reply
from stateward.server.rest import (
    Limit,
    Page,
    Whom,
    answer,
    missing,
    page,
    past,
    whose,
)
from stateward.server.route import RestCall, RestRoute, RouteDeed


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


async def _schedules(call: RestCall) -> Reply:
    query: SchedulesQuery = call.query
    listing = call.store.schedules(whose(call, query.user))
    return await page(
        call, query.limit, past(listing, query.after, lambda info: info.id), lambda info: info.id
    )


async def _declare(call: RestCall) -> Reply:
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


async def _schedule_shown(call: RestCall) -> Reply:
    return answer(await _schedule(call))


async def _pause(call: RestCall) -> Reply:
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.pause())


async def _resume(call: RestCall) -> Reply:
    await _schedule(call)
    schedule = call.store.schedule(call.path["schedule"], whose(call, call.query.user))
    return answer(await schedule.resume())


async def _remove_schedule(call: RestCall) -> Reply:
    await call.store.schedule(call.path["schedule"], whose(call, call.query.user)).remove()
    return Reply(204)


_S = "/v1/schedules/{schedule}"
SCHEDULES = (
    RestRoute(
        "GET",
        "/v1/schedules",
        "read",
        _schedules,
        "List schedules by id",
        Page[ScheduleInfo],
        SchedulesQuery,
    ),
    RestRoute("GET", _S, "read", _schedule_shown, "Get a schedule", ScheduleInfo, Whom),
    RestRoute(
        "PUT",
        _S,
        "write",
        _declare,
        "Create or replace a schedule",
        ScheduleInfo,
        Whom,
        ScheduleBody,
        one_users=False,
        deed=RouteDeed("schedule declare", SCHEDULE, "schedule"),
    ),
    RestRoute(
        "POST",
        f"{_S}/pause",
        "operate",
        _pause,
        "Pause a schedule",
        ScheduleInfo,
        Whom,
        one_users=False,
        deed=RouteDeed("schedule pause", SCHEDULE, "schedule"),
    ),
    RestRoute(
        "POST",
        f"{_S}/resume",
        "operate",
        _resume,
        "Resume a schedule",
        ScheduleInfo,
        Whom,
        one_users=False,
        deed=RouteDeed("schedule resume", SCHEDULE, "schedule"),
    ),
    RestRoute(
        "DELETE",
        _S,
        "operate",
        _remove_schedule,
        "Delete a schedule",
        None,
        Whom,
        status=204,
        one_users=False,
        deed=RouteDeed("schedule remove", SCHEDULE, "schedule", makes_room=True),
    ),
)
