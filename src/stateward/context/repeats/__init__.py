"""Signs that an agent has lost its context: questions, answers and tool calls that come again."""

from __future__ import annotations

from stateward.context.repeats.detector import RepeatDetector
from stateward.context.repeats.finding import find_repeats, find_repeats_async
from stateward.context.repeats.history import Repeat
from stateward.context.repeats.semantic import local_embed

__all__ = ["Repeat", "RepeatDetector", "find_repeats", "find_repeats_async", "local_embed"]
