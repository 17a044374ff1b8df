"""Everything that one store counts, put together when somebody asks.

Layers keep plain numbers of their own; `Collector` is told once where they are, and reads them when
a snapshot is made. So counting costs an addition, and nobody waits for an exporter.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from stateward.observe import catalogue as names
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.metrics import Family, Metrics, Sample, add_up
from stateward.observe.recorder import OK, PROBLEMS, READS, Recorder, SeriesReading, Tracing
from stateward.observe.sizes import SizeGrowth, Sizes
from stateward.world import World

Numbers = Callable[[], Mapping[str, float]]

# The plain counters of other layers, by the name that each layer gives them.
ABSORBED: dict[str, tuple[str, dict[str, str]]] = {
    "suppressed": (names.SUPPRESSED, {}),
    "spilled": (names.SPILLED, {}),
    "replayed": (names.REPLAYED, {}),
    "dropped": (names.DROPPED, {}),
    "spill_depth": (names.SPILL_DEPTH, {}),
    "spill_age": (names.SPILL_AGE, {}),
    "breaker_open": (names.BREAKER, {}),
    "breaker_refused": (names.BREAKER_REFUSED, {}),
    "cache_hits": (names.CACHE, {"result": "hit"}),
    "cache_misses": (names.CACHE, {"result": "miss"}),
    "update_retries": (names.RETRIES, {"reason": "conflict"}),
    "retries": (names.RETRIES, {"reason": "unavailable"}),
}
_OLDEST = {"spill_age", "breaker_open"}  # of several sources the highest counts, not the sum

FIRST_ERROR = "StoreUnavailable"
REASONS = 16  # reasons for a context break that get a series of their own


class Leases(Protocol):
    """What renews leases counts."""

    leases_lost: int
    renewals_failed: int


class Collector:
    """The meters of a store's engines, and where its other numbers are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._meters: dict[str, Recorder] = {}
        self._storages: dict[str, list[Sizes]] = {}
        self._numbers: list[tuple[object, Numbers]] = []
        self._leases: dict[str, list[Leases]] = {}
        self._breaks: Counter[str] = Counter()
        self._lock = threading.Lock()

    # --- told by the layers ---------------------------------------------------------

    def meter(self, engine: str) -> Recorder:
        """The meter of all engines with this name."""
        return self._meters.setdefault(engine, Recorder(engine))

    def absorb(self, whose: object, numbers: Numbers) -> None:
        """Read these numbers at every snapshot; names not in `ABSORBED` are left out.

        `whose` they are is read once, though several engines may share it.
        """
        if all(known is not whose for known, _ in self._numbers):
            self._numbers.append((whose, numbers))

    def absorb_leases(self, engine: str, leases: Leases) -> None:
        """Where the renewals of an engine's leases keep their numbers."""
        self._leases.setdefault(engine, []).append(leases)

    def sample(self, engine: str, storage: Sizes) -> None:
        """Where the size of an engine's store is read."""
        self._storages.setdefault(engine, []).append(storage)

    def context_break(self, reason: str) -> None:
        """A conversation shows that context was lost."""
        with self._lock:
            known = reason in self._breaks or len(self._breaks) < REASONS
            self._breaks[reason if known else "other"] += 1

    def trace(self, tracing: Tracing | None) -> None:
        """Wrap every call from now on; None: none."""
        for meter in self._meters.values():
            meter.tracing = tracing

    # --- asked by exporters ---------------------------------------------------------

    def refresh(self) -> None:
        """Read the store's size anew if the last look is old. Blocks, so never on an event loop."""
        for storages in self._storages.values():
            for storage in storages:
                storage.look()

    def snapshot(self) -> Metrics:
        """All there is, read now. No I/O."""
        families = {d.name: Family(d.name, d.type, d.help, [], []) for d in CATALOGUE}
        for meter in self._meters.values():
            _operations(families, meter)
            _consistency(families, meter)
        self._absorbed(families)
        self._renewals(families)
        for engine, storages in self._storages.items():
            _storage(families, engine, [growth for s in storages if (growth := s.growth())])
        with self._lock:
            breaks = dict(self._breaks)
        for reason, count in sorted(breaks.items()):
            families[names.CONTEXT_BREAKS].samples.append(Sample({"reason": reason}, count))
        return Metrics(self._world.now(), list(families.values()))

    def _absorbed(self, families: dict[str, Family]) -> None:
        found = dict.fromkeys(ABSORBED, 0.0)  # a rate needs a 0 to start from
        for _, numbers in self._numbers:
            for name, value in numbers().items():
                if name in _OLDEST:
                    found[name] = max(found[name], value)
                elif name in found:
                    found[name] += value
        for name, value in found.items():
            family, labels = ABSORBED[name]
            families[family].samples.append(Sample(dict(labels), value))

    def _renewals(self, families: dict[str, Family]) -> None:
        for engine, kept in self._leases.items():
            lost, failed = sum(k.leases_lost for k in kept), sum(k.renewals_failed for k in kept)
            families[names.LEASES_LOST].samples.append(Sample({"engine": engine}, lost))
            families[names.RENEWALS_FAILED].samples.append(Sample({"engine": engine}, failed))


