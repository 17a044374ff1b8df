"""Waiting for news of a file: the first waiter looks for all, so many cost like one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from stateward.engines.sqlite.reader import FileReader
from stateward.ops import Entity
from stateward.world import World

POLL = 0.01  # seconds between looks at the file's change counter
SLOWEST = 0.25  # the same for so many logs that a look is slow
PART = 0.1  # of the time at most is spent on looks
AT_ONCE = 50  # waiters whose logs are looked at before anybody else gets a turn


class Watch:
    """The waiters of one engine."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Told True when there is news, and False when it is their turn to look.
        self._waiting: dict[asyncio.Future[bool], Mapping[Entity, int]] = {}
        self._looks = False  # True while one waiter looks

    async def wait(self, reader: FileReader, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Return when a log has moved, or when the time is up."""
        if reader.moved(cursors):
            return
        end = self._world.monotonic() + timeout
        try:
            while not await self._wait(reader, cursors, end):
                pass
        finally:
            if not self._looks:
                self._hand_over()

    async def _wait(self, reader: FileReader, cursors: Mapping[Entity, int], end: float) -> bool:
        """Wait to be woken; return False if it is this waiter's turn to look."""
        seconds = end - self._world.monotonic()
        mine: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = cursors
        try:
            if self._looks:
                await asyncio.wait((mine,), timeout=max(0.0, seconds))
            else:
                await self._look(reader, mine, end)
            return seconds <= 0 or not mine.done() or mine.result()
        finally:
            del self._waiting[mine]

    async def _look(self, reader: FileReader, mine: asyncio.Future[bool], end: float) -> None:
        self._looks = True
        world, last, rest = self._world, None, POLL
        try:
            while not mine.done() and (left := end - world.monotonic()) > 0:
                await world.pause(min(rest, left))
                began = world.monotonic()
                counter = reader.counter()
                if counter != last:
                    last = counter
                    await self._tell(reader)
                rest = min(max(POLL, (world.monotonic() - began) / PART), SLOWEST)
        finally:
            self._looks = False

    async def _tell(self, reader: FileReader) -> None:
        for number, (waiter, cursors) in enumerate(list(self._waiting.items()), 1):
            if not waiter.done() and reader.moved(cursors):
                waiter.set_result(True)
            if number % AT_ONCE == 0:
                await self._world.pause(0)

    def _hand_over(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(False)
                return
