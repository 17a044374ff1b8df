"""What goes into a batch, and how a failed one is taken apart. No I/O, used by both colours."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Protocol, TypeVar

from stateward.errors import StoreMisused, StoreTooSlow, StoreUnavailable
from stateward.ops import Commit, Entity, Op


class Queued(Protocol):
    """What one caller asked for."""

    ops: Sequence[Op]
    sent: bool


Q = TypeVar("Q", bound=Queued)


def touched_by(ops: Iterable[Op]) -> list[Entity]:
    """The entities that these operations commit to."""
    return [op.entity for op in ops if type(op) is Commit]


def own(error: BaseException) -> BaseException:
    """The error for one caller of several: each notes in it what became of its own write."""
    if not isinstance(error, StoreUnavailable):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__ or error
    return mine


def next_batch(
    queue: deque[Q], most: int, gone: Callable[[Q], bool], busy: Iterable[Entity] = ()
) -> list[Q]:
    """As many as fit, in order, but no entity twice: its next commit waits for the next batch.

    `busy` entities are under way in another batch; their commits wait too.
    """
    batch: list[Q] = []
    later: list[Q] = []
    entities: set[Entity] = set(busy)
    room = most
    while queue and room > 0:
        waiting = queue.popleft()
        if gone(waiting):
            continue
        touched = touched_by(waiting.ops)
        if entities.isdisjoint(touched):
            waiting.sent = True
            batch.append(waiting)
            room -= len(waiting.ops)
        else:
            later.append(waiting)
        entities.update(touched)  # also of those put off: their order must hold
    queue.extendleft(reversed(later))
    return batch


class Halving:
    """How long to look for the one operation that fails a batch.

    A batch that failed without effect is sent again in halves until the offender stands
    alone. When nothing at all succeeds it is the store that is down, not an operation that
    is bad: then everybody is told at once instead of asking a dead store once per caller.
    """

    def __init__(self, size: int) -> None:
        self._most = 2 * size.bit_length() + 2
        self._failures = 0

    def worth_halving(self, batch: Sized, error: BaseException) -> bool:
        self._failures += 1
        known_as_no = isinstance(error, StoreUnavailable) and error.applied == "no"
        return known_as_no and len(batch) > 1 and self._failures < self._most

    def succeeded(self) -> None:
        self._failures = 0


def closed() -> StoreMisused:
    """The error of a call to a store that was closed."""
    return StoreMisused("this store is closed; open a new one with stateward.open(...)")


def too_late(sent: bool) -> StoreTooSlow:
    """The error of a deadline that passed."""
    if sent:
        return StoreTooSlow(
            "the store did not answer within the deadline; a write may or may not have been stored",
            applied="unknown",
        )
    return StoreTooSlow(
        "the store was too busy to be asked within the deadline; nothing was sent", applied="no"
    )
