"""The REST API of tasks."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.kinds import TASK
from stateward.records import (
    TaskInfo,
)
from stateward.server.reply import Reply
from stateward.server.rest import (
    Limit,
    Page,
    ReasonBody,
    Whom,
    answer,
    missing,
    page,
    whose,
)
from stateward.server.route import RestCall, RestRoute, RouteDeed
from stateward.state.tasks import Task


class TasksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks, those first that were touched last."""

    user: str | None = None
    status: Literal["pending", "running", "completed", "failed", "cancelled"] | None = None
    limit: Limit = 100
    after: str | None = None


async def _tasks(call: RestCall) -> Reply:
    query: TasksQuery = call.query
    listing = call.store.tasks(
        query.status,
        user=whose(call, query.user),
        order="recent",
        before=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


async def _task_shown(call: RestCall) -> Reply:
    return answer(await _task(call))


async def _task(call: RestCall) -> TaskInfo:
    info = await _task_of(call).info()
    if info is None:
        raise missing("task", call.path["task"])
    return info


def _task_of(call: RestCall) -> Task:
    return call.store.task(call.path["task"], whose(call, call.query.user))


async def _retry_task(call: RestCall) -> Reply:
    try:
        return answer(await _task_of(call).retry())
    except InvalidInput:
        await _task(call)  # or says that there is none
        raise


async def _cancel_task(call: RestCall) -> Reply:
    try:
        return answer(await _task_of(call).cancel(call.body.reason))
    except InvalidInput:
        await _task(call)
        raise


_T = "/v1/tasks/{task}"
TASKS = (
    RestRoute(
        "GET", "/v1/tasks", "read", _tasks, "List tasks, newest first", Page[TaskInfo], TasksQuery
    ),
    RestRoute("GET", _T, "read", _task_shown, "Get a task", TaskInfo, Whom),
    RestRoute(
        "POST",
        f"{_T}/retry",
        "operate",
        _retry_task,
        "Run a failed or cancelled task again",
        TaskInfo,
        Whom,
        deed=RouteDeed("task retry", TASK, "task"),
    ),
    RestRoute(
        "POST",
        f"{_T}/cancel",
        "operate",
        _cancel_task,
        "Cancel a task; if it is running, discard its result",
        TaskInfo,
        Whom,
        ReasonBody,
        deed=RouteDeed("task cancel", TASK, "task"),
    ),
)
