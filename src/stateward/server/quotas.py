"""Quotas of stored bytes by namespace: how much a tenant may keep before its writes are refused.

A namespace is measured by reading it, when it is first written to, and again the sooner the closer
it is to its quota; in between, what this process writes is added. Reads and deletions always work.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from stateward.codec import check_id
from stateward.errors import InvalidInput, StatewardError, TooLarge
from stateward.layers.stack import Stack
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Op,
    Outcome,
    Put,
    Replace,
    Restore,
    Write,
)
from stateward.world import World

PAGE = 100  # entities, and entries of one, that are read together
LONGEST = 3600.0  # seconds between two measurements of a namespace that is far from its quota

logger = logging.getLogger("stateward.service")


class QuotaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many bytes a namespace may keep. None: any number."""

    stored_bytes: int | None = None  # of each namespace
    namespaces: Mapping[str, int] = {}  # of some, instead
    every_seconds: float = 60.0  # between two looks, which of them have to be measured

    def __post_init__(self) -> None:
        for name in self.namespaces:
            check_id(name, "a namespace")
        sizes = [*self.namespaces.values(), *([] if not self.stored_bytes else [self.stored_bytes])]
        if self.stored_bytes == 0 or any(size < 1 for size in sizes):
            raise InvalidInput("a quota is a number of bytes above 0")
        if not 0.01 <= self.every_seconds <= LONGEST:
            raise InvalidInput(f"every_seconds is from 0.01 to 3600, not {self.every_seconds:g}")

    @property
    def limits(self) -> bool:
        """Return whether any namespace has a quota."""
        return bool(self.stored_bytes or self.namespaces)

    def of(self, namespace: str) -> int | None:
        """Return the quota of a namespace."""
        return self.namespaces.get(namespace, self.stored_bytes)


@dataclass
class Usage:
    """What a namespace keeps, as far as this process knows."""

    bytes: int = 0
    measured: float | None = None  # when; None: not yet
    is_full: bool = False


class Quotas:
    """Refuses writes to namespaces that keep more than they may."""

    def __init__(self, settings: QuotaSettings, stack: Stack, world: World) -> None:
        self._settings = settings
        self._stack = stack
        self._world = world
        self._usage: dict[str, Usage] = {}
        self.counts: Counter[str] = Counter({"refused": 0, "exceeded": 0})

    def check(self, commit: Commit) -> None:
        """Refuse a commit that makes a namespace grow that has used up its quota."""
        namespace = commit.entity.namespace
        usage = self._usage.get(namespace)
        if usage is None or not usage.is_full or not size_of(commit.writes):
            return
        self.counts["refused"] += 1
        raise TooLarge(
            f"the namespace {namespace!r} keeps {usage.bytes:,} bytes, and its quota is "
            f"{self._settings.of(namespace):,}: delete or erase what is not needed, or have the "
            "quota raised"
        )

    def count(self, ops: Sequence[Op], outcomes: Sequence[Outcome]) -> None:
        """Add what was written."""
        for op, outcome in zip(ops, outcomes, strict=True):
            if isinstance(op, Commit) and isinstance(outcome, Applied):
                namespace = op.entity.namespace
                if self._settings.of(namespace) is not None:
                    self._usage.setdefault(namespace, Usage()).bytes += size_of(op.writes)

    async def run(self) -> None:
        """Measure what is due, until it is cancelled."""
        while True:
            await asyncio.sleep(self._settings.every_seconds)
            try:
                await self.look()
            except StatewardError as error:  # the store does not answer: the next round tries
                logger.debug("quotas_not_measured", extra={"error": type(error).__name__})

    async def look(self) -> None:
        """Measure the namespaces that are due, and decide which of them are full."""
        for namespace, usage in list(self._usage.items()):
            most = self._settings.of(namespace)
            assert most is not None
            if self._is_due(usage, most):
                began = usage.bytes
                size = await self._measure(namespace)
                usage.bytes = size + usage.bytes - began  # with what was written meanwhile
                usage.measured = self._world.monotonic()
            was_full, usage.is_full = usage.is_full, usage.bytes >= most
            if usage.is_full and not was_full:
                self.counts["exceeded"] += 1
                fields = {"namespace": namespace, "bytes": usage.bytes, "quota": most}
                logger.warning("quota_exceeded", extra={**fields, "of": namespace})

    def _is_due(self, usage: Usage, most: int) -> bool:
        if usage.measured is None:
            return True
        share = min(1.0, usage.bytes / most)
        wait = max(self._settings.every_seconds, LONGEST * (1.0 - share))
        return self._world.monotonic() - usage.measured >= wait

    async def _measure(self, namespace: str) -> int:
        total, after = 0, None
        while True:
            page = List(namespace, limit=PAGE, expired=True, after=after)
            (listed,) = await self._stack.execute([page])
            assert isinstance(listed, Listed)
            total += await self._size_of_all([each.entity for each in listed.entities])
            after = listed.next
            if after is None:
                return total

    async def _size_of_all(self, entities: Sequence[Entity]) -> int:
        total = 0
        reads = [Fetch(each, log=Log(first=PAGE), all_documents=True) for each in entities]
        while reads:
            outcomes = await self._stack.execute(reads[:PAGE])
            following: list[Fetch] = []
            for read, outcome in zip(reads, outcomes, strict=False):
                if not isinstance(outcome, Fetched):
                    continue
                total += len(outcome.lines.encode())
                total += sum(len(value.json.encode()) for value in outcome.documents.values())
                if outcome.count == PAGE:
                    rest = Log(outcome.first + PAGE - 1, first=PAGE)
                    following.append(Fetch(read.entity, log=rest))
            reads = reads[PAGE:] + following
        return total


def size_of(writes: Sequence[Write]) -> int:
    """Return how many bytes of messages and documents these writes bring."""
    size = 0
    for write in writes:
        if isinstance(write, Append):
            size += sum(len(body.encode()) for body in write.bodies)
        elif isinstance(write, Put):
            size += len(write.value.encode())
        elif isinstance(write, Replace):
            size += sum(len(body.encode()) for body in write.entries.values() if body is not None)
        elif isinstance(write, Restore):
            size += sum(len(entry.body.encode()) for entry in write.entries)
            size += sum(len(value.json.encode()) for value in write.documents.values())
    return size
