"""The replay of spilled turns into the store: in order, once, and not against an erasure."""

from __future__ import annotations

import asyncio
import logging
import math

# sync only: import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

from msgspec.structs import replace

from stateward.codec import decode, encode
from stateward.engine import Capabilities
from stateward.errors import InvalidInput, StoreTooSlow
from stateward.kinds import ERASED, SPILL, erasure_of
from stateward.layers.layer import Layer
from stateward.layers.outage.asked import ASKED
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.late_answer import late_answer
from stateward.layers.outage.log_end import LogEnd, Searched
from stateward.layers.outage.neighbours import NearRecord
from stateward.layers.outage.spill import SpillRecord
from stateward.layers.redelivery import duplicate_of, log_of
from stateward.observe.concerned import Concerned
from stateward.observe.counters import Counters
from stateward.ops import (
    Append,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    Delete,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fetch,
    Fetched,
    Head,
    KeyReused,
    Log,
    LogAt,
    NotDroppedSince,
    NotYours,
    Op,
    Outcome,
    Put,
    Replace,
)
from stateward.world import World

logger = logging.getLogger("stateward.spill")

LATE = "late"  # the document of a thread that says which of its turns came late
MARKS_KEPT = 100
ENDS_KEPT = 10_000
LOOK_BACK = 50  # entries looked at first
CLOCK = "clock"  # a document that no thread has
CLOCKS = 16  # entities that are asked for the time in place of threads that do not exist
CLOCK_TRIES = 3
CLOCK_EXACT = 0.02  # seconds: exact enough
CLOCK_SECONDS = 60.0  # how long the difference of two clocks is relied on
REFUSALS = 3  # of a turn, while the store takes other writes, before it is set aside

Admit = Callable[[Entity, float], Coroutine[Any, Any, float]]
Ask = Callable[[Sequence[Op]], Coroutine[Any, Any, list[Outcome]]]


