"""Everything that one store counts, put together when someone asks.

Layers count into plain numbers (`Counters`) and into the recorder of their engine; the collector
reads both when a snapshot is made. So counting costs an addition, and no one waits for an exporter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from stateward.observe import catalogue as metric
from stateward.observe.concerned import Concerned
from stateward.observe.consistency import PROBLEMS, Consistency
from stateward.observe.counters import Counters, numbers
from stateward.observe.metrics import Distribution, Family, Labels, Metrics, Sample, add_up
from stateward.observe.recorder import OK, READS, Recorder, SeriesReading, Tracing
from stateward.observe.sizes import Sizes
from stateward.observe.tenants import BYTES, Tenants
from stateward.observe.workers import Workers
from stateward.world import World

Gauges = Callable[[], Mapping[metric.Metric, float]]

FIRST_ERROR = "StoreUnavailable"


class Collector:
    """The recorders of a store's engines, its counters, and where its gauges are read."""

    def __init__(self, world: World, folder: str | None = None) -> None:
        self._world = world
        self.workers = None if folder is None else Workers(folder, self.snapshot, world)
        self.tenants = Tenants()
        self.concerned = Concerned()
        self._recorders: dict[str, Recorder] = {}
        self._counters = Counters()
        self._sizes: dict[str, list[Sizes]] = {}
        self._gauges: list[Gauges] = []

    # --- told by the layers ---------------------------------------------------------

    def recorder(self, engine: str) -> Recorder:
        """The recorder of all engines with this name."""
        return self._recorders.setdefault(engine, Recorder(engine, self.tenants, self.concerned))

    def include(self, engine: str, counters: Counters, sizes: Sizes, gauges: Gauges) -> None:
        """Read these at every snapshot; the counters are one book for all engines of a store."""
        self._counters = counters
        self._sizes.setdefault(engine, []).append(sizes)
        self._gauges.append(gauges)

    def trace(self, tracing: Tracing | None) -> None:
        """Wrap every call from now on; None: none."""
        for recorder in self._recorders.values():
            recorder.tracing = tracing

    # --- asked by exporters ---------------------------------------------------------

    def refresh(self) -> None:
        """Read the store's size again if the last one is old. Blocks, so never on an event loop."""
        for stores in self._sizes.values():
            for sizes in stores:
                sizes.look()

    def snapshot(self) -> Metrics:
        """Read all metrics now. No I/O."""
        families = _Families()
        for recorder in self._recorders.values():
            _operations(families, recorder)
            _consistency(families, recorder.engine, recorder.consistency)
        for of, labels, value in numbers(self._counters):
            families.add(of, labels, value)
        for tenant, event, count in self.tenants.read():
            if event == BYTES:
                families.add(metric.TENANT_BYTES, {"tenant": tenant}, count)
            else:
                families.add(metric.TENANT_EVENTS, {"tenant": tenant, "event": event}, count)
        read = [gauges() for gauges in self._gauges]
        for of in (metric.SPILL_DEPTH, metric.SPILL_AGE, metric.BREAKER):
            values = [gauges[of] for gauges in read]
            highest = max(values, default=0.0)
            families.add(of, {}, highest if of.name in metric.HIGHEST else sum(values))
        for engine, stores in self._sizes.items():
            _storage(families, engine, stores)
        return Metrics(self._world.now(), list(families.by_name.values()))


class _Families:
    """Families of the catalogue, while they are filled."""

    def __init__(self) -> None:
        self.by_name = {m.name: Family(m.name, m.type, m.help, [], []) for m in metric.CATALOGUE}

    def add(self, of: metric.Metric, labels: Labels, value: float) -> None:
        self.by_name[of.name].samples.append(Sample(dict(labels), value))

    def distribute(self, of: metric.Metric, distribution: Distribution) -> None:
        self.by_name[of.name].distributions.append(distribution)


def _operations(families: _Families, recorder: Recorder) -> None:
    reads: list[SeriesReading] = []
    where = {"engine": recorder.engine}
    for series in recorder.series:
        labels = {**where, "kind": series.kind, "operation": series.operation}
        reading = series.read(labels)
        families.distribute(metric.DURATION, reading.took)
        ok = reading.answered - sum(reading.refused.values())
        for outcome, count in {OK: ok, **reading.refused}.items():
            families.add(metric.OPERATIONS, {**labels, "outcome": outcome}, count)
        for error, count in reading.errors.items():
            families.add(metric.ERRORS, {**labels, "error": error}, count)
        if series.operation in READS:
            reads.append(reading)
    _lookups(families, where, reads)
    for lane, sizes in (("read", recorder.read_batches), ("write", recorder.write_batches)):
        families.distribute(metric.BATCH, sizes.read({**where, "lane": lane}))


def _lookups(families: _Families, where: Labels, reads: list[SeriesReading]) -> None:
    """Add up all reads, under the names that dashboards of agents use."""
    errors: Counter[str] = Counter({FIRST_ERROR: 0})  # a rate needs a 0 to start from
    for reading in reads:
        errors.update(reading.errors)
    families.add(metric.LOOKUP_SUCCESS, where, sum(reading.answered for reading in reads))
    families.distribute(metric.LOOKUP_LATENCY, add_up([reading.took for reading in reads], where))
    for error, count in errors.items():
        families.add(metric.LOOKUP_ERROR, {**where, "error": error}, count)


def _consistency(families: _Families, engine: str, seen: Consistency) -> None:
    for problem in PROBLEMS:
        labels = {"engine": engine, "problem": problem}
        families.add(metric.CONSISTENCY, labels, seen.problems[problem])
    for kind, count in sorted(seen.takeovers.copy().items()):
        families.add(metric.TAKEOVERS, {"engine": engine, "kind": kind}, count)


def _storage(families: _Families, engine: str, stores: list[Sizes]) -> None:
    """Add up the stores of one engine; the days are those of the store that is full first."""
    growths = [growth for sizes in stores if (growth := sizes.growth()) is not None]
    for of, read in (
        (metric.STORAGE_BYTES, [growth.bytes for growth in growths]),
        (metric.STORAGE_ROWS, [growth.rows for growth in growths]),
        (metric.STORAGE_CAPACITY, [growth.capacity for growth in growths]),
        (metric.STORAGE_GROWTH, [growth.bytes_a_day for growth in growths]),
        (metric.STORAGE_DAYS, [growth.days_to_full for growth in growths]),
    ):
        values = [value for value in read if value is not None]
        if values:
            value = min(values) if of is metric.STORAGE_DAYS else sum(values)
            families.add(of, {"engine": engine}, value)
