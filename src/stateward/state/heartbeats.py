"""Heartbeats, with which a process regularly records in the store that it is alive, and its counts.

They run in the background: no call waits for one, a failed one is only counted, and one is written
only while the store is open.
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
        self._ahead = 0.0  # seconds by which the store's clock is ahead of this process
        self._entity: Entity | None = None
        self._started = 0.0
        self._process = 0
        self._closed = False
        self._written = False  # whether other processes can read of this one
        self._well = True  # whether the last heartbeat reached the store
        # async only: begin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._beating: asyncio.Task[None] | None = None
        # async only: end
        # sync only: self._next = 0.0
        self._ticker: Ticker | None = None
        self._stack.when_open = self.begin

    def begin(self) -> None:
        """Start the heartbeats; called when the store has been opened."""
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
        if self._loop is not loop:  # timers of a loop that has ended are gone
            self._loop = loop
            self._arm(self._every)
        # async only: end
        # sync only: self._next = self._world.monotonic() + self._every
        # sync only: if self._ticker is None:
        # sync only:     try:
        # sync only:         self._ticker = self._world.ticker(self._tick, "stateward-heartbeat")
        # sync only:     except StatewardError as error:  # a moment without threads
        # sync only:         went_wrong("stateward-heartbeat", error)

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
        """Write a heartbeat if the store is open. Raises nothing if the store fails."""
        if self._entity is None or not self._stack.is_open():
            return
        policy = self._stack.policy
        # Closing waits for a heartbeat in progress: in an outage not for long.
        patience = policy.write_timeout if self._well else policy.read_timeout
        content = self._content()
        op, readings = self._world.new_op(), self._readings.writes()
        if await self._send(beating(self._entity, op, content, readings), patience):
            self._written = True

    async def _send(self, commit: Commit, patience: float) -> bool:
        deadline = self._world.monotonic() + patience
        try:
            (outcome,) = await self._stack.execute_uncounted((commit,), deadline)
        except StatewardError as error:
            self._counters.heartbeats_failed += 1
            if self._well:  # once, not for every heartbeat
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

    def _content(self) -> Beat:
        from stateward import __version__  # which imports the store

        host, _, pid = self._world.name().rpartition(":")
        spilled = sum(stack.backlog.depth for stack in self._stacks)
        metrics = self._collector.snapshot()
        counts = self._pulse.counts(metrics, spilled, self._stack.alarms.raised)
        self._measure(metrics, counts)
        engines = dict.fromkeys(stack.capabilities.system or "other" for stack in self._stacks)
        return Beat(
            host=host,
            pid=int(pid) if pid.isdigit() else 0,
            version=__version__,
            engine=" + ".join(engines),
            replica=self._stack.replica,
            every=self._every,
            started=self._started,
            counts=counts,
        )

    def _measure(self, metrics: Metrics, counts: ReplicaCounts) -> None:
        """Take a reading, also in an outage: it is written when the store is reachable again."""
        is_open = any(stack.breaker != "closed" for stack in self._stacks)
        now = Gauge(self._world.now() + self._ahead, counts.kept, is_open)
        taken = self._collector.concerned.take()
        if self._readings.add(self._meter.read(metrics, counts, now, taken)) and self._written:
            self._background.start(self._look_at_sizes, "sizes")

    async def _look_at_sizes(self) -> None:
        """Refresh the sizes in the background, every few minutes."""
        try:
            await self._world.offload(self._collector.refresh)
        except Exception as error:
            went_wrong("stateward-sizes", error)

    async def close(self) -> None:
        """End the heartbeats, and record that this process has closed the store.

        In an outage nothing is recorded: a process without heartbeats is dropped after an hour.
        """
        if self._closed or self._process not in (0, os.getpid()):
            return  # after a fork they belong to the parent
        # async only: begin
        if self._loop not in (None, asyncio.get_running_loop()):
            return  # they ended with their loop, or are in use there
        # async only: end
        self._closed = True
        policy = self._stack.policy
        # async only: begin
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            beating_now = self._beating
            if self._well:
                await asyncio.wait([beating_now], timeout=policy.read_timeout)
            if not beating_now.done():
                beating_now.cancel()
                await asyncio.wait([beating_now])
                return
        # async only: end
        # sync only: if self._ticker is not None:
        # sync only:     self._ticker.stop()
        is_well = self._well and self._stack.is_open() and self._stack.breaker == "closed"
        if self._written and is_well:
            assert self._entity is not None
            op, content = self._world.new_op(), self._content()
            last = closing(self._entity, op, content, self._readings.writes())
            await self._send(last, policy.read_timeout)
