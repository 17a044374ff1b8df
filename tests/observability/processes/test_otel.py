"""OpenTelemetry reads it when it collects; spans come on request."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from observability.colours import ok
from stateward import StoreUnavailable
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.exporters.otel import Durations, instrument, otel_name

HELLO = {"role": "user", "content": "hello"}


def points(data: MetricsData | None) -> dict[str, list[Any]]:
    """Data points by the name of their metric."""
    assert data is not None
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_counters_and_gauges_are_read_when_they_are_collected(store: Any) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instrument(store, meter_provider=provider)
    for _ in range(3):
        await ok(store.thread("s-1").append(HELLO))
    found = points(reader.get_metrics_data())
    (appended,) = [
        point
        for point in found["stateward.operations"]
        if point.attributes["db.operation.name"] == "append"
    ]
    assert appended.value == 3
    assert appended.attributes == {
        "db.system.name": "memory",
        "db.collection.name": "thread",
        "db.operation.name": "append",
        "outcome": "ok",
    }
    quantiles = {
        point.attributes["quantile"]: point.value
        for point in found["stateward.operation_duration.quantile"]
    }
    assert 0 < quantiles["0.5"] <= quantiles["0.95"] <= quantiles["0.99"] < 1
    assert found["stateward.storage_bytes"][0].value > 0
    counted = {otel_name(d.name) for d in CATALOGUE if d.type == "counter"}
    assert {"agent.state.lookup_success", "stateward.suppressed_writes"} <= counted
    text = str(found)
    assert "s-1" not in text
    assert "gen_ai" not in text
    provider.shutdown()


class Kept(MetricExporter):
    """Keeps what it is given."""

    def __init__(self, temporality: AggregationTemporality) -> None:
        super().__init__({Histogram: temporality})
        self.data: list[MetricsData] = []

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any
    ) -> MetricExportResult:
        self.data.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        self.data.append(MetricsData([]))


@pytest.mark.parametrize(
    ("temporality", "second"),
    [(AggregationTemporality.CUMULATIVE, 5), (AggregationTemporality.DELTA, 2)],
)
async def test_durations_are_a_histogram_by_the_name_of_the_conventions(
    store: Any, temporality: AggregationTemporality, second: int
) -> None:
    kept = Kept(temporality)
    reader = PeriodicExportingMetricReader(Durations(kept, store), 3_600_000)
    provider = MeterProvider([reader])
    instrument(store, meter_provider=provider)
    counts = []
    for more in (3, 2):
        for _ in range(more):
            await ok(store.thread("s-1").append(HELLO))
        provider.force_flush()
        (point,) = points(kept.data[-1])["db.client.operation.duration"]
        counts.append(point.count)
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert point.sum > 0
        assert point.attributes["db.system.name"] == "memory"
        assert point.start_time_unix_nano < point.time_unix_nano
    assert counts == [3, second]
    provider.shutdown()


def test_the_sdk_keeps_what_an_exporter_prefers_where_we_and_its_readers_look_for_it() -> None:
    """It has no public name: an SDK that moves it must fail here, not on a dashboard."""
    kept = Kept(AggregationTemporality.DELTA)
    preferred = {Histogram: AggregationTemporality.DELTA}
    assert kept._preferred_temporality == preferred
    assert kept._preferred_aggregation is None
    source = inspect.getsource(PeriodicExportingMetricReader.__init__)
    assert "exporter._preferred_temporality" in source
    assert "exporter._preferred_aggregation" in source


async def test_spans_name_the_operation_and_the_conversation(store: Any) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(store, meter_provider=MeterProvider(), tracer_provider=provider, spans=True)
    await ok(store.thread("s-1", user="u-1").append(HELLO))
    await ok(store.user("u-1").put({"secret": "of the user"}))
    await ok(store.context(user="u-1", thread="s-1"))
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await ok(store.thread("s-1", user="u-1").load())
    appended, put, context, failed = exporter.get_finished_spans()
    assert appended.name == "append thread"
    assert appended.attributes is not None
    assert dict(appended.attributes) == {
        "db.system.name": "memory",
        "db.operation.name": "append",
        "db.collection.name": "thread",
        "db.namespace": "default",
        "gen_ai.conversation.id": "s-1",
    }
    assert put.attributes is not None
    assert "gen_ai.conversation.id" not in put.attributes
    assert context.attributes is not None
    assert context.attributes["db.operation.batch.size"] >= 3
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] in ("StoreUnavailable", "StoreTooSlow")
    assert "secret" not in str([span.to_json() for span in exporter.get_finished_spans()])


async def test_without_being_asked_there_are_no_spans(store: Any) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(store, meter_provider=MeterProvider(), tracer_provider=provider)
    await ok(store.thread("s-1").append(HELLO))
    assert exporter.get_finished_spans() == ()
