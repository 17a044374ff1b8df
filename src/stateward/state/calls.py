"""Calls of the user's own functions, async or not."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from stateward.state.work import ENDS, holds


async def awaited(result: Any) -> Any:
    """Return what a function of the user's returned, awaited if it is awaitable."""
    if inspect.isawaitable(result):  # async only
        return await result  # async only
    return result


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the user's and return its result, awaited if it is awaitable."""
    return await awaited(function(*args, **kwargs))


async def apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a task of its own, so that it cannot cancel the calling task."""
    return await asyncio.create_task(called(function, *args))  # async only
    # sync only: return called(function, *args)


def cancellations(of: Any = None) -> int:
    """Return how many cancellations of this task, or the current one, were not taken back.

    Only a difference of two counts is meaningful: a `TaskGroup` in which a task fails does not
    always take back its cancellation of the task around it.
    """
    # async only: begin
    task = asyncio.current_task() if of is None else of
    if task is not None:
        return int(task.cancelling())
    # async only: end
    return 0


def interrupted(error: BaseException, before: int = 0) -> bool:
    """Return whether the error came from outside: this process, or this call, is being ended."""
    # async only: begin
    if isinstance(error, asyncio.CancelledError):
        return cancellations() > before  # else a task within was cancelled
    # async only: end
    return holds(error, ENDS)
