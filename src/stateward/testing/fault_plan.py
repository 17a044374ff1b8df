"""Plans of faults: which happen, when, and how often they did. No I/O, used by both colours."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self

from stateward.errors import StoreUnavailable
from stateward.ops import WRITES, Op

Moment = Literal["before", "after"]  # of a failure: before or after the batch was applied
Scope = Literal["everything", "batches", "writes"]


class Fault:
    """One thing that goes wrong, until it is used up, cleared, or its `with` block ends.

    `fired` counts how often it did. Assert on it: a test in which nothing failed proves nothing.
    """

    def __init__(
        self,
        faults: Faults,
        fails: Moment | None,
        *,
        first: int = 1,
        times: int | None = None,
        delay: float = 0.0,
        scope: Scope = "batches",
    ) -> None:
        self.fails = fails
        self.delay = delay
        self.scope = scope
        self.fired = 0
        self._faults = faults
        self._before = first - 1
        self._times = times

    def clear(self) -> None:
        """From now on it no longer happens. Clearing twice is fine."""
        self._faults.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def strikes(self) -> bool:
        """Return True if the fault hits this call, and count the hit."""
        if self._before:
            self._before -= 1
            return False
        if self._times is not None and self.fired >= self._times:
            return False
        self.fired += 1
        return True


class Hit(NamedTuple):
    """The faults of one batch."""

    delay: float
    fails: Moment | None


class Faults:
    """The faults of one store. Any thread may change the plan at any time."""

    def __init__(self) -> None:
        self.calls = 0  # batches the store was asked to execute so far
        self._lock = threading.Lock()
        self._planned: list[Fault] = []

    def unavailable(self) -> Fault:
        """The store cannot be reached: every call fails, and nothing is applied."""
        return self._plan(Fault(self, "before", scope="everything"))

    def slow(self, seconds: float) -> Fault:
        """Every answer takes this much longer. What a caller no longer waits for is applied."""
        return self._plan(Fault(self, None, delay=seconds))

    def lose_reply(self, times: int = 1) -> Fault:
        """The next `times` writes are applied, but their answers never arrive."""
        return self._plan(Fault(self, "after", times=times, scope="writes"))

    def fail_before(self, n: int = 1, *, times: int | None = 1) -> Fault:
        """The n-th batch from now, and the `times` - 1 after it, fail without being applied.

        `times=None`: all that follow, until cleared.
        """
        return self._plan(Fault(self, "before", first=n, times=times))

    def fail_after(self, n: int = 1, *, times: int | None = 1) -> Fault:
        """As `fail_before`, but each batch is applied before it fails: its reply is lost."""
        return self._plan(Fault(self, "after", first=n, times=times))

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._planned = []

    def meet(self, ops: Sequence[Op]) -> Hit:
        """Draw the faults of this batch."""
        writes = any(isinstance(op, WRITES) for op in ops)
        with self._lock:
            self.calls += 1
            met = [f for f in self._planned if writes or f.scope != "writes"]
            hits = [fault for fault in met if fault.strikes()]
        moments = {fault.fails for fault in hits}
        fails: Moment | None = "after" if "after" in moments else None
        delay = sum(fault.delay for fault in hits)
        return Hit(delay, "before" if "before" in moments else fails)

    def refuse(self) -> None:
        """Fail a call other than a batch while the store is unavailable."""
        with self._lock:
            hits = [f for f in self._planned if f.scope == "everything" and f.strikes()]
        if hits:
            raise unreachable()

    def _plan(self, fault: Fault) -> Fault:
        with self._lock:
            self._planned = [*self._planned, fault]
        return fault

    def forget(self, fault: Fault) -> None:
        with self._lock:
            self._planned = [planned for planned in self._planned if planned is not fault]


def unreachable() -> StoreUnavailable:
    """The error of a store that was never asked."""
    return StoreUnavailable("the store cannot be reached (a fault of the test)", applied="no")


def reply_lost() -> StoreUnavailable:
    """The error of a store that was asked and did not answer."""
    return StoreUnavailable("the store's reply was lost (a fault of the test)", applied="unknown")
