"""Many callers, one round trip at a time.

While a batch is under way, what other callers ask for waits; when it lands, all of that
travels together in the next one. Under load the batches grow by themselves, and one fsync or one
network round trip serves a hundred conversations. With nothing under way an operation goes
straight to the engine, so a lone caller pays for none of this.

Reads and writes have lanes of their own: a slow disk does not hold up reads.

Cancellation and deadlines end a caller's *wait*. What was not yet sent is removed and was not
applied; what was sent completes all the same. A batch belongs to no caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import monotonic
from typing import Any

from stateward.engine import Engine
from stateward.errors import StoreUnavailable
from stateward.layers.queue import Halving, next_batch, own, too_late, touched_by
from stateward.observe.metrics import Histogram
from stateward.observe.recorder import Recorder
from stateward.ops import WRITES, Entity, Op, Outcome


class Coalescer:
    """The engine's `execute`, shared by all tasks of one event loop."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._reads = Lane(engine, clock, None if recorder is None else recorder.read_batches)
        self._writes = Lane(engine, clock, None if recorder is None else recorder.write_batches)
        self._inline = engine.capabilities.inline_reads

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Outcomes in the order of `ops`, by the `deadline` (by the monotonic clock).

        Raises `StoreUnavailable` with `applied="no"` when it passes before the ops were sent, and
        `applied="unknown"` when it passes after.
        """
        if len(ops) == 1:
            if isinstance(ops[0], WRITES):
                return self._writes.execute(ops, deadline)
            if self._inline:
                return self._engine.execute(ops, deadline=deadline)
            return self._reads.execute(ops, deadline)
        return self._execute_several(ops, deadline)

    async def _execute_several(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        writes = [op for op in ops if isinstance(op, WRITES)]
        if not writes:
            if self._inline:
                return await self._engine.execute(ops, deadline=deadline)
            return await self._reads.execute(ops, deadline)
        if len(writes) == len(ops):
            return await self._writes.execute(ops, deadline)
        reads = [op for op in ops if not isinstance(op, WRITES)]
        written = iter(await self._writes.execute(writes, deadline))
        read = iter(await self._reads.execute(reads, deadline))
        return [next(written) if isinstance(op, WRITES) else next(read) for op in ops]

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        await self._writes.drain()
        await self._reads.drain()


class Waiting:
    """What one caller asked for, and the future that answers it."""

    __slots__ = ("deadline", "future", "ops", "sent")

    def __init__(
        self, ops: Sequence[Op], deadline: float | None, future: asyncio.Future[list[Outcome]]
    ) -> None:
        self.ops = ops
        self.deadline = deadline
        self.future = future
        self.sent = False

    def expire(self) -> None:
        _fail(self, too_late(self.sent))


class Alone:
    """A caller that waits for the engine itself."""

    __slots__ = ("cancelling", "expired", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.cancelling = task.cancelling()
        self.expired = False

    def expire(self) -> None:
        self.expired = True
        self.task.cancel()


class DeadlineWatch:
    """Ends the waits whose time is up, with one timer for all of them.

    Hardly any deadline is ever met, but a timer for each costs 3 µs, and asyncio.timeout 4.5.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Waiting | Alone, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = 0.0  # when the timer does

    def add(self, wait: Waiting | Alone, deadline: float) -> None:
        self._waits[wait] = deadline
        if self._timer is None or deadline < self._rings:
            self._arm(deadline)

    def discard(self, wait: Waiting | Alone) -> None:
        self._waits.pop(wait, None)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = deadline
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline - self._clock(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock()
        for wait in [wait for wait, deadline in self._waits.items() if deadline <= now]:
            del self._waits[wait]
            wait.expire()
        if self._waits:
            self._arm(min(self._waits.values()))


class Lane:
    """Batches of one direction, at most `capabilities.parallel_batches` under way."""

    def __init__(
        self, engine: Engine, clock: Callable[[], float], sizes: Histogram | None = None
    ) -> None:
        self._engine = engine
        self._sizes = sizes
        self._flights = engine.capabilities.parallel_batches
        self._most = engine.capabilities.batch
        self._flying = 0
        self._busy: set[Entity] = set()  # under way; kept only where several flights may be
        self._queue: deque[Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly
        self._landed: asyncio.Event | None = None
        self._watch = DeadlineWatch(clock)

    async def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        touched = touched_by(ops) if self._flights > 1 else ()
        free = self._flying < self._flights and not self._queue
        if free and self._busy.isdisjoint(touched):
            self._flying += 1
            self._busy.update(touched)
            if self._sizes is not None:
                self._sizes.add(len(ops))
            try:
                if deadline is None:
                    return await self._engine.execute(ops)
                return await self._execute_alone(ops, deadline)
            finally:
                self._land(touched)
        waiting = Waiting(ops, deadline, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._take_off()
        if deadline is None:
            return await waiting.future
        self._watch.add(waiting, deadline)
        try:
            return await waiting.future
        finally:
            self._watch.discard(waiting)

    async def _execute_alone(self, ops: Sequence[Op], deadline: float) -> list[Outcome]:
        """Straight to the engine. What ends the wait is a cancellation of our own."""
        alone = Alone()
        self._watch.add(alone, deadline)
        try:
            return await self._engine.execute(ops, deadline=deadline)
        except asyncio.CancelledError as error:
            if alone.expired and alone.task.uncancel() <= alone.cancelling:
                raise too_late(sent=True) from error
            raise
        finally:
            self._watch.discard(alone)

    async def drain(self) -> None:
        while self._flying or self._queue:
            if self._landed is None or self._landed.is_set():
                self._landed = asyncio.Event()
            await self._landed.wait()

    def _land(self, touched: Sequence[Entity]) -> None:
        self._flying -= 1
        self._busy.difference_update(touched)
        if self._queue:
            self._take_off()
        if self._landed is not None and not self._flying:
            self._landed.set()

    def _take_off(self) -> None:
        if not self._queue or self._flying >= self._flights:
            return
        batch, self._queue = next_batch(self._queue, self._most, _gone, self._busy)
        if batch:
            self._flying += 1
            touched = touched_by(op for w in batch for op in w.ops) if self._flights > 1 else ()
            self._busy.update(touched)
            task = asyncio.get_running_loop().create_task(self._fly(batch, touched))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _fly(self, batch: list[Waiting], touched: Sequence[Entity]) -> None:
        try:
            await self._send(batch, Halving(len(batch)))
        finally:
            self._land(touched)

    async def _send(self, batch: list[Waiting], halving: Halving) -> None:
        ops = [op for waiting in batch for op in waiting.ops]
        if self._sizes is not None:
            self._sizes.add(len(ops))
        try:
            deadline = latest(waiting.deadline for waiting in batch)
            outcomes = await self._engine.execute(ops, deadline=deadline)
        except BaseException as error:
            if halving.worth_halving(batch, error):
                middle = len(batch) // 2
                await self._send(batch[:middle], halving)
                await self._send(batch[middle:], halving)
                return
            for waiting in batch:
                _fail(waiting, own(error))
            if not isinstance(error, Exception):
                raise
        else:
            halving.succeeded()
            share(batch, outcomes)


def _gone(waiting: Waiting) -> bool:
    """Its caller stopped waiting before anything was sent."""
    return waiting.future.done()


def latest(deadlines: Iterable[float | None]) -> float | None:
    """When the last of those who wait gives up; None if somebody never does."""
    ends = list(deadlines)
    return None if None in ends else max(ends)  # type: ignore[type-var]


def share(batch: list[Waiting], outcomes: list[Outcome]) -> None:
    """Give each caller its own outcomes."""
    at = 0
    for waiting in batch:
        end = at + len(waiting.ops)
        if not waiting.future.done():
            waiting.future.set_result(outcomes[at:end])
        at = end


def _fail(waiting: Waiting, error: BaseException) -> None:
    if waiting.future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        error = StoreUnavailable("the event loop was shut down", applied="unknown")
    waiting.future.set_exception(error)
