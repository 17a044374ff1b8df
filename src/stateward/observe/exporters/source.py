"""What an exporter needs of a store, blocking or not."""

from __future__ import annotations

from typing import Protocol

from stateward.observe.collector import Collector
from stateward.observe.metrics import Metrics


class MetricsSource(Protocol):
    """A store of either colour."""

    collector: Collector

    def metrics(self) -> Metrics: ...


def look(store: MetricsSource) -> Metrics:
    """What the store has counted, with its size read again if that is old. Blocks."""
    store.collector.refresh()
    return store.metrics()
