"""Checker for strict serializability of transactions over lists, with the reasons against it.

In the manner of Elle (Kingsbury and Alvaro, 2020). Every transaction appends unique values to
lists and reads whole lists. A list shows its own past: the longest read of a list is the order
of its versions, so the order of the transactions can be inferred from what they saw:

- ww: one appended right before the other;
- wr: one read what the other appended last;
- rw: one read the list as it was right before the other appended;
- process: one process did one after the other;
- real-time: one had completed before the other was invoked.

A cycle of these is a contradiction. Its name says how bad it is: G0 (ww alone: writes are
interleaved), G1c (with wr: information flows in a circle), G-single (one rw: a lost update or
a torn read), G2 (several rw: write skew). With "-process" or "-realtime" behind it, the cycle
needs that order too: the store is serializable, but not in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import inf

from stateward.audit.checkers.anomalies import Anomaly
from stateward.audit.checkers.cycles import cycles
from stateward.audit.checkers.histories import ListAppend, ListRead, Lists, Transaction, Value

__all__ = ["ListAppend", "ListRead", "Transaction", "check"]


def check(history: Sequence[Transaction], most: int = 20) -> list[Anomaly]:
    """Return the anomalies of a history, at most `most` of each kind.

    Raises `ValueError` if two appends to one list share a value: then nothing can be inferred.
    """
    lists = Lists(history)
    kinds: tuple[Callable[[Lists], Iterator[Anomaly]], ...] = (
        duplicates,
        forked_orders,
        garbage,
        torn_appends,
        lost_appends,
        stale_reads,
        cycles,
    )
    return [anomaly for kind in kinds for anomaly in islice(kind(lists), most)]


def duplicates(lists: Lists) -> Iterator[Anomaly]:
    """Report values that were appended once and are there twice."""
    for key in lists.order:
        for number, values in lists.odd(key):
            if len(set(values)) < len(values):
                values_read: set[Value] = set()
                twice = next(v for v in values if v in values_read or values_read.add(v))  # type: ignore[func-returns-value]
                yield lists.found("duplicate", f"{twice!r} is in {key!r} twice", number)


def forked_orders(lists: Lists) -> Iterator[Anomaly]:
    """Report two reads of which neither is the beginning of the other."""
    for key, order in lists.order.items():
        longest = next(number for number, values in lists.reads[key] if values == order)
        for number, values in lists.odd(key):
            if values != order:
                explanation = f"two reads of {key!r} disagree about what was appended first"
                yield lists.found("incompatible order", explanation, number, longest)


def garbage(lists: Lists) -> Iterator[Anomaly]:
    """Report values that no one appended, or only a failed transaction."""
    for key in lists.order:
        for number, values in lists.odd(key):
            for value in values:
                writer = lists.writer(key, value)
                if writer is None:
                    explanation = f"{value!r} was read from {key!r}, but was never appended"
                    yield lists.found("garbage read", explanation, number)
                elif lists.history[writer].status == "fail":
                    explanation = f"{value!r} was read from {key!r}, but its append had failed"
                    yield lists.found("aborted read", explanation, writer, number)


def torn_appends(lists: Lists) -> Iterator[Anomaly]:
    """Report reads that end in the middle of one transaction's appends (G1b)."""
    last: dict[tuple[str, int], Value] = {}
    for key, writers in lists.appends.items():
        for value, number in writers.items():
            last[key, number] = value
    for key, reads in lists.reads.items():
        for number, values in reads:
            writer = lists.writer(key, values[-1]) if values else None
            if writer is not None and writer != number and last[key, writer] != values[-1]:
                explanation = f"{key!r} was read in the middle of an atomic append"
                yield lists.found("intermediate read", explanation, writer, number)


def lost_appends(lists: Lists) -> Iterator[Anomaly]:
    """Report acknowledged appends that no later read shows."""
    for key, writers in lists.appends.items():
        reads = lists.reads.get(key, ())
        values_read = (
            {value for _, values in lists.odd(key) for value in values} if reads else set()
        )
        latest = max((lists.history[n].invoked, n) for n, _ in reads) if reads else (-inf, -1)
        for value, number in writers.items():
            writer = lists.history[number]
            if value not in values_read and writer.status == "ok" and writer.completed < latest[0]:
                explanation = f"{value!r} was acknowledged in {key!r} and is in no later read"
                yield lists.found("lost append", explanation, number, latest[1])


def stale_reads(lists: Lists) -> Iterator[Anomaly]:
    """Report reads without values that a process already knew to be there before they began."""
    for key, order in lists.sound():
        read_since = [(inf, -1)] * (len(order) + 1)  # by length: since when, and by whom
        for place, value in enumerate(order):
            number = lists.writer(key, value)
            if number is not None and lists.history[number].status == "ok":
                read_since[place + 1] = (lists.history[number].completed, number)
        for number, values in lists.reads[key]:
            read_since[len(values)] = min(
                read_since[len(values)], (lists.history[number].completed, number)
            )
        for place in range(len(order) - 1, -1, -1):  # who knows a longer list knows this one
            read_since[place] = min(read_since[place], read_since[place + 1])
        for number, values in lists.reads[key]:
            if len(values) < len(order):
                since, witness = read_since[len(values) + 1]
                if since < lists.history[number].invoked:
                    explanation = (
                        f"a read of {key!r} missed a value that was already known to be there"
                    )
                    yield lists.found("stale read", explanation, witness, number)
