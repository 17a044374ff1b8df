"""The memory of a cache: parts of entities, and how they are brought up to date. No I/O.

Nothing is ever served without asking: what is remembered only makes the question smaller. Documents
are asked for with the versions and stamps that are cached, a thread's newest messages after the
version and stamp that are cached. The answer tells whether what is remembered still holds:

- another history (erased and begun anew, restored, rewound) is a reset, or has another life;
- `commits` counts every commit to an entity. If all that happened since are the appends that came
  with the answer, no older message was edited or removed; otherwise all is read again. (Nothing in
  Stateward edits a thread in the same commit that appends to it.)
- What cannot be told is a failover that lost an edit and had as many other commits since. So all is
  read again from time to time, whatever the answers say.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from stateward.codec import check_count, check_seconds
from stateward.errors import InvalidInput
from stateward.kinds import CACHED
from stateward.observe.counters import Counters
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Drop,
    Entity,
    Fetch,
    Fetched,
    Head,
    Log,
    Op,
    Outcome,
    Replace,
    Restore,
    Trim,
    Value,
)

MOST_DOUBT = 7  # questions after a vain one that are asked in full
SHORT = 20  # a log of no more messages is remembered whole while this process appends to it
OVERHEAD = 500  # bytes that an entry takes besides its texts, roughly


class Cache:
    """Remember the newest messages of threads and users' documents, in this process.

    `size` bounds the memory in bytes of text, for each engine of the store; the least recently used
    is evicted first. What was last read in full more than `seconds` ago is evicted, too.
    """

    def __init__(self, *, size: int = 32 << 20, seconds: float = 600.0) -> None:
        self.size = check_count(size, "size")
        if not check_seconds(seconds, "seconds") > 0:
            raise InvalidInput(f"seconds is a number above 0, not {seconds!r}")
        self.seconds = float(seconds)
        self.lock = threading.Lock()  # one for all engines of a store: they share the counters


class Tail(Struct, frozen=True):
    """A log's newest entries without a gap, and the head they were read with."""

    bodies: tuple[str, ...]
    head: Head
    lines: str = ""  # the bodies joined, where they came so


class CachedEntity(Struct, frozen=True):
    """The remembered part of one entity."""

    tail: Tail | None = None
    documents: Mapping[str, Value] = {}
    size: int = 0
    at: float = 0.0  # when all of it was read
    news: bool = False  # somebody else appends: ask for the new messages right away
    doubt: int = 0  # grows with every vain question
    skip: int = 0  # questions to be asked in full before the next try


class CacheLookup(Struct, frozen=True):
    """One operation as it is asked, and the cached entity that the answer will complete."""

    asked: Any
    cached: CachedEntity | None = None


