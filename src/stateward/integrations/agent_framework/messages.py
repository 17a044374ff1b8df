"""Messages of Agent Framework as a thread stores them: the result of their `to_dict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import Message

from stateward.shapes import translate

Kept = dict[str, Any]


def as_messages(kept: Sequence[Kept]) -> list[Message]:
    """Return messages of the framework; those of other frameworks are translated."""
    own = translate(kept, "agent-framework").messages
    return [Message.from_dict(message) for message in own]


def unknown(before: Sequence[Kept], given: Sequence[Kept]) -> list[Kept]:
    """Return the messages that come after the stored ones.

    A repeated text of the user is a new message, unless the message has an id.
    """
    old, new = [*map(_identity, before)], [*map(_identity, given)]
    for size in range(min(len(old), len(new)), 0, -1):
        starts = range(len(new) - size + 1) if size == len(old) else (0,)
        for start in starts:
            if old[-size:] == new[start : start + size]:
                said_again = size == 1 and start == 0 and before[-1].get("role") == "user"
                if said_again and not before[-1].get("message_id"):
                    continue
                return list(given[start + size :])
    return list(given)


def _identity(message: Kept) -> Any:
    id = message.get("message_id")
    return ("id", id) if id else (message.get("role"), message.get("contents"))
