"""Work of an engine's own on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class OwnTasks(set["asyncio.Future[Any]"]):
    """Tasks that continue when their callers are cancelled."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in a task, and wait for it."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.discard(task)
        if not task.cancelled():
            task.exception()  # callers that wait have seen it; otherwise nobody is to see it

    async def finish(self) -> None:
        """Wait for the tasks of this loop; tasks of an ended loop will not continue."""
        loop = asyncio.get_running_loop()
        while mine := [task for task in self if task.get_loop() is loop]:
            await asyncio.wait(mine)  # more than once: a task may start another
        self.clear()

    async def cancel(self) -> None:
        """End the tasks of this loop."""
        loop = asyncio.get_running_loop()
        for task in self:
            if task.get_loop() is loop:
                task.cancel()
        await self.finish()