class CacheMemory:
    """The memory of one cache over one engine. Any thread may call."""

    def __init__(self, cache: Cache, counters: Counters) -> None:
        self._cache = cache
        self._counters = counters
        self._entries: OrderedDict[Entity, CachedEntity] = OrderedDict()
        self._size = 0
        self._lock = cache.lock

    # --- before a round trip --------------------------------------------------------

    def plan(self, ops: Sequence[Op], now: float) -> list[CacheLookup]:
        """Return what to ask instead of each of `ops`."""
        with self._lock:
            return [self._plan(op, now) for op in ops]

    def _plan(self, op: Op, now: float) -> CacheLookup:
        if not _is_cacheable(op):
            return CacheLookup(op)
        assert isinstance(op, Fetch)
        cached = self._entries.get(op.entity)
        if cached is None or cached.at <= now - self._cache.seconds:
            return CacheLookup(op)
        if cached.skip:
            self._entries[op.entity] = msgspec.structs.replace(cached, skip=cached.skip - 1)
            return CacheLookup(op)
        log = op.log
        tail = cached.tail
        if log is not None and tail is not None and _reaches(tail, log):
            log = _news(tail, log) if cached.news else None
        names = cached.documents if op.all_documents else set(op.documents) & set(cached.documents)
        versions = {n: (cached.documents[n].version, cached.documents[n].stamp) for n in names}
        if log is op.log and not versions:
            return CacheLookup(op)
        asked = msgspec.structs.replace(op, log=log, known=versions or None)
        return CacheLookup(asked, cached)

    # --- after it -------------------------------------------------------------------

    def settle(
        self,
        ops: Sequence[Op],
        plans: Sequence[CacheLookup],
        outcomes: Sequence[Outcome],
        now: float,
    ) -> tuple[list[Outcome], list[int]]:
        """Return outcomes as for `ops`, and the places of those to be asked again, in full."""
        results: list[Outcome] = []
        again: list[int] = []
        with self._lock:
            for at, (op, plan, outcome) in enumerate(zip(ops, plans, outcomes, strict=True)):
                if isinstance(op, Commit):
                    self._written(op, outcome)
                elif _is_cacheable(op):
                    assert isinstance(op, Fetch)
                    merged = self._answered(op, plan, outcome, now)
                    if merged is None:
                        again.append(at)
                    else:
                        outcome = merged
                results.append(outcome)
            self._forget_old(now)
        return results, again

    def _written(self, commit: Commit, outcome: Outcome) -> None:
        """Follow what this process writes itself; what it removes does not stay in memory here.

        Whether nobody else wrote in between shows when the head is next asked for.
        """
        cached = self._entries.get(commit.entity)
        if cached is None:
            return
        appended: tuple[str, ...] = ()
        for write in commit.writes:
            if isinstance(write, Drop | Restore | Replace | Trim):
                self._evict(commit.entity)
                return
            if isinstance(write, Append):
                appended = write.bodies
        if type(outcome) is not Applied or cached.tail is None:
            return
        head, bodies = cached.tail.head, cached.tail.bodies
        if outcome.version == head.version + len(appended):
            head = msgspec.structs.replace(
                head,
                version=outcome.version,
                stamp=outcome.stamp,
                updated=outcome.at,
                live=head.live + len(appended),
                commits=head.commits + 1,
            )
            whole = len(bodies) == cached.tail.head.live  # a short log is remembered whole
            most = max(len(bodies), SHORT) if whole else len(bodies)
            tail = Tail((bodies + appended)[-most:] if appended else bodies, head)
            self._keep(commit.entity, _sized(msgspec.structs.replace(cached, tail=tail)))

    def _answered(
        self, op: Fetch, plan: CacheLookup, outcome: Outcome, now: float
    ) -> Outcome | None:
        counters = self._counters
        if not isinstance(outcome, Fetched) or not outcome.head.exists:
            self._evict(op.entity)
            counters.cache_misses += 1
            if isinstance(outcome, Fetched):
                return Fetched(outcome.head)
            return outcome
        cached = plan.cached
        if cached is None:
            counters.cache_misses += 1
            tail = None if op.log is None else _tail_of(outcome)
            before = msgspec.structs.replace(self._entries.get(op.entity) or CachedEntity(), at=now)
            self._remember(op, outcome, tail, before)
            return outcome
        if not plan.asked.documents and not plan.asked.all_documents and plan.asked.log is None:
            unchanged = _unchanged(op, cached, outcome.head)
            if unchanged is not None:
                counters.cache_hits += 1
                if op.entity in self._entries:
                    self._entries.move_to_end(op.entity)
                return unchanged
        merged = _merged(op, plan, cached, outcome)
        if merged is None:
            counters.cache_vain += 1
            self._keep(op.entity, _after_vain(plan, cached, outcome.head))
            return None
        counters.cache_hits += 1
        fetched, tail = merged
        news = cached.news and bool(outcome.entries)
        self._remember(op, fetched, tail, msgspec.structs.replace(cached, doubt=0, news=news))
        return fetched

    def _remember(self, op: Fetch, full: Fetched, tail: Tail | None, before: CachedEntity) -> None:
        """Keep what was read, and the cached documents that were not asked for."""
        if op.log is None:
            tail = before.tail
        documents = dict(full.documents)
        if not op.all_documents:
            asked = set(op.documents)
            others = {n: v for n, v in before.documents.items() if n not in asked}
            documents = others | documents
        cached = msgspec.structs.replace(before, tail=tail, documents=documents)
        self._keep(op.entity, _sized(cached))

    def _keep(self, entity: Entity, cached: CachedEntity) -> None:
        self._forget(entity)
        self._entries[entity] = cached
        self._size += cached.size
        self._counters.cache_bytes += cached.size
        self._counters.cache_entities += 1
        while self._size > self._cache.size:
            self._evict(next(iter(self._entries)))

    def _forget_old(self, now: float) -> None:
        while self._entries:
            entity, oldest = next(iter(self._entries.items()))
            if oldest.at > now - self._cache.seconds:
                return
            self._evict(entity)

    def _evict(self, entity: Entity) -> None:
        if self._forget(entity):
            self._counters.cache_evictions += 1

    def _forget(self, entity: Entity) -> bool:
        cached = self._entries.pop(entity, None)
        if cached is None:
            return False
        self._size -= cached.size
        self._counters.cache_bytes -= cached.size
        self._counters.cache_entities -= 1
        return True


