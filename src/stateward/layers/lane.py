"""Many callers, one round trip at a time.

While a batch is under way, the operations of other callers wait; when it lands, all of them are
sent in the next one. Under load the batches grow by themselves, and one fsync or one network round
trip serves a hundred conversations. With nothing under way an operation goes straight to the
engine, so a lone caller pays for none of this.

Reads and writes have lanes of their own: a slow disk does not hold up reads. Nor does a row locked
by another process hold up all others: a batch that has not landed for a while is no longer counted,
and operations on other entities continue beside it.

Cancellation and deadlines end a caller's *wait*. Operations not yet sent are removed and were not
applied; those that were sent complete all the same. A batch belongs to no caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from stateward.engine import Engine
from stateward.errors import EntityBusy, StoreUnavailable
from stateward.layers.queue import (
    MOST_STALLED,
    PATIENCE,
    Halving,
    Loners,
    next_batch,
    own,
    too_late,
    touched_by,
)
from stateward.observe.metrics import Histogram
from stateward.ops import Entity, Op, Outcome

HELD_UP = 0.1  # seconds by which a timer is late when the event loop had no time for it


class Waiting:
    """The call of one caller, and the future that answers it."""

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


class Expiring(Protocol):
    """A wait that can be ended because its time is up."""

    def expire(self) -> None: ...


class DeadlineWatch:
    """Ends the waits whose time is up, with one timer for all of them.

    Hardly any deadline is ever met, but a timer for each costs 3 µs, and asyncio.timeout 4.5.

    A timer that goes off late says that the event loop was held up, for instance by thousands of
    calls that began at once. Then answers may be here that no caller has seen yet: they come first.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Expiring, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings = 0.0  # when the timer does
        self._spared: set[Expiring] = set()  # for a moment, once: see `_ring`

    def add(self, wait: Expiring, deadline: float) -> None:
        self._waits[wait] = deadline
        if self._timer is None or deadline < self._rings:
            self._arm(deadline)

    def discard(self, wait: Expiring) -> None:
        self._waits.pop(wait, None)
        if self._spared:
            self._spared.discard(wait)

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = deadline
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline - self._clock(), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock()
        held_up = now - self._rings > HELD_UP
        for wait in [wait for wait, deadline in self._waits.items() if deadline <= now]:
            if held_up and wait not in self._spared:
                self._spared.add(wait)
                self._waits[wait] = now + HELD_UP
            else:
                self.discard(wait)
                wait.expire()
        if self._waits:
            self._arm(min(self._waits.values()))


class Lane:
    """Batches of one direction, at most `flights` of `most` operations under way.

    A batch that waits in a server for `PATIENCE` seconds or more has stalled, and is not counted:
    operations on its entities wait for it, and all others continue.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        sizes: Histogram | None,
        flights: int,
        most: int,
    ) -> None:
        self._engine = engine
        self._sizes = sizes
        self._flights = flights
        self._most = most
        self._most_stalled = MOST_STALLED if engine.capabilities.networked else 0
        self._under_way: dict[object, Sequence[Op]] = {}
        self._stalled: dict[object, Sequence[Op]] = {}
        self._patience: asyncio.TimerHandle | None = None  # runs while a call waits
        self._loners = Loners()
        self._queue: deque[Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly
        self._landed: asyncio.Event | None = None
        self._watch = DeadlineWatch(clock)

    async def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        under_way = self._under_way
        free = len(under_way) < self._flights and not self._queue
        if free and (not (under_way or self._stalled) or self._busy().isdisjoint(touched_by(ops))):
            flight = object()
            under_way[flight] = ops
            if self._sizes is not None:
                self._sizes.add(len(ops))
            try:
                if deadline is None:
                    return await self._engine.execute(ops)
                return await self._execute_alone(ops, deadline)
            except EntityBusy as error:
                self._loners.failed(ops, error)
                raise
            finally:
                self._land(flight)
        waiting = Waiting(ops, deadline, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if len(under_way) < self._flights or self._most_stalled:
            self._take_off()
        if deadline is None:
            return await waiting.future
        self._watch.add(waiting, deadline)
        try:
            return await waiting.future
        finally:
            self._watch.discard(waiting)

    async def _execute_alone(self, ops: Sequence[Op], deadline: float) -> list[Outcome]:
        """Call the engine itself; at the deadline, a cancellation of our own ends the wait."""
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
        while self._under_way or self._stalled or self._queue:
            if self._landed is None or self._landed.is_set():
                self._landed = asyncio.Event()
            await self._landed.wait()

    def _busy(self) -> set[Entity]:
        """Return the entities that are being committed to."""
        flights = (*self._under_way.values(), *self._stalled.values())
        return {entity for ops in flights for entity in touched_by(ops)}

    def _land(self, flight: object) -> None:
        if self._under_way.pop(flight, None) is None:
            del self._stalled[flight]
        if self._queue:
            self._take_off()
        if self._landed is not None and not (self._under_way or self._stalled):
            self._landed.set()

    def _take_off(self) -> None:
        while self._queue and len(self._under_way) < self._flights:
            batch, self._queue = next_batch(
                self._queue, self._most, _gone, self._busy(), self._loners
            )
            if not batch:
                break
            ops = [op for waiting in batch for op in waiting.ops]
            room = len(self._stalled) < self._most_stalled
            counted = self._stalled if room and self._loners.are(ops) else self._under_way
            flight = object()
            counted[flight] = ops
            task = asyncio.get_running_loop().create_task(self._fly(batch, flight))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._queue and self._patience is None and len(self._stalled) < self._most_stalled:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(PATIENCE, self._look_around, [*self._under_way])

    def _look_around(self, before: Sequence[object]) -> None:
        """Count the batches that were under way before, and still are, as stalled."""
        self._patience = None
        for flight in before:
            if flight in self._under_way and len(self._stalled) < self._most_stalled:
                self._stalled[flight] = self._under_way.pop(flight)
        if self._queue:
            self._take_off()

    async def _fly(self, batch: list[Waiting], flight: object) -> None:
        try:
            await self._send(batch, Halving(len(batch)))
        finally:
            self._land(flight)

    async def _send(self, batch: list[Waiting], halving: Halving) -> None:
        ops = [op for waiting in batch for op in waiting.ops]
        if self._sizes is not None:
            self._sizes.add(len(ops))
        try:
            deadline = latest(waiting.deadline for waiting in batch)
            outcomes = await self._engine.execute(ops, deadline=deadline)
        except BaseException as error:
            self._loners.failed(ops, error)
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
            self._loners.succeeded(ops)
            share(batch, outcomes)


def _gone(waiting: Waiting) -> bool:
    """Return whether the caller stopped waiting before anything was sent."""
    return waiting.future.done()


def latest(deadlines: Iterable[float | None]) -> float | None:
    """Return when the last caller gives up; None if one of them never does."""
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
