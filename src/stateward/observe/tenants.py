"""The counts of each tenant of a store that has several: see `Store.within`.

Tenants have no end, series must have one. The first to come get their own name, and later ones
if they are busy; the rest are counted together. A name is kept for good: a number that fell would
be a restart to Prometheus.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stateward.ops import Append, Applied, Commit, Fetch, Op

FIRST = 25  # tenants that are named when they come
NAMED = 50  # at most, with those that are named because they are busy
BUSY = 1000  # events after which a tenant is
CANDIDATES = 10_000  # tenants of which it is known how busy they are
LONGEST = 64  # characters of a name in a label
OTHER = "other"

EVENTS = ("append", "load", "conflict", "failure", "suppressed", "dropped", "context_break")
BYTES = "bytes"


class TenantReading(NamedTuple):
    """One number of one tenant."""

    tenant: str
    event: str
    number: int


class Tenants:
    """The numbers of all tenants of a store, none before it is `active`. Any thread may count."""

    def __init__(self) -> None:
        self.active = False  # True if there are several tenants
        self._lock = threading.Lock()
        self._named: dict[str, Counter[str]] = {}  # by namespace
        self._other: Counter[str] = Counter()
        self._candidates: Counter[str] = Counter()

    def count(self, namespace: str, *events: str, appended: int = 0) -> None:
        """Count these events of a tenant, and the bytes that were appended."""
        if not self.active:
            return
        with self._lock:
            numbers = self._named.get(namespace)
            if numbers is None:
                numbers = self._choose(namespace)
            for event in events:
                numbers[event] += 1
            numbers[BYTES] += appended

    def answered(self, op: Op, outcome: Any) -> None:
        """Count an answer of the store, or a suppressed append."""
        if type(op) is Commit and type(op.writes[0]) is Append:
            namespace, kind = op.entity[0], type(outcome).__name__
            if type(outcome) is Applied:
                self.count(namespace, "append", appended=sum(map(_size, op.writes[0].bodies)))
            elif kind == "Spilled":
                self.count(namespace, "failure", "suppressed")
            elif kind == "Dropped":
                self.count(namespace, "failure", "suppressed", "dropped")
            elif kind == "Conflict":
                self.count(namespace, "conflict")
        elif type(op) is Fetch and op.log is not None:
            self.count(op.entity[0], "load")

    def failed(self, ops: Sequence[Op]) -> None:
        """Count operations that the store has not answered."""
        for op in ops:
            if isinstance(op, Commit | Fetch):
                self.count(op.entity[0], "failure")

    def read(self) -> Iterator[TenantReading]:
        """Return all counts as exported: tenants whose labels are the same become one."""
        with self._lock:
            named = [(label_of(name), numbers.copy()) for name, numbers in self._named.items()]
            other = self._other.copy()
        labels: dict[str, Counter[str]] = {}
        for label, numbers in [*named, *([(OTHER, other)] if other else [])]:
            labels.setdefault(label, Counter()).update(numbers)
        for label, numbers in labels.items():
            for event in (*EVENTS, BYTES):
                yield TenantReading(label, event, numbers[event])

    def _choose(self, namespace: str) -> Counter[str]:
        """Return the counter for a tenant that has no name of its own yet."""
        if len(self._named) >= FIRST:
            if len(self._candidates) >= CANDIDATES and namespace not in self._candidates:
                self._candidates.clear()
            self._candidates[namespace] += 1
            if len(self._named) >= NAMED or self._candidates[namespace] < BUSY:
                return self._other
            del self._candidates[namespace]
        return self._named.setdefault(namespace, Counter())


def label_of(namespace: str) -> str:
    """Return the namespace as a label, without characters that systems for metrics interpret."""
    return "".join(c if c.isalnum() or c in "_.@/-" else "_" for c in namespace)[:LONGEST]


def _size(body: str) -> int:
    return len(body) if body.isascii() else len(body.encode())