def _is_cacheable(op: Op) -> bool:
    """The newest messages of a thread, or documents, as they are."""
    if type(op) is not Fetch or op.known is not None or op.entity.kind not in CACHED:
        return False
    log = op.log
    if log is None:
        return op.all_documents or bool(op.documents)
    return (
        log.last is not None
        and not (log.after or log.details or log.whole)
        and log.upto is None
        and log.stamp is None
    )


def _reaches(tail: Tail, log: Log) -> bool:
    """Return whether the remembered messages are enough, should nothing have changed."""
    assert log.last is not None
    return len(tail.bodies) >= log.last or len(tail.bodies) == tail.head.live


def _sized(cached: CachedEntity) -> CachedEntity:
    size = OVERHEAD + sum(len(value.json) for value in cached.documents.values())
    if cached.tail is not None:
        size += sum(map(len, cached.tail.bodies))
    return msgspec.structs.replace(cached, size=size)


def _unchanged(op: Fetch, cached: CachedEntity, now: Head) -> Fetched | None:
    """Return the everyday answer: nothing has happened since."""
    tail = cached.tail
    if tail is None or op.log is None or op.log.last is None:
        return None
    if not _only_appended(tail.head, now, 0, 0):
        return None
    shown = tail.bodies[-op.log.last :]
    lines = tail.lines if tail.lines and len(shown) == len(tail.bodies) else "\n".join(shown)
    first = now.version - len(shown) + 1 if shown else 0
    return Fetched(now, lines, len(shown), first, truncated=now.base > 0)


def _news(tail: Tail, log: Log) -> Log:
    return Log(tail.head.version, last=log.last, stamp=tail.head.stamp, details=True)


def _after_vain(plan: CacheLookup, cached: CachedEntity, head: Head) -> CachedEntity:
    """How to ask again: for the news if there are some, otherwise in full."""
    if plan.asked.log is None and cached.tail is not None:
        before = cached.tail.head
        if head.life == before.life and head.version > before.version:
            return msgspec.structs.replace(cached, news=True)
    doubt = min(2 * cached.doubt + 1, MOST_DOUBT)
    return msgspec.structs.replace(cached, doubt=doubt, skip=doubt + 1)


def _merged(
    op: Fetch, plan: CacheLookup, cached: CachedEntity, fetched: Fetched
) -> tuple[Fetched, Tail | None] | None:
    """Return the answer to `op`, and the tail to remember; None if they cannot be told."""
    documents = dict(fetched.documents)
    for name in fetched.unchanged:
        documents[name] = cached.documents[name]
    if fetched.unchanged and op.all_documents:
        documents = dict(sorted(documents.items(), key=lambda item: item[0].encode()))
    head = fetched.head
    if plan.asked.log is op.log:
        whole = msgspec.structs.replace(fetched, documents=documents, unchanged=())
        return whole, None if op.log is None else _tail_of(whole)
    tail = cached.tail
    if fetched.reset or tail is None or op.log is None or op.log.last is None:
        return None
    last = op.log.last
    bodies = tuple(entry.body for entry in fetched.entries)
    if len(bodies) < last:
        stamps = {entry.stamp for entry in fetched.entries}
        if not _only_appended(tail.head, head, len(bodies), len(stamps)):
            return None
        most = max(last, len(tail.bodies))
        bodies = (tail.bodies + bodies)[-most:] if bodies else tail.bodies
    shown = bodies[-last:]
    first = head.version - len(shown) + 1 if shown else 0
    if fetched.count == last:
        first = fetched.entries[0].seq
    truncated = head.base > 0
    lines = "\n".join(shown)
    whole = Fetched(head, lines, len(shown), first, documents=documents, truncated=truncated)
    gapless = not shown or first == head.version - len(shown) + 1
    whole_tail = lines if len(shown) == len(bodies) else ""
    return whole, Tail(bodies, head, whole_tail) if gapless else None


def _only_appended(before: Head, now: Head, entries: int, appends: int) -> bool:
    """Return whether nothing happened to the entity in between but these appends."""
    return (
        now.life == before.life
        and now.commits == before.commits + appends
        and now.version == before.version + entries
        and now.live == before.live + entries
        and now.base == before.base
        and (entries > 0 or (now.updated, now.stamp) == (before.updated, before.stamp))
    )


def _tail_of(fetched: Fetched) -> Tail | None:
    """Return the newest entries, if none between them is gone."""
    head = fetched.head
    if fetched.count and head.version - fetched.first + 1 != fetched.count:
        return None
    return Tail(tuple(fetched.lines.split("\n")) if fetched.count else (), head, fetched.lines)
