"""The user's own functions, called in either colour."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from stateward.state.work import ENDS, holds


async def awaited(result: Any) -> Any:
    """What a function of the user's returned, awaited if it is to be awaited."""
    if inspect.isawaitable(result):  # async only
        return await result  # async only
    return result


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function of the user's gives, whether it is to be awaited or not."""
    return await awaited(function(*args, **kwargs))


async def apart(function: Callable[..., Any], *args: Any) -> Any:
    """The same in a task of its own: what it does to its task is not done to ours."""
    return await asyncio.create_task(called(function, *args))  # async only
    # sync only: return called(function, *args)


def cancellations(of: Any = None) -> int:
    """How often this task, or the current one, was cancelled and that was not taken back.

    Only a difference says something: a `TaskGroup` in which a task fails does not always take back
    what it has done to the task around it.
    """
    # async only: begin
    task = asyncio.current_task() if of is None else of
    if task is not None:
        return int(task.cancelling())
    # async only: end
    return 0


def interrupted(error: BaseException, before: int = 0) -> bool:
    """Whether it was not the work's own doing: somebody ends this process, or this call."""
    # async only: begin
    if isinstance(error, asyncio.CancelledError):
        return cancellations() > before  # else a task of its own was cancelled
    # async only: end
    return holds(error, ENDS)
