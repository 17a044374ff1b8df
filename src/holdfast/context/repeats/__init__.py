"""Signs that an agent has lost its context: questions, answers and tool calls that come again."""

from __future__ import annotations

from holdfast.context.repeats.finding import find_repeats, find_repeats_async
from holdfast.context.repeats.history import Repeat

__all__ = ["Repeat", "find_repeats", "find_repeats_async"]
