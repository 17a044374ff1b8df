"""Actions on run-once tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from stateward.actions.action import ActionCall, Actions, Cli, Mcp, Rest
from stateward.actions.arguments import After, Arguments, Id, Limit, User, Words
from stateward.kinds import TASK
from stateward.records import TaskInfo
from stateward.state.tasks import Task

STATUS = Literal["pending", "running", "completed", "failed", "cancelled"] | None


def _task(call: ActionCall) -> Task:
    return call.store.task(call.arguments.task, call.whose)


async def _info(call: ActionCall) -> TaskInfo | None:
    return await _task(call).info()


TASKS = Actions(TASK, _info)


class OneTask(Arguments, frozen=True):
    """Which task."""

    task: Id
    user: User = None


class ListTasks(Arguments, frozen=True):
    """Which tasks, those first that were touched last."""

    user: User = None
    status: Annotated[STATUS, "Only those with this status."] = None
    limit: Limit = 100
    after: After = None


@TASKS.list(
    ListTasks,
    TaskInfo,
    lambda info: info.cursor,
    for_one_user=True,
    rest=Rest("GET /v1/tasks"),
    mcp=Mcp(
        "list_tasks",
        "List run-once tasks and their status, the last changed first: pending and running ones "
        "are not finished, failed ones have their error.",
    ),
)
async def _list(call: ActionCall) -> AsyncIterator[TaskInfo]:
    """List tasks, newest first."""
    asked: ListTasks = call.arguments
    return call.store.tasks(
        asked.status, user=call.whose, order="recent", before=asked.after, limit=asked.limit
    )


@TASKS.read("show", OneTask, TaskInfo, for_one_user=True, rest=Rest("GET /v1/tasks/{task}"))
async def _show(call: ActionCall) -> TaskInfo | None:
    """Get a task."""
    return await _info(call)


@TASKS.change(
    "retry",
    OneTask,
    TaskInfo,
    rest=Rest("POST /v1/tasks/{task}/retry"),
    cli=Cli(
        """\
Lets a failed or cancelled task run again, with all its attempts. A worker runs it immediately if it
knows the function and the arguments were kept; otherwise it runs at its next delivery.

examples:
  stateward task retry sqlite:///agents.db charge-991 --dry-run
  stateward task retry sqlite:///agents.db charge-991 --yes""",
        "Retry the task {task!r}, which is {status}, with all its attempts",
        "retried",
    ),
)
async def _retry(call: ActionCall) -> TaskInfo:
    """Run a failed or cancelled task again."""
    return await _task(call).retry()


class CancelTask(OneTask, frozen=True, kw_only=True):
    """The reason, shown to later readers."""

    reason: Annotated[Words, "The reason, shown to later readers."] = ""


@TASKS.change(
    "cancel",
    CancelTask,
    TaskInfo,
    rest=Rest("POST /v1/tasks/{task}/cancel", "ReasonBody"),
    cli=Cli(
        """\
The task does not run. If it is running, its result is not recorded, and the process that runs it
loses its lease and is cancelled. A task that has completed stays completed.

examples:
  stateward task cancel sqlite:///agents.db charge-991 --reason "paid in cash" --dry-run
  stateward task cancel sqlite:///agents.db charge-991 --reason "paid in cash" --yes""",
        "Cancel the task {task!r}, which is {status}",
        "cancelled",
    ),
)
async def _cancel(call: ActionCall) -> TaskInfo:
    """Cancel a task; if it is running, discard its result."""
    return await _task(call).cancel(call.arguments.reason)
