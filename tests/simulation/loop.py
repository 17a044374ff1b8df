"""An event loop whose time is virtual and whose order of events is drawn from a seed.

Nothing here waits: when nothing is ready, time jumps to the next timer. Of all that is ready, the
seed chooses what runs next, so that a thousand seeds try a thousand interleavings.

Every callback belongs to a strand: the event loop, or the lease thread, of one simulated process.
A strand can be stopped, for a while (a frozen process) or for good (a dead one): what it would
have run is kept, and nothing of it is cancelled, because a killed process runs no `finally`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = 1_000.0  # the virtual monotonic clock does not begin at 0: a missing value must show
MOST_TURNS = 400_000  # callbacks in one run; more than that is a loop that gets nowhere


class Strand:
    """What happens one after the other: the event loop or a thread of one simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.main: Strand = self  # where `call_soon_threadsafe` leads
        self.kept: list[Ready] | None = None  # what it would have run while stopped; None: it runs

    def stop(self) -> None:
        if self.kept is None:
            self.kept = []


class GetsNowhere(Exception):
    """The simulated processes run and run, or wait for what will never happen."""


Ready = tuple[asyncio.Handle, Strand | None]

_strand: ContextVar[Strand | None] = ContextVar("stateward_simulated_strand", default=None)


def context_of(strand: Strand | None) -> Context:
    """A context in which everything belongs to this strand; None: to nobody who can be stopped."""
    context = Context()
    context.run(_strand.set, strand)
    return context


class VirtualLoop(asyncio.BaseEventLoop):
    """The parts of an event loop that code without input and output needs."""

    _runs = False

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._random = chance.random
        self._now = START
        self._runnable: list[Ready] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Strand | None]] = []
        self._numbered = 0
        self.turns = 0
        self.halted = False
        self.tasks: list[asyncio.Task[Any]] = []  # all of them: none may vanish before the end
        self.complaints: list[dict[str, Any]] = []

    # --- scheduling -----------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._runnable.append((handle, context.get(_strand)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """From the lease thread of a process to its event loop."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        context = copy_context() if context is None else context
        strand = context.get(_strand)
        if strand is not None and strand is not strand.main:
            context.run(_strand.set, strand.main)
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, handle, context.get(_strand)))
        return handle

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **more: Any,
    ) -> asyncio.Task[T]:
        title = None if name is None else str(name)
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=title, context=context)
        self.tasks.append(task)
        return task

    def resume(self, strand: Strand) -> None:
        """What a stopped strand would have run is ready again."""
        kept, strand.kept = strand.kept, None
        self._runnable.extend(kept or ())

    # --- running --------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run until `main` is over, or told to halt; everything else stays as it is then."""
        task = self.create_task(main, name="scenario", context=context_of(None))
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._runs = True
        try:
            while not self.halted and not task.done():
                self._turn()
        finally:
            self._runs = False
            asyncio._set_running_loop(before)
        if task.done():
            task.result()

    def _turn(self) -> None:
        """One callback of those that are ready; or, if there is none, on to the next timer."""
        ready, timers = self._runnable, self._timers
        while timers and (timers[0][0] <= self._now or timers[0][2].cancelled()):
            _, _, timer, strand = heapq.heappop(timers)
            if not timer.cancelled():
                ready.append((timer, strand))
        if not ready:
            if not timers:
                raise GetsNowhere("nothing is ready and no timer is set: everybody waits for ever")
            self._now = timers[0][0]
            return
        chosen = int(self._random() * len(ready))
        handle, strand = ready[chosen]
        ready[chosen] = ready[-1]
        ready.pop()
        if handle.cancelled():
            return
        if strand is not None and strand.kept is not None:
            strand.kept.append((handle, strand))
            return
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise GetsNowhere(f"{MOST_TURNS:,} callbacks ran and there is no end in sight")
        handle._run()

    def dispose(self) -> None:
        """End every task, once nothing that they do can matter any more."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for _ in range(100):
                pending = [task for task in self.tasks if not task.done()]
                if not pending:
                    break
                for task in pending:
                    task.cancel()
                self.turns = 0
                while self._runnable:
                    self._turn()
        finally:
            asyncio._set_running_loop(before)
        left = [task.get_name() for task in self.tasks if not task.done()]
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.exception()  # nobody else will ask for it
        self.tasks.clear()
        self._timers.clear()
        self.close()
        if left:
            raise GetsNowhere(f"tasks that cannot be cancelled: {', '.join(left)}")

    # --- what asyncio asks of a loop ------------------------------------------------

    def is_running(self) -> bool:
        return self._runs

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""