class Replayer:
    """Replays the records of one store, one after the other within a thread."""

    def __init__(
        self,
        below: Layer,
        backlog: Backlog,
        capabilities: Capabilities,
        world: World,
        counters: Counters,
        concerned: Concerned | None = None,
    ) -> None:
        self._below = below
        self._backlog = backlog
        self._capabilities = capabilities
        self._world = world
        self._counters = counters
        self._concerned = concerned or Concerned()
        self._least = self._most = 0.0  # seconds by which the engine's clock is ahead of ours
        self._measured: float | None = None
        self._ends: dict[Entity, LogEnd] = {}  # where our own replays ended
        self._searched: dict[str, Searched] = {}  # by op, of turns that wait
        self._refusals: dict[str, int] = {}  # the same
        self.admit: Admit | None = None  # on a volume: what lives elsewhere is kept, not sent
        self._locks: WeakValueDictionary[Entity, asyncio.Lock] = WeakValueDictionary()

    async def replay(self, entity: Entity, deadline: float) -> None:
        """Replay all records of this entity. Raises `StoreUnavailable`; unsent records stay."""
        lock = self._locks.setdefault(entity, asyncio.Lock())
        # async only: begin
        try:
            async with asyncio.timeout(max(0.0, deadline - self._world.monotonic())):
                await lock.acquire()
        except TimeoutError:
            raise _still_going(entity) from None
        # async only: end
        # sync only: if not lock.acquire(timeout=max(0.0, deadline - self._world.monotonic())):
        # sync only:     raise _still_going(entity)
        try:
            await self._replay_in_order(entity, deadline)
        finally:
            lock.release()

    async def _replay_in_order(self, entity: Entity, deadline: float) -> None:
        place: LogEnd | None = None
        backlog, near = self._backlog, self._backlog.neighbours
        while True:
            if near.stamp != near.seen:
                await self._world.offload(backlog.look)
            record = backlog.head(entity)
            if isinstance(record, NearRecord):
                record = await self._world.offload(backlog.read, record)
                if record is None:
                    continue
            if record is None:
                return
            if self._world.monotonic() >= deadline:
                raise _still_going(entity)
            end = deadline if self.admit is None else await self.admit(entity, deadline)
            ask = partial(self._below.execute, deadline=end)
            place = await self._replay_one(ask, record, place)
            if place is not None:
                self._end_at(entity, place)

    def _end_at(self, entity: Entity, place: LogEnd) -> None:
        """Note that this log ends with a turn of ours, written before the ones that come next.

        It may have been stored later than the next one was written: that makes nothing late.
        """
        self._ends.pop(entity, None)
        self._ends[entity] = place
        if len(self._ends) > ENDS_KEPT:
            del self._ends[next(iter(self._ends))]

    async def _replay_one(
        self, ask: Ask, record: SpillRecord, place: LogEnd | None
    ) -> LogEnd | None:
        """Replay a record, and return the end of the log behind it; None if that is not known."""
        if self._world.now() - record.at > self._backlog.max_age:
            await self._discard(record, "expired")
            return place
        await self._measure_clock(ask, record)
        written = record.at + self._least
        if place is None or record.asked is not None:
            place = await self._look(ask, record, written)
            if place is None:
                return None
        answer = await late_answer(ask, record, place.asked, self._world.new_op())
        writes = answer.writes
        marks = place.marks
        late = place.newest > record.at
        if late:
            first, last = place.version + 1, place.version + len(answer.bodies)
            marks = [*marks, {"first": first, "last": last, "written": written}][-MARKS_KEPT:]
            writes = (*writes, Put(LATE, encode({"turns": marks}, "the marks")))
        undropped = written if record.undropped is None else min(written, record.undropped)
        as_seen = (NotDroppedSince(undropped), LogAt(place.version, place.stamp))
        checks: tuple[Check, ...] = (*as_seen, *answer.checks)
        commit = Commit(record.entity, record.op, writes, checks, record.owner, record.retain)
        try:
            outcome = (await ask((commit,)))[0]
        except InvalidInput as error:
            await self._refuse(ask, record, error)
            return None
        match outcome:
            case Applied(created=True) if await self._was_erased(ask, record, written):
                await self._take_back(ask, record, outcome)
                return None
            case Applied():
                if late:
                    self._came_late(record, outcome.version)
                await self._stored(record)
                newest = max(place.newest, record.at)
                return LogEnd(outcome.version, outcome.stamp, newest, marks)
            case Duplicate():  # this very append, or one with its key, had arrived after all
                if outcome.head.stamp == record.op:
                    end = LogEnd(outcome.head.version, record.op, record.at, place.marks)
                    self._end_at(record.entity, end)
                await self._stored(record)
            case Conflict(failed=NotDroppedSince()):
                await self._discard(record, "erased")
            case Conflict():
                pass  # somebody else wrote meanwhile: look again
            case KeyReused() if record.takes_first or await self._is_redelivered(
                ask, record, outcome
            ):
                await self._stored(record)
            case _:
                await self._discard(record, f"refused: {type(outcome).__name__}")
        return None

    async def _refuse(self, ask: Ask, record: SpillRecord, error: InvalidInput) -> None:
        """Set a turn aside that is refused again and again though the store takes other writes.

        Repeating it for a day would hold up its thread. Where every write is refused, by a key
        without the right or by a proxy that leads nowhere, the turns are not what is wrong.
        """
        await ask((self._harmless_write(record.entity),))
        refusals = self._refusals.get(record.op, 0) + 1
        if refusals < REFUSALS:
            self._refusals[record.op] = refusals
            raise _still_going(record.entity) from error
        await self._discard(record, f"refused: {type(error).__name__}: {error}")

    async def _is_redelivered(self, ask: Ask, record: SpillRecord, refused: KeyReused) -> bool:
        """Return whether the key stands for the same messages, their names in another order."""
        append = Append(record.bodies, record.key)
        fetch = Fetch(record.entity, record.owner, log_of(refused, append))
        fetched = (await ask((fetch,)))[0]
        return isinstance(fetched, Fetched) and bool(duplicate_of(refused, append, fetched))

    async def _look(self, ask: Ask, record: SpillRecord, written: float) -> LogEnd | None:
        """Return where the log ends; None if the record is not to be sent any more."""
        entity = record.entity
        tail = Fetch(entity, None, Log(last=LOOK_BACK, details=True), documents=(LATE, ASKED))
        fetched = (await ask((tail,)))[0]
        assert isinstance(fetched, Fetched)
        if await self._was_erased(ask, record, written):
            await self._discard(record, "erased")
            return None
        head, entries = fetched.head, fetched.entries
        marks = decode(fetched.documents[LATE].json)["turns"] if LATE in fetched.documents else []
        if await self._is_there(ask, record, fetched, written):
            if head.stamp == record.op:
                self._end_at(entity, LogEnd(head.version, head.stamp, record.at, marks))
            await self._stored(record)
            return None
        asked, end = fetched.documents.get(ASKED), self._ends.get(entity)
        if end is not None and (end.version, end.stamp) == (head.version, head.stamp):
            return end._replace(asked=asked)
        return LogEnd(head.version, head.stamp or None, self._newest(entries), marks, asked)

    def _newest(self, entries: Sequence[Entry]) -> float:
        """Return when the newest entry was written, which may be long before it was stored."""
        newest = -math.inf
        for entry in reversed(entries):
            accepted = self._backlog.neighbours.accepted(entry.stamp)
            if accepted is None:
                return max(newest, entry.at - self._most)
            newest = max(newest, accepted)
        return newest

    async def _is_there(
        self, ask: Ask, record: SpillRecord, fetched: Fetched, written: float
    ) -> bool:
        """Return whether a turn had arrived after all, though its op may be forgotten by now.

        On a busy thread that may be soon: a store remembers so many ops, however young they are.
        The entries that were searched in vain are remembered: a search that takes longer than one
        try may take continues in the next.
        """
        life, top = fetched.head.life, fetched.head.version
        while True:
            if any(entry.stamp == record.op for entry in fetched.entries):
                return True
            if not fetched.entries or fetched.entries[0].at < written:
                return False
            low = fetched.entries[0].seq
            searched = self._searched.get(record.op)
            if searched is None or searched.life != life:
                self._searched[record.op] = Searched(life, low, top)
            elif low <= searched.high + 1:  # from here on down it was looked for before
                low = min(low, searched.low)
                self._searched[record.op] = Searched(life, low, top)
            page = self._capabilities.page
            older = Log(upto=low - 1, last=page, details=True)
            outcome = (await ask((Fetch(record.entity, None, older),)))[0]
            assert isinstance(outcome, Fetched)
            fetched = outcome

    async def _was_erased(self, ask: Ask, record: SpillRecord, written: float) -> bool:
        if not record.owner:
            return False  # a thread that belongs to nobody is deleted, not erased
        mark = erasure_of(record.entity.namespace, record.owner)
        fetched = (await ask((Fetch(mark, documents=(ERASED,)),)))[0]
        assert isinstance(fetched, Fetched)
        erased = fetched.documents.get(ERASED)
        return erased is not None and erased.updated >= written

    async def _take_back(self, ask: Ask, record: SpillRecord, stored: Applied) -> None:
        """Remove a turn whose user was erased meanwhile: the erasure may have missed the thread."""
        entity, new_id = record.entity, self._world.new_id
        unchanged = (LogAt(stored.version, stored.stamp),)
        outcome = (await ask((Commit(entity, new_id(), (Drop(),), unchanged),)))[0]
        while isinstance(outcome, Conflict):  # begun anew meanwhile: only our entries go
            where = Log(upto=stored.version, last=len(record.bodies), details=True)
            fetched = (await ask((Fetch(entity, None, where),)))[0]
            assert isinstance(fetched, Fetched)
            gone = {each.seq: None for each in fetched.entries if each.stamp == record.op}
            if not gone:  # with the conversation that they were in
                break
            as_read = (CommitsAt(fetched.head.commits),)
            outcome = (await ask((Commit(entity, new_id(), (Replace(gone),), as_read),)))[0]
        await self._discard(record, "erased")

    async def _measure_clock(self, ask: Ask, record: SpillRecord) -> None:
        """Measure how far the engine's clock is from ours: erasures are timed by that clock.

        In doubt what was erased stays erased, and a turn is not late. It is read off a commit that
        changes nothing, to the very entity if it exists: of several servers only its own is asked.
        """
        now = self._world.monotonic()
        if self._measured is not None and now - self._measured < CLOCK_SECONDS:
            return
        entity, owner = record.entity, record.owner
        fetched = (await ask((Fetch(entity, owner),)))[0]
        head = fetched.head if isinstance(fetched, Fetched) else Head()
        closest = float("inf")
        for _ in range(CLOCK_TRIES):  # one that was slow, or tried again inside, says little
            commit = self._harmless_write(entity)
            if head.exists:
                unchanged = (CommitsAt(head.commits),)
                commit = Commit(entity, self._world.new_id(), (Delete(CLOCK),), unchanged, owner)
            asked = self._world.now()
            outcome = (await ask((commit,)))[0]
            answered = self._world.now()
            if isinstance(outcome, Conflict | NotYours):  # others wrote meanwhile, and may again
                head = Head()
                continue
            assert isinstance(outcome, Applied | Duplicate)
            at = outcome.at if isinstance(outcome, Applied) else outcome.first.at
            if answered - asked < closest:
                closest = answered - asked
                self._least, self._most = at - answered, at - asked
            if closest <= CLOCK_EXACT:
                break
            head = replace(head, commits=head.commits + 1)
        self._measured = now

    def _harmless_write(self, beside: Entity) -> Commit:
        spare = Entity(beside.namespace, SPILL, f"clock-{crc32(beside.id.encode()) % CLOCKS}")
        return Commit(spare, self._world.new_id(), (Delete(CLOCK),), retain=CLOCK_SECONDS)

    def _came_late(self, record: SpillRecord, version: int) -> None:
        self._counters.late += 1
        self._concerned.note("late", record.entity)
        logger.warning(
            "memory_write_late",
            extra={
                "thread_id": record.entity.id,
                "first": version - len(record.bodies) + 1,
                "last": version,
                "correlation_id": record.correlation,
            },
        )

    async def _stored(self, record: SpillRecord) -> None:
        if self._forget(record):
            self._counters.replayed += 1
            await self._settle(record)

    async def _discard(self, record: SpillRecord, why: str) -> None:
        file = ""
        if why.startswith("refused") and self._backlog.has_files:
            try:
                file = await self._world.offload(self._backlog.set_aside, record)
            except OSError as error:
                raise _still_going(record.entity) from error
        if self._forget(record):
            if why == "erased":
                self._counters.erased += 1
            elif why == "expired":
                self._counters.expired += 1
            else:
                self._counters.refused += 1
            logger.warning(
                "memory_write_discarded",
                extra={
                    "thread_id": record.entity.id,
                    "why": why,
                    "correlation_id": record.correlation,
                }
                | ({"file": file} if file else {}),
            )
            await self._settle(record)

    def _forget(self, record: SpillRecord) -> bool:
        """Forget a record, and return whether it was ours: a neighbour counts its own."""
        self._searched.pop(record.op, None)
        self._refusals.pop(record.op, None)
        return self._backlog.forget(record)

    async def _settle(self, record: SpillRecord) -> None:
        if self._backlog.has_files:
            await self._world.offload(self._backlog.settle, (record.op,))


def _still_going(entity: Entity) -> StoreTooSlow:
    return StoreTooSlow(
        f"turns of the {entity.kind} {entity.id!r} that were spilled have not reached the store "
        "yet; try again",
        applied="no",
    )
