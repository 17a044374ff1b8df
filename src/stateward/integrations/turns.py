"""One run at a time in a conversation: the turn that an adapter takes for the runs of a framework.

A framework reads the history, stores the question, asks its model, and stores the answer. Two
concurrent runs would mix, so a run holds the lease of the conversation from its question to its
answer. That costs no round trip: the lease is acquired in the commit of the question and released
in that of the answer. A second run waits. The check that each commit carries still protects the
history; a turn only keeps runs from getting as far as failing it.

A run that ends without an answer cannot say so: its lease is renewed as long as the framework keeps
the objects of the run. Then it expires, or the next run in this process takes it immediately.

A run that is begun from within another one of the same conversation, e.g. by a tool, cannot wait
for it: it shares the turn.
"""

from __future__ import annotations

import gc
import threading
import weakref
from contextvars import ContextVar
from typing import Any, NamedTuple

from stateward.layers.leases.renewal import Renewals
from stateward.ops import Acquire, Entity, Lease, Release
from stateward.world import World

TTL = 10.0  # seconds that other runs wait for a process that died
LONGEST = 600.0  # seconds: the longest wait for any run
WAIT = 60.0  # seconds that a run waits for its turn, unless told otherwise


class AgentRun(NamedTuple):
    """A run of a framework: its identity, and the object whose end is its end."""

    name: object
    lives: object


_around: ContextVar[tuple[weakref.ref[Any], ...]] = ContextVar("_around", default=())


def begin(run: AgentRun) -> None:
    """Make all later calls, in this task and the tasks that it starts, part of the run."""
    lives = run.lives
    others = (each for each in _around.get() if each() is not None and each() is not lives)
    _around.set((*others, weakref.ref(lives)))


class RunTurn:
    """The lease of one run, renewed as long as the run lasts."""

    keeps_due = False

    def __init__(self, entity: Entity, run: AgentRun, lease: Lease, world: World) -> None:
        self.entity = entity
        self.token = lease.token
        self.nonce = lease.nonce
        self.ttl = TTL
        self._name = None if run.name is run.lives else run.name
        self._lives = weakref.ref(run.lives)
        self._world = world
        self._end = world.monotonic() + LONGEST
        self._lost = False
        self.collect = True  # the run may have ended since the last renewal

    @property
    def release(self) -> Release:
        """Return the write that gives the turn back."""
        return Release(self.token, self.nonce)

    def belongs_to(self, run: AgentRun) -> bool:
        return (self._lives() if self._name is None else self._name) is run.name and not self._lost

    def is_alive(self) -> bool:
        return self._lives() is not None and self._world.monotonic() < self._end

    def is_around(self) -> bool:
        """Return whether the caller is part of the run."""
        lives = self._lives()
        return lives is not None and any(each() is lives for each in _around.get())

    def renewed(self, asked: float) -> None:
        """Collect garbage once if the run may be over: an exception may keep its objects alive."""
        if self.collect:
            self.collect = False
            gc.collect()

    def lost(self) -> None:
        self._lost = True


class Turns:
    """The turns of this process's runs on one store; safe to use from any thread."""

    def __init__(self, renewals: Renewals, world: World) -> None:
        self._renewals = renewals
        self._world = world
        self._lock = threading.Lock()
        self._turns: dict[Entity, RunTurn] = {}
        self._stopped: weakref.WeakSet[Any] = weakref.WeakSet()  # objects of finished runs

    @classmethod
    def of(cls, scope: Any) -> Turns:
        """Return the turns of a store's scope, in either colour."""
        with _lock:
            turns = _turns.get(scope)
            if turns is None:
                turns = _turns[scope] = cls(scope.stack.renewals, scope.world)
            return turns

    def get(self, entity: Entity, run: AgentRun) -> RunTurn | None:
        """Return the turn of a run, or None."""
        turn = self._turns.get(entity)
        if turn is None or not turn.belongs_to(run):
            return None
        turn.collect = True
        return turn

    def is_taken(self, entity: Entity, run: AgentRun, lease: Lease | None) -> bool:
        """Return whether a lease may be the turn of another run that has to be waited for."""
        turn = self._turns.get(entity)
        if lease is None:
            return False
        if turn is None or turn.token != lease.token:
            return True
        if turn.belongs_to(run):
            return False
        if turn.is_alive():
            gc.collect()
        return turn.is_alive() and not turn.is_around()

    def is_shared(self, entity: Entity) -> bool:
        """Return whether the caller is part of the run that has the turn."""
        turn = self._turns.get(entity)
        return turn is not None and turn.is_around()

    def acquire(self, entity: Entity) -> Acquire:
        """Return the write that takes the turn, also from a finished run of this process."""
        turn = self._turns.get(entity)
        over = turn is not None and not turn.is_alive()
        nonce = turn.nonce if turn is not None and over else self._world.new_id()
        return Acquire(nonce, TTL, self._world.name())

    def taken(self, entity: Entity, run: AgentRun, lease: Lease, requested_at: float) -> None:
        """Record that a run has the turn, requested at a monotonic time."""
        turn = RunTurn(entity, run, lease, self._world)
        with self._lock:
            before = self._turns.pop(entity, None)
            self._turns[entity] = turn
        if before is not None:
            self._renewals.remove(before)
        self._renewals.add(turn, requested_at)

    def stop(self, run: AgentRun) -> None:
        """End a run, whose earlier writes may still be on their way."""
        self._stopped.add(run.lives)

    def is_stopped(self, run: AgentRun) -> bool:
        return run.lives in self._stopped

    def end(self, turn: RunTurn) -> RunTurn:
        """Stop renewing a turn that was given back or lost."""
        self._renewals.remove(turn)
        with self._lock:
            if self._turns.get(turn.entity) is turn:
                del self._turns[turn.entity]
        return turn


_lock = threading.Lock()
_turns: weakref.WeakKeyDictionary[Any, Turns] = weakref.WeakKeyDictionary()
