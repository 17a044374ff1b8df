"""Many threads, one round trip at a time: the blocking twin of `coalescer.py`.

There is no thread of its own. The first caller leads: it executes its own operation; whoever
comes meanwhile waits. When the leader is done it hands all of that, with the lead, to one of
those who wait, and only then goes its way, so that the store is never idle while threads wake up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from stateward.engine import SyncEngine
from stateward.layers.queue import Halving, next_batch, own, too_late
from stateward.observe.metrics import Histogram
from stateward.observe.recorder import Recorder
from stateward.ops import WRITES, Op, Outcome


class Coalescer:
    """The engine's `execute`, shared by all threads of a process."""

    def __init__(
        self,
        engine: SyncEngine,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._reads = Lane(engine, clock, None if recorder is None else recorder.read_batches)
        self._writes = Lane(engine, clock, None if recorder is None else recorder.write_batches)
        self._inline = engine.capabilities.inline_reads

    def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """Outcomes in the order of `ops`, by the `deadline` (by the monotonic clock).

        It ends the wait for others; a round trip that this thread itself leads is given up by
        the engine, where there is a network in between.
        """
        writes = [op for op in ops if isinstance(op, WRITES)]
        if not writes:
            if self._inline:
                return self._engine.execute(ops, deadline=deadline)
            return self._reads.execute(ops, deadline)
        if len(writes) == len(ops):
            return self._writes.execute(ops, deadline)
        reads = [op for op in ops if not isinstance(op, WRITES)]
        written = iter(self._writes.execute(writes, deadline))
        read = iter(self._reads.execute(reads, deadline))
        return [next(written) if isinstance(op, WRITES) else next(read) for op in ops]

    def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        self._writes.drain()
        self._reads.drain()


class Waiting:
    """What one thread asked for; it sleeps on `wake` until it is answered or made leader."""

    __slots__ = ("batch", "deadline", "error", "gone", "ops", "outcomes", "sent", "wake")

    def __init__(self, ops: Sequence[Op], deadline: float | None) -> None:
        self.ops = ops
        self.deadline = deadline
        self.sent = False
        self.gone = False
        self.batch: list[Waiting] | None = None  # set: lead this batch, which holds this one
        self.outcomes: list[Outcome] | None = None
        self.error: BaseException | None = None
        self.wake = threading.Lock()
        self.wake.acquire()


class Lane:
    """Batches of one direction, one under way at a time."""

    def __init__(
        self, engine: SyncEngine, clock: Callable[[], float], sizes: Histogram | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._sizes = sizes
        self._most = engine.capabilities.batch
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._led = False
        self._queue: deque[Waiting] = deque()

    def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        with self._lock:
            waiting = None
            if self._led:
                waiting = Waiting(ops, deadline)
                self._queue.append(waiting)
            self._led = True
        if waiting is None:
            if self._sizes is not None:
                self._sizes.add(len(ops))
            try:
                return self._engine.execute(ops, deadline=deadline)
            finally:
                self._hand_over()
        self._sleep(waiting)
        if waiting.batch is not None:
            self._lead(waiting.batch)
        if waiting.error is not None:
            raise waiting.error
        if waiting.outcomes is None:
            raise too_late(waiting.sent)
        return waiting.outcomes

    def drain(self) -> None:
        with self._idle:
            self._idle.wait_for(lambda: not self._led)

    def _sleep(self, waiting: Waiting) -> None:
        """Until answered, made leader, or too late; what was not sent by then never will be."""
        deadline = waiting.deadline
        seconds = -1.0 if deadline is None else max(0.0, deadline - self._clock())
        try:
            if waiting.wake.acquire(timeout=seconds):
                return
        except BaseException:  # e.g. KeyboardInterrupt: the lead must not be lost with us
            with self._lock:
                waiting.gone = True
            if waiting.batch is not None:
                self._lead(waiting.batch)
            raise
        with self._lock:
            waiting.gone = True

    def _hand_over(self) -> None:
        with self._lock:
            batch = next_batch(self._queue, self._most, _gone)
            if not batch:
                self._led = False
                self._idle.notify_all()
                return
            batch[0].batch = batch
        batch[0].wake.release()

    def _lead(self, batch: list[Waiting]) -> None:
        try:
            # This thread waits for the answer itself, and no longer than its own caller may.
            self._send(batch, Halving(len(batch)), batch[0].deadline)
        finally:
            self._hand_over()  # before waking the others: the next batch is already on its way
            for waiting in batch[1:]:
                waiting.wake.release()

    def _send(self, batch: list[Waiting], halving: Halving, deadline: float | None) -> None:
        ops = [op for waiting in batch for op in waiting.ops]
        if self._sizes is not None:
            self._sizes.add(len(ops))
        try:
            outcomes = self._engine.execute(ops, deadline=deadline)
        except BaseException as error:
            if halving.worth_halving(batch, error):
                middle = len(batch) // 2
                self._send(batch[:middle], halving, deadline)
                self._send(batch[middle:], halving, deadline)
                return
            for waiting in batch:
                waiting.error = own(error)
            if not isinstance(error, Exception):
                raise
        else:
            halving.succeeded()
            at = 0
            for waiting in batch:
                end = at + len(waiting.ops)
                waiting.outcomes = outcomes[at:end]
                at = end


def _gone(waiting: Waiting) -> bool:
    """Its thread stopped waiting before anything was sent."""
    return waiting.gone
