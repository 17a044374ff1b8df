"""Signs that an agent has lost its context: questions, answers and tool calls that come again."""

from __future__ import annotations

from holdfast.context.repeats.detector import RepeatDetector
from holdfast.context.repeats.finding import find_repeats, find_repeats_async
from holdfast.context.repeats.history import Repeat
from holdfast.context.repeats.semantic import local_embed

__all__ = ["Repeat", "RepeatDetector", "find_repeats", "find_repeats_async", "local_embed"]