def _operations(families: dict[str, Family], meter: Recorder) -> None:
    reads: list[SeriesReading] = []
    for series in meter.series:
        labels = {"engine": meter.engine, "kind": series.kind, "operation": series.operation}
        reading = series.read(labels)
        families[names.DURATION].distributions.append(reading.took)
        ok = reading.answered - sum(reading.refused.values())
        for outcome, count in {OK: ok, **reading.refused}.items():
            sample = Sample({**labels, "outcome": outcome}, count)
            families[names.OPERATIONS].samples.append(sample)
        for error, count in reading.errors.items():
            families[names.ERRORS].samples.append(Sample({**labels, "error": error}, count))
        if series.operation in READS:
            reads.append(reading)
    _lookups(families, meter.engine, reads)
    for lane, sizes in (("read", meter.read_batches), ("write", meter.write_batches)):
        read = sizes.read({"engine": meter.engine, "lane": lane})
        families[names.BATCH].distributions.append(read)


def _lookups(families: dict[str, Family], engine: str, reads: list[SeriesReading]) -> None:
    """All reads together, by the names that dashboards of agents use."""
    labels = {"engine": engine}
    errors: Counter[str] = Counter({FIRST_ERROR: 0})  # a rate needs a 0 to start from
    for reading in reads:
        errors.update(reading.errors)
    answered = sum(reading.answered for reading in reads)
    families[names.LOOKUP_SUCCESS].samples.append(Sample(dict(labels), answered))
    took = add_up([reading.took for reading in reads], labels)
    families[names.LOOKUP_LATENCY].distributions.append(took)
    for error, count in errors.items():
        families[names.LOOKUP_ERROR].samples.append(Sample({**labels, "error": error}, count))


def _consistency(families: dict[str, Family], meter: Recorder) -> None:
    for problem in PROBLEMS:
        sample = Sample({"engine": meter.engine, "problem": problem}, meter.consistency[problem])
        families[names.CONSISTENCY].samples.append(sample)
    for kind, count in sorted(meter.takeovers.copy().items()):
        sample = Sample({"engine": meter.engine, "kind": kind}, count)
        families[names.TAKEOVERS].samples.append(sample)


def _storage(families: dict[str, Family], engine: str, growths: list[SizeGrowth]) -> None:
    """Several stores of one engine as one, except that the one that is full first counts."""
    found: dict[str, list[float]] = {}
    for growth in growths:
        for name, value in (
            (names.STORAGE_BYTES, growth.bytes),
            (names.STORAGE_ROWS, growth.rows),
            (names.STORAGE_CAPACITY, growth.capacity),
            (names.STORAGE_GROWTH, growth.bytes_a_day),
            (names.STORAGE_DAYS, growth.days_to_full),
        ):
            if value is not None:
                found.setdefault(name, []).append(value)
    for name, values in found.items():
        value = min(values) if name == names.STORAGE_DAYS else sum(values)
        families[name].samples.append(Sample({"engine": engine}, value))
