"""A write that the store cannot take must not fail the answer it belongs to.

A plain append that fails with `StoreUnavailable` is kept locally and brought to the store later:
before this process next reads or appends to that thread, and in the background.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from stateward.errors import AccessRefused, StatewardError, StoreUnavailable, TooFewReplicas
from stateward.layers.layer import Layer
from stateward.layers.outage.answers import Dropped, Spilled, Suppressed
from stateward.layers.outage.asked import moved_by
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.neighbours import NearRecord
from stateward.layers.outage.replay import Replayer
from stateward.layers.outage.spill import SpillRecord
from stateward.layers.policy import Policy
from stateward.layers.queue import closed
from stateward.observe.alarm import AlarmEvent, Alarms, failed, tell
from stateward.observe.correlation import correlation_id
from stateward.observe.counters import Counters, count_dropped
from stateward.observe.logs import Sparing
from stateward.observe.stderr_log import DEFAULT_LOG
from stateward.ops import WRITES, Append, Commit, Entity, Fetch, NotDroppedSince, Op, Outcome
from stateward.world import AFTER_ERROR, Ticker, World, went_wrong

logger = logging.getLogger("stateward.policy")

CLOSING_SECONDS = 5.0
CLOSING_PAUSE = 0.25
RETRY_SECONDS = 1.0  # between two attempts to replay
ADOPT_SECONDS = 30.0  # between two looks for files of processes that have ended
LEFT_ROUNDS = 3  # of replay in which what a neighbour keeps first is left to it
TOGETHER = 32  # threads replayed at once in the background


class Suppression:
    """The layer above the deadlines. While nothing waits, it costs one look at a dictionary."""

    def __init__(
        self,
        below: Layer,
        backlog: Backlog,
        replayer: Replayer,
        alarms: Alarms,
        policy: Policy,
        world: World,
        counters: Counters,
    ) -> None:
        self._below = below
        self._backlog = backlog
        self._replayer = replayer
        self._hook = alarms.alarm.hook
        self._policy = policy
        self._world = world
        self._counters = counters
        self._waiting = backlog.waiting
        self._near = backlog.neighbours
        self._left: dict[str, int] = {}  # for how many rounds neighbours were left what is first
        self._tick = min(ADOPT_SECONDS, alarms.alarm.seconds / 10)
        self._next_look = self._next_replay = 0.0
        self._news: deque[AlarmEvent] = deque()
        self._stuck: dict[Entity, str] = {}  # not replayed last time, and why if that was logged
        self._sought: Entity | None = None  # asked for until the engine could be opened
        self._unusable = ""  # why it cannot be used, as was logged last
        self._process = 0
        self._closed = False
        self._alarms = alarms
        self._sparing = Sparing()
        # async only: begin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._due = 0.0  # when it goes off; uvloop's timers that are due at once do not say
        self._round: asyncio.Task[None] | None = None
        # async only: end
        self._ticker: Ticker | None = None

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        if self._waiting:
            return self._execute_after_replay(ops, deadline)
        return self._below.execute(ops, deadline)

    async def append(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> list[Outcome | Suppressed]:
        """One commit that appends. If the store cannot take it, its messages are kept for later.

        Then the outcome is `Spilled` or `Dropped`: the store's failure is not raised.
        """
        began = self._world.now()  # what is erased from here on must stay erased
        try:
            if self._waiting or self._near.count or self._near.stamp != self._near.seen:
                return await self._execute_after_all(ops, deadline)  # type: ignore[return-value]
            return await self._below.execute(ops, deadline)  # type: ignore[return-value]
        except StoreUnavailable as error:
            (commit,) = ops
            assert isinstance(commit, Commit)
            return [await self._suppress(commit, began, error)]

    async def _execute_after_all(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        """Replay first what other processes of this machine keep of the thread, too."""
        await self._look_around()
        (commit,) = ops
        assert isinstance(commit, Commit)
        touched = [] if self._near.head(commit.entity) is None else [commit.entity]
        return await self._execute_after_replay(ops, deadline, touched)

    async def _look_around(self) -> None:
        if self._near.stamp != self._near.seen:
            await self._world.offload(self._backlog.look)

    async def _execute_after_replay(
        self, ops: Sequence[Op], deadline: float | None, near: Sequence[Entity] = ()
    ) -> list[Outcome]:
        """Replay the spilled turns of these threads, then execute: no write may overtake them.

        A read does without them only while the store has too few replicas to take any write: after
        a failover that can last, and reads must not stand still with the writes.
        """
        if self._is_over:
            raise closed()
        policy = self._policy
        touched: dict[Entity, None] = dict.fromkeys(near)
        reads = not any(isinstance(op, WRITES) for op in ops)
        for op in ops:
            entity = getattr(op, "entity", None)
            if entity in self._waiting:
                touched[entity] = None
        if not touched:
            return await self._below.execute(ops, deadline)
        now = self._world.monotonic()
        end = now + (policy.read_timeout if reads else policy.write_timeout)
        deadline = end if deadline is None else min(end, deadline)
        try:
            for entity in touched:
                await self._replayer.replay(entity, deadline)
        except TooFewReplicas:
            if not reads:
                raise
        if self._is_over:
            raise closed()  # what was left to others meanwhile must not be overtaken
        if self._has_news():
            self._arm(0.0)
        return await self._below.execute(ops, deadline)

    @property
    def _is_over(self) -> bool:
        """Return whether the records left over belong to the next process by now."""
        return self._waiting is not self._backlog.waiting

    async def _suppress(self, commit: Commit, began: float, error: StoreUnavailable) -> Suppressed:
        append = commit.writes[0]
        assert isinstance(append, Append)
        record = SpillRecord(
            commit.op,
            commit.entity,
            append.bodies,
            began,
            commit.owner,
            append.key,
            commit.retain,
            correlation_id(),
            append.takes_first,
            append.note,
            min((c.at for c in commit.checks if type(c) is NotDroppedSince), default=None),
            moved_by(commit),
        )
        spilled = self._backlog.add(record)
        self._counters.suppressed += 1
        if spilled:
            self._counters.spilled += 1
        else:
            count_dropped(self._counters, commit.entity.id)
        answer = Spilled(error) if spilled else Dropped(error)
        self._say(record, answer.status, error)
        if self._is_over:
            # It was under way when the store was closed: its file is left to the next process.
            lost = await self._world.offload(self._backlog.close)
            return Dropped(error) if lost else answer
        if spilled and self._backlog.has_files:
            await self._world.offload(self._backlog.persist)
        return answer

    def _say(self, record: SpillRecord, status: str, error: StoreUnavailable) -> None:
        """Log a suppressed write, tell the alarm, and arm the timer that replays it."""
        unlogged = self._sparing.unlogged(self._world.monotonic())
        if unlogged is None:
            DEFAULT_LOG.count(f"memory_write_suppressed {status}", record.entity.id)
        else:
            logger.warning(
                "memory_write_suppressed",
                extra={
                    "thread_id": record.entity.id,
                    "op": record.op,
                    "status": status,
                    "error": type(error).__name__,
                    "applied": error.applied,
                    "messages": len(record.bodies),
                    "correlation_id": record.correlation,
                    "reason": f"{type(error).__name__}: {error}",
                }
                | ({"unlogged": unlogged} if unlogged else {}),
            )
        self._alarms.suppressed(self._world.monotonic())
        news = self._has_news()
        if self._is_over:
            return
        self._settle_here()
        self._arm(0.0 if news else RETRY_SECONDS)

    # --- beside everything else -----------------------------------------------------

    def seek(self, probe: Entity, error: StoreUnavailable) -> None:
        """Ask for this entity until the engine could be opened."""
        self._sought = probe
        logger.warning(
            "store_not_reached", extra={"error": type(error).__name__, "reason": str(error)}
        )
        self._settle_here()
        self._arm(0.0)

    async def begin(self) -> None:
        """Look for what an earlier process left: the engine has been opened here."""
        if self._sought is not None:
            self._sought = None
            logger.warning("store_reached")
        self._settle_here()
        if self._backlog.has_files:
            await self._world.offload(self._backlog.adopt)
        self._next_look = self._world.monotonic() + ADOPT_SECONDS
        self._arm(0.0 if self._has_news() or self._waiting else self._tick)

    def _settle_here(self) -> None:
        self._process = os.getpid()
        # async only: begin
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # what belonged to a loop that has ended is gone with it
            self._loop, self._timer, self._round = loop, None, None
        # async only: end

    async def round(self) -> float:
        """Replay what waits, look for files and check the alarms; return seconds until the next."""
        now = self._world.monotonic()
        self._sum_up(now)
        await self._tell_news()
        if self._sought is not None:
            await self._seek(self._sought)
        if now >= self._next_look and self._backlog.has_files:
            self._next_look = now + ADOPT_SECONDS
            await self._world.offload(self._backlog.adopt)
        if self._waiting and now >= self._next_replay:
            await self._replay_all()
            self._next_replay = self._world.monotonic() + RETRY_SECONDS
        await self._tell_news()  # what is lost has shown by now
        busy = self._waiting or self._sought is not None
        return min(self._tick, RETRY_SECONDS) if busy else self._tick

    async def _seek(self, probe: Entity) -> None:
        """Ask once; the opening of the engine ends the search: see `begin`."""
        try:
            await self._below.execute((Fetch(probe),))
        except StatewardError as error:
            if isinstance(error, StoreUnavailable) and not isinstance(error, AccessRefused):
                return
            name, why = type(error).__name__, f"{type(error).__name__}: {error}"
            if why != self._unusable:
                self._unusable = why
                logger.error("store_cannot_be_used", extra={"error": name, "reason": why})

    def _sum_up(self, now: float) -> None:
        if left_out := self._sparing.rest(now):
            logger.warning("memory_write_suppressed_again", extra={"unlogged": left_out})

    async def _replay_all(self, *, alone: bool = False) -> bool:
        """Replay all and return whether nothing waits; `alone`: also turns left to neighbours."""
        await self._look_around()
        # Those that could not be stored last time come last: they must not hold up the others.
        self._stuck = {e: why for e, why in self._stuck.items() if e in self._waiting}
        entities = [e for e in self._waiting if e not in self._stuck] + list(self._stuck)
        if not alone and self._near.count:
            entities = self._without_neighbours(entities)
        for start in range(0, len(entities), TOGETHER):
            group = entities[start : start + TOGETHER]
            # async only: begin
            done = await asyncio.gather(*[self._try(entity) for entity in group])
            # async only: end
            # sync only: done = [self._try(entity) for entity in group]
            if not any(done):
                return False
        return not self._waiting

    def _without_neighbours(self, entities: list[Entity]) -> list[Entity]:
        """Leave out threads whose first turn a neighbour keeps, unless it brings none for long.

        Several that replay one thread at once do no harm, but a multiple of the work.
        """
        heads = [(entity, self._backlog.head(entity)) for entity in entities]
        near = {head.op: entity for entity, head in heads if isinstance(head, NearRecord)}
        left = {op: self._left.get(op, 0) + 1 for op in near}
        due = [op for op, rounds in left.items() if rounds > LEFT_ROUNDS]
        self._left = left | dict.fromkeys(due, 0)
        others = set(near.values())
        return [e for e in entities if e not in others] + [near[op] for op in due]

    async def _try(self, entity: Entity) -> bool:
        try:
            deadline = self._world.monotonic() + self._policy.write_timeout
            await self._replayer.replay(entity, deadline)
        except StatewardError as error:
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, StoreUnavailable):
                why = ""
            elif self._stuck.get(entity) != why:
                logger.error("spill_not_replayed", extra={"thread_id": entity.id, "error": why})
            self._stuck.pop(entity, None)
            self._stuck[entity] = why
            return False
        return True

    def _has_news(self) -> bool:
        """Return whether an alarm was raised, or is over, that the hook was not called with."""
        self._news.extend(self._alarms.check(self._world.monotonic()))
        return bool(self._news)

    async def _tell_news(self) -> None:
        while self._has_news():
            await self._tell(self._news.popleft())

    async def _tell(self, event: AlarmEvent) -> None:
        # async only: begin
        if inspect.iscoroutinefunction(self._hook):
            try:
                await self._hook(event)
            except Exception as error:  # the user's own code
                failed(error, event)
            return
        # async only: end
        if self._hook is not None:
            await self._world.offload(tell, self._hook, event)

    def _arm(self, delay: float) -> None:
        """Begin the next round in so many seconds, or earlier."""
        if self._closed:
            return
        # async only: begin
        assert self._loop is not None
        when = self._loop.time() + delay
        if self._round is not None and not self._round.done():
            return  # it arms the timer itself
        if self._timer is not None:
            if self._due <= when:
                return
            self._timer.cancel()
        self._timer, self._due = self._loop.call_at(when, self._launch), when
        # async only: end
        # sync only: if self._ticker is None:
        # sync only:     try:
        # sync only:         self._ticker = self._world.ticker(self.round, "stateward-spill")
        # sync only:     except StoreUnavailable as error:  # a moment without threads
        # sync only:         went_wrong("stateward-spill", error)
        # sync only: elif delay < self._tick:
        # sync only:     self._ticker.wake()

    # async only: begin
    def _launch(self) -> None:
        assert self._loop is not None
        self._timer = None
        self._round = self._loop.create_task(self._run_round())

    async def _run_round(self) -> None:
        try:
            delay = await self.round()
        except Exception as error:
            went_wrong("stateward-spill", error)
            delay = AFTER_ERROR
        self._round = None
        self._arm(0.0 if self._news else delay)

    # async only: end

    async def close(self) -> None:
        """Replay for a few seconds what waits; then leave the rest to the next process."""
        if self._closed or self._process not in (0, os.getpid()):
            return  # after a fork it is the parent's
        self._closed = True
        # async only: begin
        if self._round is not None and self._loop is asyncio.get_running_loop():
            await asyncio.wait([self._round])
        if self._timer is not None:
            self._timer.cancel()
        # async only: end
        if self._ticker is not None:
            await self._world.offload(self._ticker.stop)
        deadline = self._world.monotonic() + CLOSING_SECONDS
        while self._waiting and not await self._replay_all(alone=True):
            if self._world.monotonic() + CLOSING_PAUSE >= deadline:
                break
            await self._world.pause(CLOSING_PAUSE)
        # From here on nothing must overtake what is left behind.
        self._waiting = {Entity("", "", ""): deque()}
        left = self._backlog.depth
        self._sum_up(math.inf)
        if left:
            lost = await self._world.offload(self._backlog.close)
            logger.warning("spill_left_behind", extra={"records": left, "lost": lost})
        await self._tell_news()
