"""The numbers of a store as plain records, and the Prometheus text of them.

No number here was ever kept by an id: labels are kinds, operations, engines and error types, all of
which are few.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

# Seconds, five to a decade from 10 µs to 10 s: fine enough for honest percentiles, and 100 ms, the
# limit that alerts use, is one of them.
DURATIONS = (
    *(round(s * 10.0**decade, 8) for decade in range(-5, 1) for s in (1.0, 1.6, 2.5, 4.0, 6.3)),
    10.0,
)
TOGETHER = 64  # values of a histogram that are put into buckets at once
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

Type = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]


class Histogram:
    """Counts by fixed buckets. Any thread may add; reading sees a consistent state.

    Values wait and are put into buckets together, or before a read: to add a value takes no lock,
    and a twentieth of the time that a bucket takes.
    """

    __slots__ = ("_added", "_counts", "_total", "bounds", "lock")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last one: above every bound
        self._total = 0.0
        self._added: list[float] = []  # appending is a single step to all threads
        self.lock = threading.Lock()

    def add(self, value: float) -> None:
        self._added.append(value)
        if len(self._added) >= TOGETHER:
            with self.lock:
                self.counted_locked()

    def add_locked(self, value: float) -> None:
        """Add a value under the lock, to change something else together with it."""
        self._added.append(value)
        if len(self._added) >= TOGETHER:
            self.counted_locked()

    def counted_locked(self) -> tuple[list[int], float]:
        """Return the counts and the sum of all values, under the lock."""
        counts, bounds, values = self._counts[:], self.bounds, self._added[:]
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        size, total = len(values), self._total + sum(values)
        # No call in between, so no signal either. What was added meanwhile comes after these.
        self._counts, self._total = counts, total
        del self._added[:size]
        return counts, total

    def read(self, labels: Labels) -> Distribution:
        with self.lock:
            counts, total = self.counted_locked()
        return distribution(labels, self.bounds, counts, total)


class Sample(Struct, frozen=True):
    """One number with its labels."""

    labels: dict[str, str]
    value: float


class Distribution(Struct, frozen=True):
    """A histogram with its labels: `counts` by bucket, the last one above every bound."""

    labels: dict[str, str]
    count: int
    sum: float
    p50: float | None
    p95: float | None
    p99: float | None
    bounds: tuple[float, ...]
    counts: list[int]


class Family(Struct, frozen=True):
    """All numbers of one name."""

    name: str
    type: Type
    help: str
    samples: list[Sample] = []
    distributions: list[Distribution] = []


class Metrics(Struct, frozen=True):
    """The numbers of a store at one moment: plain data, good for JSON."""

    at: float
    families: list[Family]

    def family(self, name: str) -> Family:
        """The family of this name; raises `KeyError` if there is none."""
        for family in self.families:
            if family.name == name:
                return family
        raise KeyError(name)

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of a family that have these labels; of a histogram, the count."""
        family = self.family(name)
        wanted = labels.items()
        plain = sum(s.value for s in family.samples if wanted <= s.labels.items())
        return plain + sum(d.count for d in family.distributions if wanted <= d.labels.items())

    def distribution(self, name: str, **labels: str) -> Distribution:
        """Return the sum of all distributions of a family that have these labels."""
        family, wanted = self.family(name), labels.items()
        return add_up([d for d in family.distributions if wanted <= d.labels.items()], labels)

    def prometheus(self) -> str:
        """The text that Prometheus scrapes, format 0.0.4."""
        return "".join(line for family in self.families for line in _lines(family))


def distribution(
    labels: Labels, bounds: tuple[float, ...], counts: list[int], total: float
) -> Distribution:
    """Return a distribution with its percentiles."""
    return Distribution(
        labels=dict(labels),
        count=sum(counts),
        sum=total,
        p50=quantile(bounds, counts, 0.5),
        p95=quantile(bounds, counts, 0.95),
        p99=quantile(bounds, counts, 0.99),
        bounds=bounds,
        counts=counts,
    )


def add_up(parts: Sequence[Distribution], labels: Labels) -> Distribution:
    """Several distributions with the same bounds as one."""
    bounds = parts[0].bounds if parts else DURATIONS
    counts = [sum(column) for column in zip(*(p.counts for p in parts), strict=True)]
    counts = counts or [0] * (len(bounds) + 1)
    return distribution(labels, bounds, counts, sum(p.sum for p in parts))


def quantile(bounds: Sequence[float], counts: Sequence[int], q: float) -> float | None:
    """Return where the `q`-th part of all values ends, by straight lines within buckets.

    None: there are no values. What lies above every bound counts as the highest one.
    """
    rank = q * sum(counts)
    if not rank:
        return None
    below = 0
    for at, count in enumerate(counts[:-1]):
        if count and below + count >= rank:
            low = bounds[at - 1] if at else 0.0
            return low + (bounds[at] - low) * (rank - below) / count
        below += count
    return bounds[-1]


# --- the text format --------------------------------------------------------------------


def _lines(family: Family) -> Iterable[str]:
    yield f"# HELP {family.name} {family.help}\n"
    yield f"# TYPE {family.name} {family.type}\n"
    for sample in family.samples:
        yield f"{family.name}{_labels(sample.labels)} {_number(sample.value)}\n"
    for d in family.distributions:
        below = 0
        for bound, count in zip(d.bounds, d.counts[:-1], strict=True):
            below += count
            labels = _labels({**d.labels, "le": _number(bound)})
            yield f"{family.name}_bucket{labels} {below}\n"
        yield f"{family.name}_bucket{_labels({**d.labels, 'le': '+Inf'})} {d.count}\n"
        yield f"{family.name}_sum{_labels(d.labels)} {_number(d.sum)}\n"
        yield f"{family.name}_count{_labels(d.labels)} {d.count}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
