"""The driver's waits, with a bound in time: one for blocking callers, one for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from psycopg.waiting import Ready, Wait

from holdfast.engines.postgres.failures import Unanswered


def bounded(
    gen: Generator[Any, Any, Any], clock: Callable[[], float], end: float
) -> Generator[Any, Any, Any]:
    """The driver's generator, given up at `end`: it is resumed every tenth of a second or so."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and clock() >= end:
                raise Unanswered("no answer in time")
            state = gen.send(ready)
    except StopIteration as stop:
        return stop.value


async def driven(gen: Generator[Any, Any, Any], fileno: int, seconds: float) -> Any:
    """The driver's generator, stepped by the event loop itself.

    A large answer arrives in many pieces. The driver's own way wakes a task and registers the
    socket anew for each of them, which took longer than reading it.
    """
    try:
        state = next(gen)
    except StopIteration as stop:
        return stop.value
    drive = _Drive(gen, fileno, seconds)
    try:
        drive.watch(state)
        return await drive.ended
    finally:
        drive.stop()


class _Drive:
    def __init__(self, gen: Generator[Any, Any, Any], fileno: int, seconds: float) -> None:
        self._gen = gen
        self._fileno = fileno
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._give_up)
        self._watched = 0
        self.ended: asyncio.Future[Any] = self._loop.create_future()

    def watch(self, state: int) -> None:
        """Be called when the socket is ready for what the generator waits for."""
        changed = state ^ self._watched
        if changed & Wait.R:
            if state & Wait.R:
                self._loop.add_reader(self._fileno, self._step, Ready.R)
            else:
                self._loop.remove_reader(self._fileno)
        if changed & Wait.W:
            if state & Wait.W:
                self._loop.add_writer(self._fileno, self._step, Ready.W)
            else:
                self._loop.remove_writer(self._fileno)
        self._watched = state

    def _step(self, ready: Ready) -> None:
        if self.ended.done():
            return
        try:
            state = self._gen.send(ready)
        except StopIteration as stop:
            self.ended.set_result(stop.value)
        except BaseException as error:
            self.ended.set_exception(error)
        else:
            if state != self._watched:
                self.watch(state)

    def _give_up(self) -> None:
        if not self.ended.done():
            self.ended.set_exception(Unanswered("no answer in time"))

    def stop(self) -> None:
        self._timer.cancel()
        self.watch(0)
