"""Delayed writes of tasks, which are stored in the commit of the next checkpoint.

LangGraph stores writes and checkpoints in the background, one right after the other, and waits for
neither. A call that waits has not returned yet, so it has not reported anything as stored. Writes
that no checkpoint takes along in time are stored by themselves.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from stateward.integrations.kept import langgraph_names as names
from stateward.ops import DocumentAt, Entity

MOMENT = 0.003  # seconds, after the preceding checkpoint is stored

Place = tuple[Entity, str]  # a thread and a namespace


class TaskOutput(Struct, frozen=True):
    """The writes of a task after a checkpoint; `size` is the size of their texts."""

    ns: str
    id: str
    task: str
    path: str
    writes: list[tuple[str, Any]]
    size: int
    special: bool  # some writes replace earlier ones

    def names(self) -> list[str]:
        """Return the names of the documents that the writes would be by themselves."""
        return [
            names.write(self.ns, self.id, self.task, number) for number in range(len(self.writes))
        ]

    def is_new(self) -> list[DocumentAt]:
        """Return checks that none of the writes is stored by itself."""
        return [DocumentAt(name, 0) for name in self.names()]


class WaitingOutput:
    """A waiting output; `along` is the future of whether a checkpoint has taken it along."""

    def __init__(self, output: TaskOutput) -> None:
        self.output = output
        self.loop = asyncio.get_running_loop()
        self.along: asyncio.Future[bool] = self.loop.create_future()

    def settle(self, along: bool) -> None:
        if not self.along.done():  # else its caller was cancelled
            self.along.set_result(along)


class WaitingWrites:
    """The waiting outputs; only checkpoints of the same event loop take an output along."""

    def __init__(self) -> None:
        self._waiting: dict[Place, list[WaitingOutput]] = {}
        self._under_way: dict[Place, int] = {}  # checkpoints that are being stored
        self._lock = threading.Lock()

    async def stored_along(self, place: Place, output: TaskOutput) -> bool:
        """Wait for a checkpoint that stores an output; False: store the output by itself."""
        each = WaitingOutput(output)
        with self._lock:
            self._waiting.setdefault(place, []).append(each)
        each.loop.call_later(MOMENT, self._look, place, each)
        try:
            return await each.along
        finally:
            self._remove(place, [each])

    def begin(self, place: Place, *ids: str | None) -> list[WaitingOutput]:
        """Begin to store a checkpoint: the next one cannot come before `end`.

        Returns the waiting outputs of some checkpoints' tasks, to be settled by the caller.
        """
        with self._lock:
            self._under_way[place] = self._under_way.get(place, 0) + 1
        waiting = self._waiting.get(place)
        try:
            loop = asyncio.get_running_loop() if waiting else None
        except RuntimeError:
            loop = None
        some = [each for each in waiting or () if each.output.id in ids and each.loop is loop]
        return self._remove(place, some)

    def end(self, place: Place, taken: Iterable[WaitingOutput]) -> None:
        """End the storing of a checkpoint; outputs that were taken in vain are stored alone."""
        with self._lock:
            self._under_way[place] -= 1
            if not self._under_way[place]:
                del self._under_way[place]
        for each in taken:
            each.settle(False)

    def _look(self, place: Place, each: WaitingOutput) -> None:
        if place in self._under_way and not each.along.done():
            each.loop.call_later(MOMENT, self._look, place, each)
        elif self._remove(place, [each]):
            each.settle(False)

    def _remove(self, place: Place, some: list[WaitingOutput]) -> list[WaitingOutput]:
        """Remove outputs, and return those that were still waiting."""
        with self._lock:
            waiting = self._waiting.get(place, [])
            removed = [each for each in some if each in waiting]
            for each in removed:
                waiting.remove(each)
            if not waiting:
                self._waiting.pop(place, None)
            return removed
