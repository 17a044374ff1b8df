"""The part of a store that an exporter needs, blocking or not."""

from __future__ import annotations

from typing import Protocol

from stateward.observe.collector import Collector
from stateward.observe.metrics import Metrics


class MetricsSource(Protocol):
    """A store of either colour."""

    collector: Collector

    def metrics(self) -> Metrics: ...


def look(store: MetricsSource) -> Metrics:
    """Return the numbers of the store, with its size read again if that is old. Blocks."""
    store.collector.refresh()
    return store.metrics()
