"""The REST API of tasks."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.records import TaskInfo
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Page, ReasonBody, Whom, answer, missing, page, whose
from stateward.server.route import RestCall, Routes
from stateward.state.tasks import Task


class TasksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks, those first that were touched last."""

    user: str | None = None
    status: Literal["pending", "running", "completed", "failed", "cancelled"] | None = None
    limit: Limit = 100
    after: str | None = None


TASKS = Routes()


@TASKS.route("GET /v1/tasks", "read", Page[TaskInfo], TasksQuery)
async def _tasks(call: RestCall) -> Reply:
    """List tasks, newest first."""
    query: TasksQuery = call.query
    listing = call.store.tasks(
        query.status,
        user=whose(call, query.user),
        order="recent",
        before=query.after,
        limit=query.limit,
    )
    return await page(call, query.limit, listing, lambda info: info.cursor)


@TASKS.logged("task read", reads=True)
@TASKS.route("GET /v1/tasks/{task}", "read", TaskInfo, Whom)
async def _task_shown(call: RestCall) -> Reply:
    """Get a task."""
    return answer(await _task(call))


async def _task(call: RestCall) -> TaskInfo:
    info = await _task_of(call).info()
    if info is None:
        raise missing("task", call.path["task"])
    return info


def _task_of(call: RestCall) -> Task:
    return call.store.task(call.path["task"], whose(call, call.query.user))


@TASKS.logged("task retry")
@TASKS.route("POST /v1/tasks/{task}/retry", "operate", TaskInfo, Whom, one_users=False)
async def _retry_task(call: RestCall) -> Reply:
    """Run a failed or cancelled task again."""
    try:
        return answer(await _task_of(call).retry())
    except InvalidInput:
        await _task(call)  # or says that there is none
        raise


@TASKS.logged("task cancel")
@TASKS.route("POST /v1/tasks/{task}/cancel", "operate", TaskInfo, Whom, ReasonBody, one_users=False)
async def _cancel_task(call: RestCall) -> Reply:
    """Cancel a task; if it is running, discard its result."""
    try:
        return answer(await _task_of(call).cancel(call.body.reason))
    except InvalidInput:
        await _task(call)
        raise
