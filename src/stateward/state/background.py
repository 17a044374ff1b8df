"""Background work: what must be finished although its caller is gone, and what may be dropped."""

from __future__ import annotations

import asyncio

# sync only: import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

# sync only: from stateward.errors import StoreUnavailable
# sync only: from stateward.world import start, went_wrong

T = TypeVar("T")


class Background:
    """The background work of one scope."""

    def __init__(self) -> None:
        self._must_finish: set[asyncio.Task[Any]] = set()  # async only
        self._awaited = 0  # async only
        self._none_left: asyncio.Future[None] | None = None  # async only
        self._unawaited: dict[Any, Any] = {}

    # async only: begin
    def must_finish(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that must be done even if its caller is gone; `finish` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._must_finish.add(task)
        task.add_done_callback(self._must_finish.discard)
        return task

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work whose caller handles its own cancellation; `finish` waits for it, too.

        A task for each would cost the event loop three iterations.
        """
        self._awaited += 1
        try:
            return await work
        finally:
            self._awaited -= 1
            if not self._awaited and self._none_left is not None and not self._none_left.done():
                self._none_left.set_result(None)

    # async only: end

    def start(self, work: Callable[[], Coroutine[Any, Any, Any]], name: Any) -> None:
        """Start work that no caller waits for, unless work of that name is running."""
        if name in self._unawaited:
            return
        # async only: begin
        task = asyncio.get_running_loop().create_task(work())
        self._unawaited[name] = task
        task.add_done_callback(lambda _: self._unawaited.pop(name, None))
        # async only: end
        # sync only: thread = threading.Thread(target=self._run, args=(work, name))
        # sync only: thread.daemon = True
        # sync only: self._unawaited[name] = thread
        # sync only: try:
        # sync only:     start(thread)
        # sync only: except StoreUnavailable as error:
        # sync only:     del self._unawaited[name]
        # sync only:     went_wrong(str(name), error)

    # sync only: def _run(self, work: Callable[[], Any], name: Any) -> None:
    # sync only:     try:
    # sync only:         work()
    # sync only:     finally:
    # sync only:         self._unawaited.pop(name, None)

    async def finish(self) -> None:
        """Cancel work that no caller waits for (blocking: wait briefly), then wait for the rest."""
        for task in list(self._unawaited.values()):
            # async only: begin
            task.cancel()
            await asyncio.wait((task,))
            # async only: end
            # sync only: task.join(5.0)
        # async only: begin
        while self._must_finish or self._awaited:
            if self._awaited:
                self._none_left = asyncio.get_running_loop().create_future()
                await self._none_left
            else:
                await asyncio.wait(self._must_finish)
        # async only: end
