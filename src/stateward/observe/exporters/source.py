"""What an exporter needs of a store, blocking or not."""

from __future__ import annotations

from typing import Protocol

from stateward.observe.collector import Measures
from stateward.observe.metrics import Metrics


class Source(Protocol):
    """A store of either colour."""

    _measures: Measures

    def metrics(self) -> Metrics: ...


def look(store: Source) -> Metrics:
    """What the store has counted, with its size read anew if that is old. Blocks."""
    store._measures.refresh()
    return store.metrics()
