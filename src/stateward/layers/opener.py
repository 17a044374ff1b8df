"""The opening of an engine at its first use, and the refusal of uses that cannot work."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from stateward.engine import Engine
from stateward.errors import StoreMisused, StoreTooSlow
from stateward.layers.lane import DeadlineWatch
from stateward.layers.layer import Layer
from stateward.layers.queue import closed, own
from stateward.observe.recorder import Recorder
from stateward.ops import Op, Outcome
from stateward.world import World

OPENING_SECONDS = 10.0  # that a call without a deadline waits for the opening


class Carrier(Layer, Protocol):
    """The carrier of operations to the engine: a coalescer, or one for each part."""

    async def drain(self) -> None: ...


class Opener:
    """Opens the engine lazily, for the process and the event loop that use it.

    Opening happens at the first call, so a store made at module level is legal before a
    fork. A store whose event loop has ended (one `asyncio.run` a call) opens again in the next;
    one that is in use by another running loop, or was used before a fork, refuses.

    A caller waits for the opening no longer than its call may take. The opening continues without
    the caller, as it may have a schema to bring up to date: see `Opening`.
    """

    def __init__(
        self,
        engine: Engine,
        world: World,
        coalescer: Callable[..., Carrier],
        opened: Callable[[], Coroutine[Any, Any, None]] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.engine = engine
        self._opened = opened  # called at every opening, before the first call continues
        self._recorder = recorder
        self._clock = world.monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._closed = False
        self._lock = threading.Lock()  # two loops may meet here
        self._opening: Opening | None = None
        self._make = coalescer
        self._coalescer = coalescer(engine, recorder, self._clock)

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        if asyncio.get_running_loop() is self._loop and self._process == _process:
            return self._coalescer.execute(ops, deadline)
        return self._execute_first(ops, deadline)

    async def _execute_first(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        late = await self.ready_by(deadline)
        return await self._coalescer.execute(ops, None if deadline is None else deadline + late)

    async def ready_by(self, deadline: float | None) -> float:
        """Wait for the opening until then; returns how much later it began. It continues anyway."""
        opening = self._opening_here()
        if opening is None:
            return 0.0
        return await opening.wait(opening_seconds(deadline, self._clock()))

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._loop is not None and self._process == _process

    async def ready(self) -> None:
        """Make sure the engine is open here; every first caller waits for the same opening."""
        opening = self._opening_here()
        if opening is not None:
            await opening.wait(None)

    def _opening_here(self) -> Opening | None:
        """The opening that all who come first wait for; None if it is open."""
        loop = asyncio.get_running_loop()
        self._refuse_misuse(loop)
        if self._loop is loop:
            return None
        with self._lock:
            opening = self._opening
            if opening is not None and opening.loop is not loop:
                if not opening.loop.is_closed():
                    raise _two_loops()
                opening = None
            if opening is None:
                opening = self._opening = Opening(self._open, loop, self._clock)
        return opening

    def _refuse_misuse(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._closed:
            raise closed()
        if self._loop is None:
            return
        if self._process != _process:
            raise StoreMisused(
                "this store was used before the process forked and cannot work in the child; "
                "open it after the fork, or do not use it before (opening alone does no I/O)"
            )
        if self._loop is not loop and not self._loop.is_closed():
            raise _two_loops()

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if self._loop is not None:
                await self.engine.close()  # what belonged to the loop that has ended
                self._coalescer = self._make(self.engine, self._recorder, self._clock)
            await self.engine.open()
            if self._opened is not None:
                await self._opened()
            self._loop = loop
            self._process = _process
        finally:
            self._opening = None

    def is_ours_to_close(self) -> bool:
        """Raises if it may not be closed here; closing twice is fine."""
        if not self._closed:
            self._refuse_misuse(asyncio.get_running_loop())
        return True

    async def close(self) -> None:
        """Finish what is under way and let go of everything. Closing twice is fine."""
        if self._closed:
            return
        loop, here = self._loop, asyncio.get_running_loop()
        self._refuse_misuse(here)
        self._closed = True
        self._loop = None
        opening = self._opening
        if opening is not None and opening.loop is here:  # no call waits for it any more
            if self.engine.capabilities.networked:
                opening.task.cancel()
            await asyncio.wait([opening.task])
            loop, self._loop = here, None
        if loop is not None:
            if loop is here:
                await self._coalescer.drain()
            await self.engine.close()


class Opening:
    """One opening, which continues even if no call waits for it any more.

    The first calls of a burst must not run out of time while the event loop begins all the others:
    the time of a call counts from when the opening itself has begun. One timer serves all of them,
    so that the loop has time for the opening.
    """

    def __init__(
        self,
        open: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]],
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        self.loop = loop
        self._clock = clock
        self._begun: float | None = None
        self._waiting: dict[FirstCall, float | None] = {}  # and how long each may wait
        self._watch = DeadlineWatch(clock)
        self.task = loop.create_task(self._run(open))
        self.task.add_done_callback(self._ended)

    async def _run(
        self, open: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]
    ) -> None:
        self._begun = self._clock()
        for call, seconds in self._waiting.items():
            if seconds is not None:
                self._watch.add(call, self._begun + seconds)
        await open(self.loop)

    async def wait(self, seconds: float | None) -> float:
        """Until it has ended; returns how long after this call it has begun."""
        call, asked = FirstCall(self.loop.create_future()), self._clock()
        self._waiting[call] = seconds
        if self._begun is not None and seconds is not None:
            self._watch.add(call, asked + seconds)
        try:
            await call.opened  # a cancelled caller does not undo the opening for the others
        finally:
            del self._waiting[call]
            self._watch.discard(call)
        return max(0.0, (self._begun or asked) - asked)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = closed() if task.cancelled() else task.exception()
        for call in self._waiting:
            call.end(None if error is None else own(error))


class FirstCall:
    """A call that waits for an opening."""

    __slots__ = ("opened",)

    def __init__(self, opened: asyncio.Future[None]) -> None:
        self.opened = opened

    def end(self, error: BaseException | None) -> None:
        if self.opened.done():
            return
        if error is None:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(error)

    def expire(self) -> None:
        self.end(not_opened())


def opening_seconds(deadline: float | None, now: float) -> float:
    """How long a call may wait for the opening."""
    return OPENING_SECONDS if deadline is None else max(0.0, deadline - now)


def not_opened() -> StoreTooSlow:
    """The error of a call that could not wait for the opening any longer."""
    return StoreTooSlow(
        "the store could not be opened in time; it is still being opened", applied="no"
    )


def _two_loops() -> StoreMisused:
    return StoreMisused(
        "this store is in use by another running event loop; open one store for each loop, or use "
        "stateward.sync.open(...), which any thread may call"
    )


_process = 0  # grows with every fork: cheaper to compare than asking for the process id


def _forked() -> None:
    global _process
    _process += 1


os.register_at_fork(after_in_child=_forked)
