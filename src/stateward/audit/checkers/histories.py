"""Histories of lists: the operations of processes, and the order that all reads together show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from stateward.audit.checkers.anomalies import Anomaly

Value = str | int
Status = Literal["ok", "fail", "unknown"]


class ListAppend(NamedTuple):
    """A value was added to the end of a list. No two appends to one list share a value."""

    key: str
    value: Value


class ListRead(NamedTuple):
    """A list was read, whole."""

    key: str
    values: tuple[Value, ...]


class Transaction(NamedTuple):
    """One step of one process; its times are of one clock.

    `fail`: certainly not applied. `unknown`: no answer came; `completed` is not looked at, and
    neither are its reads.
    """

    process: int
    invoked: float
    completed: float
    status: Status
    ops: tuple[ListAppend | ListRead, ...]


class Lists:
    """Evidence of all reads together about each list."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.history = history
        self.appends: dict[str, dict[Value, int]] = {}  # who appended what
        self.reads: dict[str, list[tuple[int, tuple[Value, ...]]]] = {}  # who read what
        for number, transaction in enumerate(history):
            for op in transaction.ops:
                if isinstance(op, ListAppend):
                    self._appended(op, number)
                elif transaction.status == "ok":
                    self.reads.setdefault(op.key, []).append((number, op.values))
        self.order: dict[str, tuple[Value, ...]] = {
            key: max((values for _, values in reads), key=len) for key, reads in self.reads.items()
        }

    def _appended(self, op: ListAppend, number: int) -> None:
        writers = self.appends.setdefault(op.key, {})
        if op.value in writers:
            raise ValueError(
                f"{op.value!r} is appended to {op.key!r} by transactions {writers[op.value]} and "
                f"{number}; every append needs a unique value"
            )
        writers[op.value] = number

    def writer(self, key: str, value: Value) -> int | None:
        return self.appends.get(key, {}).get(value)

    def sound(self) -> Iterator[tuple[str, tuple[Value, ...]]]:
        """Return the lists whose order can be trusted; the others are reported as they are."""
        for key, order in self.order.items():
            one_order = all(values == order[: len(values)] for _, values in self.reads[key])
            if one_order and len(set(order)) == len(order):
                yield key, order

    def odd(self, key: str) -> Iterator[tuple[int, tuple[Value, ...]]]:
        """Return the longest read, and every read that is not a beginning of it."""
        order = self.order[key]
        shown = False
        for number, values in self.reads[key]:
            if values != order[: len(values)] or (values == order and not shown):
                shown = shown or values == order
                yield number, values

    def show(self, number: int) -> str:
        """A transaction in one line."""
        transaction = self.history[number]
        parts = []
        for op in transaction.ops:
            if isinstance(op, ListAppend):
                parts.append(f"append {op.value!r} to {op.key!r}")
            elif transaction.status == "ok":
                parts.append(f"read {op.key!r} as {_short(op.values)}")
        until = "…" if transaction.status == "unknown" else f"{transaction.completed:g}"
        when = f"{transaction.invoked:g}–{until}"
        head = f"T{number} (process {transaction.process}, {when}, {transaction.status})"
        return f"{head}: {', '.join(parts)}"

    def found(self, name: str, said: str, *numbers: int) -> Anomaly:
        """A finding, with the transactions that show it."""
        lines = "".join(f"\n  {self.show(number)}" for number in dict.fromkeys(numbers))
        return Anomaly(name, said + lines, numbers)


def _short(values: tuple[Value, ...]) -> str:
    shown = ", ".join(repr(value) for value in values[-8:])
    return f"[{shown}]" if len(values) <= 8 else f"[… {len(values) - 8} more, {shown}]"
