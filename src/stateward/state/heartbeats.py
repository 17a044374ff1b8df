"""A process says in the store, now and then, that it lives and what it has counted.

Beside everything else: no call waits for it, a beat that fails is counted and no more, and one is
written only while the store is open anyway.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from stateward.errors import StatewardError
from stateward.kinds import HEARTBEAT
from stateward.layers.stack import Stack
from stateward.observe.collector import Collector
from stateward.observe.metrics import Metrics
from stateward.ops import Applied, Commit, Entity
from stateward.records import ReplicaCounts
from stateward.state.replica_record import Beat, Pulse, beating, closing
from stateward.state.scope import Scope
from stateward.state.signal_record import Gauge, Meter, Readings
from stateward.world import AFTER_ERROR, Ticker, World, went_wrong

logger = logging.getLogger("stateward.heartbeat")


class Heartbeats:
    """The heartbeats of one store of this process, from `every` seconds after it was opened."""

    def __init__(
        self, scope: Scope, stacks: Sequence[Stack], every: float, collector: Collector
    ) -> None:
        self._every = every
        self._namespace = scope.namespace
        self._stack = scope.stack
        self._stacks = stacks
        self._collector = collector
        self._world: World = scope.world
        self._counters = scope.counters
        self._background = scope.background
        self._pulse = Pulse(scope.counters)
        self._meter = Meter(scope.counters)
        self._readings = Readings()
        self._ahead = 0.0  # how much the store's clock is ahead of ours
        self._entity: Entity | None = None
        self._started = 0.0
        self._process = 0
        self._closed = False
        self._written = False  # whether others have heard of us
        self._well = True  # whether the last one has reached the store
        # async only: begin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._beating: asyncio.Task[None] | None = None
        # async only: end
        # sync only: self._next = 0.0
        self._ticker: Ticker | None = None
        self._stack.when_open = self.begin

    def begin(self) -> None:
        """The store is open here."""
        if self._closed:
            return
        if self._entity is None or self._process != os.getpid():
            id = f"{self._world.name()}:{self._world.new_id()}"
            self._entity = Entity(self._namespace, HEARTBEAT, id)
            self._started = self._world.now()
            self._readings = Readings()
            self._process = os.getpid()
            self._ticker = None
        # async only: begin
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # what belonged to a loop that has ended is gone with it
            self._loop = loop
            self._arm(self._every)
        # async only: end
        # sync only: self._next = self._world.monotonic() + self._every
        # sync only: if self._ticker is None:
        # sync only:     self._ticker = self._world.ticker(self._tick, "stateward-heartbeat")

    # async only: begin
    def _arm(self, delay: float) -> None:
        if not self._closed:
            assert self._loop is not None
            self._timer = self._loop.call_later(delay, self._launch)

    def _launch(self) -> None:
        assert self._loop is not None
        self._timer = None
        self._beating = self._loop.create_task(self._run())

    async def _run(self) -> None:
        delay = self._every
        try:
            await self.beat()
        except Exception as error:
            went_wrong("stateward-heartbeat", error)
            delay = max(AFTER_ERROR, delay)
        self._beating = None
        self._arm(delay)

    # async only: end
    # sync only: def _tick(self) -> float:
    # sync only:     wait = self._next - self._world.monotonic()
    # sync only:     if wait > 0:
    # sync only:         return wait
    # sync only:     self.beat()
    # sync only:     self._next = self._world.monotonic() + self._every
    # sync only:     return self._every

    async def beat(self) -> None:
        """One of them, unless the store is not open. Raises nothing for a failing store."""
        if self._entity is None or not self._stack.is_open():
            return
        policy = self._stack.policy
        # Closing waits for what is under way: in an outage that must not be long.
        patience = policy.write_timeout if self._well else policy.read_timeout
        said = self._say()
        measured = self._readings.writes()
        op = self._world.new_op()
        if await self._send(beating(self._entity, op, said, measured), patience):
            self._written = True

    async def _send(self, commit: Commit, patience: float) -> bool:
        deadline = self._world.monotonic() + patience
        try:
            (outcome,) = await self._stack.execute_uncounted((commit,), deadline)
        except StatewardError as error:
            self._counters.heartbeats_failed += 1
            if self._well:  # once, not with every beat
                name = type(error).__name__
                extra = {"error": name, "reason": f"{name}: {error}"}
                logger.warning("heartbeat_failed", extra=extra)
            self._well = False
            return False
        self._well = True
        if isinstance(outcome, Applied):
            self._readings.stored(outcome.version)
            self._ahead = outcome.at - self._world.now()
        return True

    def _say(self) -> Beat:
        from stateward import __version__  # which imports the store

        host, _, pid = self._world.name().rpartition(":")
        kept = sum(stack.backlog.depth for stack in self._stacks)
        metrics = self._collector.snapshot()
        counts = self._pulse.counts(metrics, kept, self._stack.alarms.raised)
        self._measure(metrics, counts)
        return Beat(
            host=host,
            pid=int(pid) if pid.isdigit() else 0,
            version=__version__,
            engine=" + ".join(
                dict.fromkeys(s.capabilities.system or "other" for s in self._stacks)
            ),
            replica=self._stack.replica,
            every=self._every,
            started=self._started,
            counts=counts,
        )

    def _measure(self, metrics: Metrics, counts: ReplicaCounts) -> None:
        """Another reading, also while the store is down: it is told when the store is back."""
        is_open = any(stack.breaker != "closed" for stack in self._stacks)
        now = Gauge(self._world.now() + self._ahead, counts.kept, is_open)
        taken = self._collector.concerned.take()
        if self._readings.add(self._meter.read(metrics, counts, now, taken)) and self._written:
            self._background.start(self._look_at_sizes, "sizes")

    async def _look_at_sizes(self) -> None:
        """Every few minutes, and nobody waits for it."""
        try:
            await self._world.offload(self._collector.refresh)
        except Exception as error:
            went_wrong("stateward-sizes", error)

    async def close(self) -> None:
        """No more of them; others are told that this process has closed the store.

        They are not while the store is down: an hour later it is forgotten anyway.
        """
        if self._closed or self._process not in (0, os.getpid()):
            return  # after a fork it is the parent's
        # async only: begin
        if self._loop not in (None, asyncio.get_running_loop()):
            return  # it went with its loop, or is in use there
        # async only: end
        self._closed = True
        policy = self._stack.policy
        # async only: begin
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            under_way = self._beating
            if self._well:
                await asyncio.wait([under_way], timeout=policy.read_timeout)
            if not under_way.done():
                under_way.cancel()
                await asyncio.wait([under_way])
                return
        # async only: end
        # sync only: if self._ticker is not None:
        # sync only:     self._ticker.stop()
        is_well = self._well and self._stack.is_open() and self._stack.breaker == "closed"
        if self._written and is_well:
            assert self._entity is not None
            said = self._say()
            last = closing(self._entity, self._world.new_op(), said, self._readings.writes())
            await self._send(last, policy.read_timeout)
