"""Several parts of an index read as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.plans import Plan

T = TypeVar("T")

LARGEST = 1000  # members of an index looked at in one round
SPARE = 8  # that each part is asked for beyond twice its share: one may have more of a page


class Strand(Generic[T]):
    """How far one part has been read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0  # members read, whether or not they were wanted
        self.last: Any = None  # where that ended, as the reader says
        self.ended = False
        self.waiting: deque[tuple[Any, T]] = deque()


class Reading(NamedTuple, Generic[T]):
    """What one part has answered: how many members, what of them is wanted, each after its rank."""

    size: int
    wanted: list[tuple[Any, T]]
    last: Any
    ended: bool = False  # nothing that follows is wanted, though there may be more


class Merge(Generic[T]):
    """What the parts have, in one order. A round asks every part of which nothing is left."""

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
        """The next ones, at least one unless there are no more."""
        while not self._ready:
            asked = [one for one in self._strands if not one.waiting and not one.ended]
            if not asked and not any(one.waiting for one in self._strands):
                break
            if asked:
                replies = yield [self._ask(one, self._size) for one in asked]
                for one, reply in zip(asked, replies, strict=True):
                    self._take_in(one, self._read(one, reply))
                self._size = min(2 * self._size, self._largest)
            self._order()
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def _take_in(self, one: Strand[T], told: Reading[T]) -> None:
        one.count += told.size
        one.ended = told.ended or told.size < self._size
        one.last = told.last
        one.waiting.extend(told.wanted)

    def _order(self) -> None:
        """What comes before all that has not been read yet is ready."""
        going = [one for one in self._strands if not one.ended]
        if any(not one.waiting for one in going):
            return
        ends = [one.waiting[-1][0] for one in going]
        bound = (max(ends) if self._reverse else min(ends)) if ends else None
        found = []
        for one in self._strands:
            waiting = one.waiting
            while waiting and (
                bound is None
                or (waiting[0][0] >= bound if self._reverse else waiting[0][0] <= bound)
            ):
                found.append(waiting.popleft())
        found.sort(key=lambda ranked: ranked[0], reverse=self._reverse)
        self._ready.extend(item for _, item in found)
