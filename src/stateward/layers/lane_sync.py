"""Many threads, one round trip at a time: the blocking twin of `lane.py`.

A lane has no thread of its own. The first caller leads: it executes its own operations, and later
callers wait. When the leader is done, it hands their operations and the lead to one of them before
it returns, so that the store is never idle while threads wake up. If the batch of a leader has not
landed for a while, a waiting caller takes the lead, with operations on other entities.

A signal handler may raise in the leading thread: at the entry of a function, at the turn of a loop,
or after a call of a function in C. So a leader is within a `try` before it takes the lead; what
must be done afterwards is done again if it was interrupted, and can be. Callers of the same batch
do not see the exception: the next leader sends their operations, again if need be.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf

from stateward.engine import SyncEngine
from stateward.errors import EntityBusy, StatewardError, StoreUnavailable
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


class Waiting:
    """The call of one thread, which sleeps on `wake` until it is answered or made leader."""

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

    @property
    def answered(self) -> bool:
        return self.outcomes is not None or self.error is not None


Lead = list[Sequence[Op]] | Waiting  # who leads: a caller with its own operations, or with a batch
NOBODY: list[Lead] = []  # has stalled who had not before


class Lane:
    """Batches of one direction, one under way at a time, besides those that have stalled."""

    def __init__(
        self, engine: SyncEngine, clock: Callable[[], float], sizes: Histogram | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._sizes = sizes
        self._most = engine.capabilities.batch
        self._most_stalled = MOST_STALLED if engine.capabilities.networked else 0
        self._lock = threading.Lock()
        self._leader: Lead | None = None
        self._stalled: list[Lead] = []  # leaders whose lead was taken over
        self._loners = Loners()
        self._queue: deque[Waiting] = deque()
        self._draining: list[threading.Lock] = []

    def execute(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        lead = [ops]
        try:
            with self._lock:
                if self._leader is None and (
                    not self._stalled or self._busy(self._stalled).isdisjoint(touched_by(ops))
                ):
                    self._leader = lead
            if self._leader is lead:
                if self._sizes is not None:
                    self._sizes.add(len(ops))
                return self._engine.execute(ops, deadline=deadline)
        except EntityBusy as error:
            self._loners.failed(ops, error)
            raise
        finally:
            if self._leader is lead or self._stalled:
                try:
                    self._hand_over(lead)
                except BaseException:
                    self._hand_over(lead)
                    raise
        return self._execute_together(ops, deadline)

    def _execute_together(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        waiting = Waiting(ops, deadline)
        try:
            with self._lock:
                self._queue.append(waiting)
                if self._leader is None:  # the one who led has just gone
                    self._pass_on()
            self._sleep(waiting)
            if waiting.batch is not None:
                # This thread waits for the answer itself, and no longer than its own caller may.
                self._send(waiting.batch, Halving(len(waiting.batch)), deadline)
        finally:
            try:
                self._leave(waiting)
            except BaseException:
                self._leave(waiting)
                raise
        if waiting.error is not None:
            raise waiting.error
        if waiting.outcomes is None:
            raise too_late(waiting.sent)
        return waiting.outcomes

    def drain(self) -> None:
        idle = threading.Lock()
        idle.acquire()
        with self._lock:
            if self._leader is None and not self._stalled:
                return
            self._draining.append(idle)
        idle.acquire()

    def _sleep(self, waiting: Waiting) -> None:
        """Wait until answered, made leader, or too late; what is unsent by then is never sent."""
        deadline = waiting.deadline
        while True:
            seconds = -1.0 if deadline is None else max(0.0, deadline - self._clock())
            leader = self._leader
            naps = len(self._stalled) < self._most_stalled and not waiting.sent
            if naps and not 0 <= seconds <= PATIENCE:
                if waiting.wake.acquire(timeout=PATIENCE):
                    return
                self._take_over(leader)
            elif waiting.wake.acquire(timeout=seconds):
                return
            else:
                with self._lock:
                    waiting.gone = True
                return

    def _take_over(self, leader: Lead | None) -> None:
        """Take the lead from this leader, if it still leads, for a call that can continue."""
        with self._lock:
            stalled = self._stalled
            if leader is not None and self._leader is leader and len(stalled) < self._most_stalled:
                self._pass_on((), [*stalled, leader])

    def _busy(self, stalled: Iterable[Lead]) -> set[Entity]:
        """Return the entities that stalled leaders are committing to."""
        asked: list[Sequence[Op]] = []
        for lead in stalled:
            if isinstance(lead, Waiting):
                asked += [waiting.ops for waiting in lead.batch or ()]
            else:
                asked += lead
        return {entity for ops in asked for entity in touched_by(ops)}

    def _leave(self, waiting: Waiting) -> None:
        """Stop waiting; a leader gives the lead away and wakes the threads that were answered."""
        with self._lock:
            waiting.gone = True
        batch = waiting.batch
        if batch is None:
            return
        # Before waking the others: the next batch is already on its way.
        self._hand_over(waiting, [other for other in batch if not other.answered])
        for other in batch:
            if other.answered and other.wake.locked():
                other.wake.release()

    def _hand_over(self, leader: Lead, unanswered: Sequence[Waiting] = ()) -> None:
        """Give the lead away, unless that was done before; unanswered calls come first."""
        with self._lock:
            waited_for = self._queue or self._stalled or self._draining
            if self._leader is leader and type(leader) is list and not waited_for:
                self._leader = None  # it was alone, as most are
                return
            stalled = [other for other in self._stalled if other is not leader]
            had_stalled = len(stalled) < len(self._stalled)
            if self._leader is leader or (had_stalled and self._leader is None):
                self._pass_on(unanswered, stalled)
            elif had_stalled:  # another one leads by now
                self._queue, self._stalled = deque(chain(unanswered, self._queue)), stalled

    def _pass_on(self, unanswered: Sequence[Waiting] = (), stalled: list[Lead] = NOBODY) -> None:
        """Make one of the first waiting calls the leader of a batch, if any waits. Under the lock.

        `stalled` are the leaders that no call waits for from now on. The queue and the lead change
        as one: no call comes in between.
        """
        if stalled is NOBODY:
            stalled = self._stalled
        while self._queue or unanswered:
            waiting = chain(unanswered, self._queue)
            batch, left = next_batch(waiting, self._most, _gone, self._busy(stalled), self._loners)
            lone = bool(batch) and self._loners.are(batch[0].ops)
            lone = lone and len(stalled) < self._most_stalled
            # A leader waits no longer than its own caller may: the most patient one leads.
            first = max(batch, key=_patience, default=None)
            self._queue = left
            if first is None:
                break
            first.batch = batch
            if not lone:
                self._leader, self._stalled = first, stalled
                first.wake.release()
                return
            self._stalled = stalled = [*stalled, first]  # no call waits for this one from the start
            unanswered = ()
            first.wake.release()
        if not stalled:
            for idle in self._draining:
                if idle.locked():
                    idle.release()
        self._leader, self._stalled = None, stalled

    def _send(self, batch: list[Waiting], halving: Halving, deadline: float | None) -> None:
        ops = [op for waiting in batch for op in waiting.ops]
        if self._sizes is not None:
            self._sizes.add(len(ops))
        try:
            outcomes = self._engine.execute(ops, deadline=deadline)
        except StatewardError as error:
            self._loners.failed(ops, error)
            if halving.worth_halving(batch, error) and not self._too_late(error, deadline):
                middle = len(batch) // 2
                self._send(batch[:middle], halving, deadline)
                self._send(batch[middle:], halving, deadline)
                return
            for waiting in batch:
                waiting.error = own(error)
        else:
            halving.succeeded()
            self._loners.succeeded(ops)
            at = 0
            for waiting in batch:
                end = at + len(waiting.ops)
                waiting.outcomes = outcomes[at:end]
                at = end

    def _too_late(self, error: StatewardError, deadline: float | None) -> bool:
        """Return whether the leader has no time left to ask an unavailable store again."""
        unavailable = isinstance(error, StoreUnavailable)
        return unavailable and deadline is not None and self._clock() >= deadline


def _patience(waiting: Waiting) -> float:
    return inf if waiting.deadline is None else waiting.deadline


def _gone(waiting: Waiting) -> bool:
    """Return whether the thread stopped waiting before anything was sent."""
    return waiting.gone
