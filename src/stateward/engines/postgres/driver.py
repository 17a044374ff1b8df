"""Waiting for a connection, with a bound in time, for blocking callers and for an event loop."""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from psycopg.waiting import Ready, Wait

from stateward.engines.postgres.failures import Unanswered


def bounded(
    gen: Generator[Any, Any, Any], clock: Callable[[], float], end: float
) -> Generator[Any, Any, Any]:
    """Run the driver's generator until `end`; waits resume it about ten times a second.

    What has come by then is read first; if it is not all, the rest is not waited for.
    """
    try:
        state = next(gen)
        while True:
            ready = yield state
            late = clock() >= end
            state = gen.send(ready)
            if late:
                raise Unanswered("no answer in time")
    except StopIteration as stop:
        return stop.value


class LoopDriver:
    """The driver's generator, stepped by the event loop itself.

    A large answer arrives in many pieces. The driver's own way wakes a task and registers the
    socket anew for each of them, which took longer than reading it.
    """

    __slots__ = ("_ended", "_fileno", "_gen", "_loop", "_timer", "_watched")

    def __init__(
        self,
        gen: Generator[Any, Any, Any],
        fileno: int,
        seconds: float,
        ended: Callable[[Any, BaseException | None], None],
    ) -> None:
        """`ended` is called once, with what the generator returned or raised."""
        self._gen = gen
        self._fileno = fileno
        self._ended: Callable[[Any, BaseException | None], None] | None = ended
        self._watched = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._give_up)
        self._step(None)

    def stop(self) -> bool:
        """Stop watching; return True if the generator had not ended yet."""
        ended, self._ended = self._ended, None
        if ended is None:
            return False
        self._timer.cancel()
        self._watch(0)
        return True

    def _step(self, ready: Ready | None) -> None:
        if self._ended is None:
            return
        try:
            state = self._gen.send(ready)
        except StopIteration as stop:
            self._end(stop.value, None)
        except BaseException as error:
            self._end(None, error)
        else:
            if state != self._watched:
                self._watch(state)

    def _end(self, value: Any, error: BaseException | None) -> None:
        ended = self._ended
        if self.stop():
            assert ended is not None
            ended(value, error)

    def _give_up(self) -> None:
        self._end(None, Unanswered("no answer in time"))

    def _watch(self, state: int) -> None:
        """Watch the socket for what the generator waits for."""
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


async def drive_to_end(gen: Generator[Any, Any, Any], fileno: int, seconds: float) -> Any:
    """Drive a generator for a task, and return its value."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def ended(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    drive = LoopDriver(gen, fileno, seconds, ended)
    try:
        return await future
    finally:
        drive.stop()


def news_of(fileno: int) -> Callable[[], bool]:
    """Return a function that checks for unasked data, mostly the end of the connection."""
    if not hasattr(select, "poll"):  # Windows
        return lambda: bool(select.select([fileno], [], [], 0)[0])
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return lambda: bool(poll.poll(0))


class Slots:
    """Limited number of slots. Tasks that must wait get them in order."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a slot if one is free and no other task waits for it."""
        if self._free <= 0 or self._waiting:
            return False
        self._free -= 1
        return True

    async def acquire(self) -> None:
        if self.take():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self.release()  # the slot came too late
            raise

    def release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # the slot passes from task to task
                return
        self._free += 1
