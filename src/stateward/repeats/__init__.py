"""Signs that an agent has lost its context: questions, answers and tool calls that come again."""

from __future__ import annotations

from stateward.repeats.detector import RepeatDetector
from stateward.repeats.find import find_repeats, find_repeats_async
from stateward.repeats.given import with_receipts
from stateward.repeats.history import Repeat
from stateward.repeats.semantic import local_embed

__all__ = [
    "Repeat",
    "RepeatDetector",
    "find_repeats",
    "find_repeats_async",
    "local_embed",
    "with_receipts",
]
