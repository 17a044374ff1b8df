"""A store opens itself at its first use, and says so when it is used where it cannot work."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from stateward.engine import Engine
from stateward.errors import StoreMisused, StoreTooSlow
from stateward.layers.coalescer import Coalescer
from stateward.layers.layer import Layer
from stateward.layers.queue import closed
from stateward.observe.recorder import Recorder
from stateward.ops import Op, Outcome
from stateward.world import World

OPENING_SECONDS = 10.0  # that a call without a deadline waits for the opening


class Carrier(Layer, Protocol):
    """What carries the operations to the engine: a coalescer, or one for each part."""

    async def drain(self) -> None: ...


class Opener:
    """Opens the engine lazily, for the process and the event loop that use it.

    Opening happens at the first call, so a store made at module level is legal before a
    fork. A store whose event loop has ended (one `asyncio.run` a call) opens anew in the next;
    one that is in use by another running loop, or was used before a fork, refuses.

    A caller waits for the opening no longer than its call may take. The opening goes on without
    it: it may have a schema to bring up to date, and the next callers find it done.
    """

    def __init__(
        self,
        engine: Engine,
        world: World,
        opened: Callable[[], Coroutine[Any, Any, None]] | None = None,
        recorder: Recorder | None = None,
        coalescer: Callable[..., Carrier] = Coalescer,  # or one for each part of the store
    ) -> None:
        self.engine = engine
        self._opened = opened  # is told of every opening, before the first call goes on
        self._recorder = recorder
        self._clock = world.monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._closed = False
        self._lock = threading.Lock()  # two loops may meet here
        self._opening: asyncio.Task[None] | None = None
        self._make = coalescer
        self._coalescer = coalescer(engine, recorder, self._clock)

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        if asyncio.get_running_loop() is self._loop and self._process == _process:
            return self._coalescer.execute(ops, deadline)
        return self._execute_first(ops, deadline)

    async def _execute_first(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        try:
            async with asyncio.timeout(opening_seconds(deadline, self._clock())):
                await self.ready()
        except TimeoutError as error:
            raise not_opened() from error
        return await self._coalescer.execute(ops, deadline)

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._loop is not None and self._process == _process

    async def ready(self) -> None:
        """Make sure the engine is open here; every first caller waits for the same opening."""
        loop = asyncio.get_running_loop()
        self._refuse_misuse(loop)
        if self._loop is loop:
            return
        with self._lock:
            opening = self._opening
            if opening is not None and opening.get_loop() is not loop:
                if not opening.get_loop().is_closed():
                    raise _two_loops()
                opening = None
            if opening is None:
                opening = self._opening = loop.create_task(self._open(loop))
                opening.add_done_callback(_heard)
        await asyncio.shield(opening)  # a cancelled caller must not undo it for the others

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

    def check_closing(self) -> None:
        """Raise if it may not be closed here; closing twice is fine."""
        if not self._closed:
            self._refuse_misuse(asyncio.get_running_loop())

    async def close(self) -> None:
        """Finish what is under way and let go of everything. Closing twice is fine."""
        if self._closed:
            return
        loop, here = self._loop, asyncio.get_running_loop()
        self._refuse_misuse(here)
        self._closed = True
        self._loop = None
        opening = self._opening
        if opening is not None and opening.get_loop() is here:  # nobody waits for it any more
            if self.engine.capabilities.networked:
                opening.cancel()
            await asyncio.wait([opening])
            loop, self._loop = here, None
        if loop is not None:
            if loop is here:
                await self._coalescer.drain()
            await self.engine.close()


def opening_seconds(deadline: float | None, now: float) -> float:
    """How long a call may wait for the opening."""
    return OPENING_SECONDS if deadline is None else max(0.0, deadline - now)


def not_opened() -> StoreTooSlow:
    """The error of a call that could not wait for the opening any longer."""
    return StoreTooSlow("the store could not be opened in time; opening it goes on", applied="no")


def _heard(opening: asyncio.Task[None]) -> None:
    """Whoever waited was told; if nobody waits any more, nobody is to be told."""
    if not opening.cancelled():
        opening.exception()


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
