"""Several parts of an index read as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.plans import Plan

T = TypeVar("T")

LARGEST = 1000  # members of an index looked at in one round
SPARE = 8  # items read beyond twice each part's share, which may be exceeded


class Strand(Generic[T]):
    """Progress of reading one part."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0  # members read, whether or not they were wanted
        self.last: Any = None  # end of the last reading, in the reader's terms
        self.ended = False
        self.waiting: deque[tuple[Any, T]] = deque()


class Reading(NamedTuple, Generic[T]):
    """The answer of one part: its size, and the wanted members, each after its rank."""

    size: int
    wanted: list[tuple[Any, T]]
    last: Any
    ended: bool = False  # nothing that follows is wanted, though there may be more


class Merge(Generic[T]):
    """The members of all parts in one order. A round asks every part that has none left."""

    def __init__(
        self,
        parts: int,
        size: int,
        reverse: bool,
        ask: Callable[[Strand[T], int], PipelineStep],
        read: Callable[[Strand[T], Any], Reading[T]],
        largest: int = LARGEST,
    ) -> None:
        self._strands = [Strand[T](number) for number in range(parts)]
        self._size = size if parts == 1 else min(size, 2 * size // parts + SPARE)
        self._largest = largest
        self._reverse = reverse
        self._ask = ask
        self._read = read
        self._ready: deque[T] = deque()

    def take(self, most: int) -> Plan[list[T]]:
        """Return the next items, at least one unless there are no more."""
        while not self._ready:
            due = [strand for strand in self._strands if not strand.waiting and not strand.ended]
            if not due and not any(strand.waiting for strand in self._strands):
                break
            if due:
                replies = yield [self._ask(strand, self._size) for strand in due]
                for strand, reply in zip(due, replies, strict=True):
                    self._take_in(strand, self._read(strand, reply))
                self._size = min(2 * self._size, self._largest)
            self._order()
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def _take_in(self, one: Strand[T], told: Reading[T]) -> None:
        one.count += told.size
        one.ended = told.ended or told.size < self._size
        one.last = told.last
        one.waiting.extend(told.wanted)

    def _order(self) -> None:
        """Make ready the members that come before all that has not been read yet."""
        going = [strand for strand in self._strands if not strand.ended]
        if any(not strand.waiting for strand in going):
            return
        ends = [strand.waiting[-1][0] for strand in going]
        bound = (max(ends) if self._reverse else min(ends)) if ends else None
        ready = []
        for strand in self._strands:
            waiting = strand.waiting
            while waiting and (
                bound is None
                or (waiting[0][0] >= bound if self._reverse else waiting[0][0] <= bound)
            ):
                ready.append(waiting.popleft())
        ready.sort(key=lambda ranked: ranked[0], reverse=self._reverse)
        self._ready.extend(item for _, item in ready)
