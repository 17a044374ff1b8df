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
from collections.abc import Coroutine, Sequence
from typing import Any

from stateward.engine import Engine
from stateward.errors import StoreUnavailable
from stateward.layers.queue import Halving, next_batch, own, too_late, touched_by
from stateward.observe.metrics import Histogram
from stateward.observe.recorder import Recorder
from stateward.ops import WRITES, Entity, Op, Outcome


class Coalescer:
    """The engine's `execute`, shared by all tasks of one event loop."""

    def __init__(self, engine: Engine, meter: Recorder | None = None) -> None:
        self._engine = engine
        self._reads = Lane(engine, None if meter is None else meter.read_batches)
        self._writes = Lane(engine, None if meter is None else meter.write_batches)
        self._inline = engine.capabilities.inline_reads

    def execute(
        self, ops: Sequence[Op], timeout: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Outcomes in the order of `ops`. `timeout` is in seconds.

        Raises `StoreUnavailable` with `applied="no"` when the time is up before the ops were
        sent, and `applied="unknown"` when it is up after.
        """
        if len(ops) == 1:
            if isinstance(ops[0], WRITES):
                return self._writes.execute(ops, timeout)
            if self._inline:
                return self._engine.execute(ops)
            return self._reads.execute(ops, timeout)
        return self._execute_several(ops, timeout)

    async def _execute_several(self, ops: Sequence[Op], timeout: float | None) -> list[Outcome]:
        writes = [op for op in ops if isinstance(op, WRITES)]
        if not writes:
            lane = self._engine if self._inline else None
            return await (lane.execute(ops) if lane else self._reads.execute(ops, timeout))
        if len(writes) == len(ops):
            return await self._writes.execute(ops, timeout)
        reads = [op for op in ops if not isinstance(op, WRITES)]
        written = iter(await self._writes.execute(writes, timeout))
        read = iter(await self._reads.execute(reads, timeout))
        return [next(written) if isinstance(op, WRITES) else next(read) for op in ops]

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        await self._writes.drain()
        await self._reads.drain()


class Waiting:
    """What one caller asked for, and the future that answers it."""

    __slots__ = ("deadline", "future", "ops", "sent")
    deadline: float

    def __init__(self, ops: Sequence[Op], future: asyncio.Future[list[Outcome]]) -> None:
        self.ops = ops
        self.future = future
        self.sent = False

    def expire(self) -> None:
        _fail(self, too_late(self.sent))


class Alone:
    """A caller that waits for the engine itself."""

    __slots__ = ("cancelling", "deadline", "expired", "task")
    deadline: float

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

    def __init__(self) -> None:
        self._waits: set[Waiting | Alone] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, wait: Waiting | Alone, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        wait.deadline = loop.time() + timeout
        self._waits.add(wait)
        if self._timer is None or wait.deadline < self._timer.when():
            self._arm(loop, wait.deadline)

    def discard(self, wait: Waiting | Alone) -> None:
        self._waits.discard(wait)

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for wait in [wait for wait in self._waits if wait.deadline <= now]:
            self._waits.discard(wait)
            wait.expire()
        if self._waits:
            self._arm(loop, min(wait.deadline for wait in self._waits))


class Lane:
    """Batches of one direction, at most `capabilities.parallel_batches` under way."""

    def __init__(self, engine: Engine, sizes: Histogram | None = None) -> None:
        self._engine = engine
        self._sizes = sizes
        self._flights = engine.capabilities.parallel_batches
        self._most = engine.capabilities.batch
        self._flying = 0
        self._busy: set[Entity] = set()  # under way; kept only where several flights may be
        self._queue: deque[Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly
        self._landed: asyncio.Event | None = None
        self._watch = DeadlineWatch()

    async def execute(self, ops: Sequence[Op], timeout: float | None) -> list[Outcome]:
        touched = touched_by(ops) if self._flights > 1 else ()
        free = self._flying < self._flights and not self._queue
        if free and self._busy.isdisjoint(touched):
            self._flying += 1
            self._busy.update(touched)
            if self._sizes is not None:
                self._sizes.add(len(ops))
            try:
                if timeout is None:
                    return await self._engine.execute(ops)
                return await self._execute_alone(ops, timeout)
            finally:
                self._land(touched)
        loop = asyncio.get_running_loop()
        waiting = Waiting(ops, loop.create_future())
        self._queue.append(waiting)
        self._take_off()
        if timeout is None:
            return await waiting.future
        self._watch.add(waiting, timeout)
        try:
            return await waiting.future
        finally:
            self._watch.discard(waiting)

    async def _execute_alone(self, ops: Sequence[Op], timeout: float) -> list[Outcome]:
        """Straight to the engine. What ends the wait is a cancellation of our own."""
        alone = Alone()
        self._watch.add(alone, timeout)
        try:
            return await self._engine.execute(ops)
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
        self._take_off()
        if self._landed is not None and not self._flying:
            self._landed.set()

    def _take_off(self) -> None:
        if not self._queue or self._flying >= self._flights:
            return
        batch = next_batch(self._queue, self._most, _gone, self._busy)
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

    async def _send(self, batch: list[Waiting], patience: Halving) -> None:
        ops = [op for waiting in batch for op in waiting.ops]
        if self._sizes is not None:
            self._sizes.add(len(ops))
        try:
            outcomes = await self._engine.execute(ops)
        except BaseException as error:
            if patience.worth_halving(batch, error):
                middle = len(batch) // 2
                await self._send(batch[:middle], patience)
                await self._send(batch[middle:], patience)
                return
            for waiting in batch:
                _fail(waiting, own(error))
            if not isinstance(error, Exception):
                raise
        else:
            patience.succeeded()
            share(batch, outcomes)


def _gone(waiting: Waiting) -> bool:
    """Its caller stopped waiting before anything was sent."""
    return waiting.future.done()


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
