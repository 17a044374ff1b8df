"""Asking several engines at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

# sync only: from stateward.layers.threads import results_of_threads

T = TypeVar("T")


async def gather(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """The results in the order of `calls`, which run concurrently.

    Every call has ended when this returns or raises; of several errors the first is raised.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    # sync only: return results_of_threads(calls)
    # async only: begin
    tasks = [asyncio.ensure_future(call()) for call in calls]
    try:
        done = await asyncio.gather(*tasks, return_exceptions=True)
    except BaseException:  # a cancellation, or what a handler of signals raised
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    results: list[T] = []
    for result in done:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
    # async only: end
