"""Turns of a conversation that another framework has kept."""

from __future__ import annotations

from typing import Any

CALL = {"id": "c1", "type": "function", "function": {"name": "grill", "arguments": "{}"}}
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "A steak, please."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a steak"},
    {"role": "assistant", "content": "Here it is."},
]
LANGCHAIN: list[dict[str, Any]] = [
    {"type": "human", "data": {"content": "And salt?", "type": "human"}},
    {"type": "ai", "data": {"content": "A little.", "type": "ai"}},
]
