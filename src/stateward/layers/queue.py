"""The making of batches, and the taking apart of failed ones. No I/O, used by both colours."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from stateward.errors import (
    EntityBusy,
    InvalidInput,
    StatewardError,
    StoreClosed,
    StoreTooSlow,
    StoreUnavailable,
)
from stateward.ops import WRITES, Append, Commit, Entity, Op, Put, Replace

MOST_CHARACTERS = 4 << 20  # of text in a batch, unless one call alone brings more
PATIENCE = 0.1  # seconds that a batch under way holds up the others
MOST_LONERS = 1000
MOST_STALLED = 3  # batches that have taken longer, beside which others go on


class Queued(Protocol):
    """The call of one caller."""

    ops: Sequence[Op]
    sent: bool


Q = TypeVar("Q", bound=Queued)


def touched_by(ops: Sequence[Op]) -> Sequence[Entity]:
    """The entities that these operations commit to."""
    if len(ops) == 1:
        op = ops[0]
        return (op.entity,) if type(op) is Commit else ()
    return [op.entity for op in ops if type(op) is Commit]


def own(error: BaseException) -> BaseException:
    """The error for one caller of several: each notes in it what became of its own write."""
    if not isinstance(error, StoreUnavailable):
        return error
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__ or error
    return mine


def after_writes(error: StoreUnavailable | InvalidInput) -> BaseException:
    """The error of reads that were asked for with writes: those have been stored."""
    if isinstance(error, InvalidInput):  # which says that nothing was written
        return StoreUnavailable(str(error), applied="unknown")
    mine = own(error)
    mine.applied = "unknown"  # type: ignore[attr-defined]
    return mine


def next_batch(
    queue: Iterable[Q],
    most: int,
    gone: Callable[[Q], bool],
    busy: Iterable[Entity] = (),
    loners: Loners | None = None,
) -> tuple[list[Q], deque[Q]]:
    """As many as fit, in order, and what is left of the queue, which itself is not touched.

    No entity twice: its next commit waits for the next batch. `busy` entities are under way in
    another batch; their commits wait too. `loners` get a batch of their own. A batch
    that would be long on its way because there is much in it ends early: everybody in it would wait
    for all of it.
    """
    batch: list[Q] = []
    later: deque[Q] = deque()
    entities: set[Entity] = set(busy)
    characters, lone = 0, False
    waiting_all = iter(queue)
    for waiting in waiting_all:
        if gone(waiting):
            continue
        touched = touched_by(waiting.ops)
        if loners:
            lone = loners.are(waiting.ops)
        if entities.isdisjoint(touched) and not (lone and batch):
            for op in waiting.ops:
                characters += characters_of(op)
            if batch and characters > MOST_CHARACTERS:
                later.append(waiting)
                break
            waiting.sent = True
            batch.append(waiting)
            most -= len(waiting.ops)
            if most <= 0 or lone:
                break
        else:
            later.append(waiting)
        entities.update(touched)  # also of those put off: their order must hold
    later.extend(waiting_all)
    return batch, later


def characters_of(op: Op) -> int:
    """How much text an operation brings to the store."""
    count = 0
    for write in op.writes if type(op) is Commit else ():
        if type(write) is Append:
            count += sum(map(len, write.bodies))
        elif type(write) is Put:
            count += len(write.value)
        elif type(write) is Replace:
            count += sum(len(body or "") for body in write.entries.values())
    return count


class Halving:
    """The search for the one operation that fails a batch.

    A batch that failed without effect is sent again in halves until the offender stands
    alone. When nothing at all succeeds it is the store that is down, not an operation that
    is bad: then all callers fail at once instead of asking a dead store once per caller.
    """

    def __init__(self, size: int) -> None:
        self._most = 2 * size.bit_length() + 2
        self._failures = 0

    def worth_halving(self, batch: Sequence[Queued], error: BaseException) -> bool:
        if isinstance(error, InvalidInput):
            # One impossible value, or the batch as a whole is too large: no other caller may get
            # this refusal, which is not repeated. A store that is down raises another error.
            return len(batch) > 1
        self._failures += 1
        if len(batch) < 2 or self._failures >= self._most:
            return False
        if isinstance(error, StoreUnavailable):
            return error.applied == "no"
        # One damaged entity. Reads have no effect, whatever fails them.
        return isinstance(error, StatewardError) and not any(
            isinstance(op, WRITES) for waiting in batch for op in waiting.ops
        )

    def succeeded(self) -> None:
        self._failures = 0


class Loners(set[Entity]):
    """Entities locked by another process, so that their whole batch would wait."""

    def failed(self, ops: Sequence[Op], error: BaseException) -> None:
        touched = touched_by(ops)
        if isinstance(error, EntityBusy) and len(touched) == 1:
            if len(self) >= MOST_LONERS:
                self.clear()  # it was a guess for a while
            self.update(touched)

    def succeeded(self, ops: Sequence[Op]) -> None:
        if self:
            self.difference_update(touched_by(ops))

    def are(self, ops: Sequence[Op]) -> bool:
        """Whether these operations are for one of them."""
        return bool(self) and not self.isdisjoint(touched_by(ops))


def closed() -> StoreClosed:
    """The error of a call to a store that was closed."""
    return StoreClosed("this store is closed; open a new one with stateward.open(...)")


def too_late(sent: bool) -> StoreTooSlow:
    """The error of a deadline that passed."""
    if sent:
        return StoreTooSlow(
            "the store did not answer within the deadline; a write may or may not have been stored",
            applied="unknown",
        )
    return StoreTooSlow(
        "the store was too busy to be called before the deadline; nothing was sent", applied="no"
    )
