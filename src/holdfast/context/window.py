"""Where turns begin. Reading only: what is stored is never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


def starts_turn(message: Message) -> bool:
    """A turn starts where the user speaks; a tool's result under the user's role is not that."""
    if message.get("role") != "user":
        return False
    content = message.get("content")
    if not isinstance(content, list):
        return True
    return not any(
        isinstance(part, dict) and (part.get("type") == "tool_result" or "toolResult" in part)
        for part in content
    )


def last_turns(messages: Sequence[Message], turns: int) -> list[Message] | None:
    """The last `turns` turns, or None if the messages do not reach back that far."""
    left = turns
    for at in range(len(messages) - 1, -1, -1):
        if starts_turn(messages[at]):
            left -= 1
            if left == 0:
                return list(messages[at:])
    return None
