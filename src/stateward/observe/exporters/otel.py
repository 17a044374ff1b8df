"""OpenTelemetry: `pip install 'stateward[otel]'`.

    instrument(store, spans=True)

Metrics are read when a reader collects, through observable instruments: recording a histogram for
every operation would cost more than most operations. There is no observable histogram, so wrap your
metric exporter in `Durations` to send `db.client.operation.duration` as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stateward.errors import InvalidInput
from stateward.observe import catalogue
from stateward.observe.exporters.source import MetricsSource, look
from stateward.observe.metrics import Distribution, Metrics
from stateward.observe.recorder import operation_of
from stateward.ops import Commit, Entity, Fetch, Op

try:
    from opentelemetry import metrics as otel_metrics
    from opentelemetry import trace as otel_trace
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.sdk.metrics import Histogram as HistogramInstrument
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricExporter,
        MetricExportResult,
        MetricsData,
        ResourceMetrics,
        ScopeMetrics,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider
except ModuleNotFoundError as error:
    raise InvalidInput(
        "exporting to OpenTelemetry needs its SDK; install it with: pip install 'stateward[otel]'"
    ) from error

SCOPE = "stateward"
OPERATION_DURATION = "db.client.operation.duration"
FRESH = 0.5  # seconds for which one snapshot serves all instruments of a collection

# The stable names of the conventions for databases; other labels stay what they are.
ATTRIBUTES = {
    "engine": "db.system.name",
    "kind": "db.collection.name",
    "operation": "db.operation.name",
    "error": "error.type",
}


def instrument(
    store: MetricsSource,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    spans: bool = False,
) -> None:
    """Let the meter provider (the global one by default) read the store's metrics.

    With `spans`, every operation is a span as well; that costs some 20 µs each. The id of a
    conversation is on spans alone, as `gen_ai.conversation.id`.
    """
    meter = otel_metrics.get_meter(SCOPE, meter_provider=meter_provider)
    snapshots = _Snapshots(store)
    for entry in catalogue.CATALOGUE:
        name, description = otel_name(entry.name), entry.help
        if entry.type == "counter":
            meter.create_observable_counter(name, [_reader(snapshots, entry)], "", description)
        elif entry.type == "gauge":
            meter.create_observable_gauge(name, [_reader(snapshots, entry)], "", description)
        else:
            read = _quantiles(snapshots, entry)
            description = f"{description}, by percentile"
            meter.create_observable_gauge(f"{name}.quantile", [read], "", description)
    if spans:
        store.collector.trace(_tracing(otel_trace.get_tracer(SCOPE, None, tracer_provider)))


def otel_name(name: str) -> str:
    """`stateward_suppressed_writes_total` in the spelling of OpenTelemetry."""
    short = name.removesuffix("_total").removesuffix("_seconds")
    return short.replace("stateward_", "stateward.", 1).replace("agent_state_", "agent.state.", 1)


class _Snapshots:
    """Cache of one snapshot for all the instruments that are read together."""

    def __init__(self, store: MetricsSource) -> None:
        self._store = store
        self._at = float("-inf")
        self._latest: Metrics | None = None

    def get(self) -> Metrics:
        now = time.monotonic()
        if self._latest is None or now - self._at > FRESH:
            self._latest, self._at = look(self._store), now
        return self._latest


Read = Callable[[CallbackOptions], Iterable[Observation]]


def _reader(snapshots: _Snapshots, entry: catalogue.Metric) -> Read:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        samples = snapshots.get().family(entry.name).samples
        return [Observation(sample.value, _attributes(sample.labels)) for sample in samples]

    return read


def _quantiles(snapshots: _Snapshots, entry: catalogue.Metric) -> Read:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(value, {**_attributes(part.labels), "quantile": quantile})
            for part in snapshots.get().family(entry.name).distributions
            for quantile, value in (("0.5", part.p50), ("0.95", part.p95), ("0.99", part.p99))
            if value is not None
        ]

    return read


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    return {ATTRIBUTES.get(name, name): value for name, value in labels.items()}


# --- spans ------------------------------------------------------------------------------


def _tracing(tracer: otel_trace.Tracer) -> Callable[[str, Sequence[Op]], Any]:
    @contextmanager
    def trace(engine: str, ops: Sequence[Op]) -> Iterator[None]:
        name, attributes = _described(engine, ops)
        with tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,  # its text may hold ids; the type is enough
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    return trace


def _described(engine: str, ops: Sequence[Op]) -> tuple[str, dict[str, Any]]:
    operations = list(dict.fromkeys(operation_of(op) for op in ops))
    entities: list[Entity] = [op.entity for op in ops if isinstance(op, Commit | Fetch)]
    operation = operations[0] if len(operations) == 1 else "BATCH"
    attributes: dict[str, Any] = {"db.system.name": engine, "db.operation.name": operation}
    if len(ops) > 1:
        attributes["db.operation.batch.size"] = len(ops)
    kinds = list(dict.fromkeys(entity.kind for entity in entities))
    if len(kinds) == 1:
        attributes["db.collection.name"] = kinds[0]
    if entities:
        attributes["db.namespace"] = entities[0].namespace
    threads = {entity.id for entity in entities if entity.kind == "thread"}
    if len(threads) == 1:
        attributes["gen_ai.conversation.id"] = threads.pop()
    return f"{operation} {kinds[0]}" if len(kinds) == 1 else operation, attributes


# --- histograms -------------------------------------------------------------------------


class Durations(MetricExporter):
    """An exporter that sends what it is given, and `db.client.operation.duration` of a store.

    PeriodicExportingMetricReader(Durations(OTLPMetricExporter(), store))
    """

    def __init__(self, exporter: MetricExporter, store: MetricsSource) -> None:
        temporality = exporter._preferred_temporality
        super().__init__(temporality, exporter._preferred_aggregation)
        self._exporter = exporter
        self._store = store
        self._start = self._last = time.time_ns()
        wanted = (temporality or {}).get(HistogramInstrument)
        self._delta = wanted is AggregationTemporality.DELTA
        self._before: dict[tuple[tuple[str, str], ...], Distribution] = {}

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> MetricExportResult:
        now = time.time_ns()
        points = [p for p in self._points(now) if p.count]
        self._last = now
        temporality = (
            AggregationTemporality.DELTA if self._delta else AggregationTemporality.CUMULATIVE
        )
        metric = Metric(
            OPERATION_DURATION,
            "Duration of database client operations",
            "s",
            Histogram(points, temporality),
        )
        there = list(metrics_data.resource_metrics)
        resource = there[0].resource if there else Resource.get_empty()
        scope = ScopeMetrics(InstrumentationScope(SCOPE), [metric], "")
        extended = MetricsData([*there, ResourceMetrics(resource, [scope], "")])
        return self._exporter.export(extended, timeout_millis, **options)

    def _points(self, now: int) -> Iterator[HistogramDataPoint]:
        for part in look(self._store).family(catalogue.DURATION.name).distributions:
            key = tuple(sorted(part.labels.items()))
            before = self._before.get(key) if self._delta else None
            self._before[key] = part
            counts, count, total = part.counts, part.count, part.sum
            if before is not None:
                counts = [a - b for a, b in zip(part.counts, before.counts, strict=True)]
                count, total = count - before.count, total - before.sum
            unknown: Any = None  # the smallest and the largest are not kept
            yield HistogramDataPoint(
                attributes=_attributes(part.labels),
                start_time_unix_nano=self._last if self._delta else self._start,
                time_unix_nano=now,
                count=count,
                sum=total,
                bucket_counts=counts,
                explicit_bounds=part.bounds,
                min=unknown,
                max=unknown,
            )

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        self._exporter.shutdown(timeout_millis, **options)
