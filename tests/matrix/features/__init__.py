"""The features that drawn programs cross."""

from __future__ import annotations

from matrix.features.adapter import Adapter
from matrix.features.cache import Cached
from matrix.features.conversations import Erase, Fork, Receipts, Retained, Turns
from matrix.features.documents import Documents
from matrix.features.effects import Effects
from matrix.features.feature import Feature
from matrix.features.places import Copied, Failover, Outage
from matrix.features.tasks import Scheduled
from matrix.features.workflows import Questions, Workflows

FEATURES: dict[str, type[Feature]] = {
    "turn": Turns,
    "effect": Effects,
    "workflow": Workflows,
    "question": Questions,
    "schedule": Scheduled,
    "document": Documents,
    "receipt": Receipts,
    "retention": Retained,
    "fork": Fork,
    "erase": Erase,
    "copy": Copied,
    "outage": Outage,
    "failover": Failover,
    "cache": Cached,
    "adapter": Adapter,
}
