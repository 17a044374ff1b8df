"""Cutting long texts so that a message fits: only where a caller has asked for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from stateward.records import Shaper

Message = dict[str, Any]

SHORTEST = 80  # characters a text is never cut below


def shortened(
    messages: Sequence[Message],
    most: int,
    count: Callable[[Message], int],
    shaper: Shaper | None = None,
) -> tuple[list[Message], int, int] | None:
    """Copies whose longest texts lost their middle, their tokens, and how many messages changed.

    None if they cannot be made to fit. Ids, names and the arguments of calls are never touched.
    """
    copies = [deepcopy(message) for message in messages]
    costs = [count(message) for message in copies]
    whole: dict[tuple[int, Any], str] = {}  # texts as they were, by where they are
    changed: set[int] = set()
    while sum(costs) > most:
        longest = max(
            (
                (len(holder[key]), at, holder, key)
                for at, message in enumerate(copies)
                for holder, key in _texts(message, shaper)
            ),
            key=lambda found: found[0],
            default=None,
        )
        if longest is None or longest[0] <= SHORTEST:
            return None
        size, at, holder, key = longest
        text = whole.setdefault((id(holder), key), holder[key])
        holder[key] = _without_middle(text, max(SHORTEST, size * 3 // 4))
        costs[at] = count(copies[at])
        changed.add(at)
    return copies, sum(costs), len(changed)


def _texts(message: Message, shaper: Shaper | None) -> list[tuple[Any, Any]]:
    """Return the places of texts that may be cut: words of a message, results of a tool."""
    places: list[tuple[Any, Any]] = []
    shape = None if shaper is None else shaper(message)
    if shape is not None:
        _find(message, shape.text, places)
        return places
    for key in ("content", "output"):
        _collect(message, key, places)
    return places


def _find(holder: Any, text: str, places: list[tuple[Any, Any]]) -> None:
    """Add the places where this very text stands."""
    for key, value in holder.items() if type(holder) is dict else enumerate(holder):
        if type(value) is str and value == text:
            places.append((holder, key))
        elif type(value) in (dict, list):
            _find(value, text, places)


def _collect(holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = holder[key] if isinstance(holder, list) else holder.get(key)
    if type(value) is str:
        places.append((holder, key))
    elif type(value) is list:
        for at, block in enumerate(value):
            if type(block) is str:
                places.append((value, at))
            elif type(block) is dict:
                for inner in ("text", "content", "output"):
                    _collect(block, inner, places)
                if type(block.get("toolResult")) is dict:
                    _collect(block["toolResult"], "content", places)


def _without_middle(text: str, size: int) -> str:
    mark = f" … [{len(text) - size:,} characters left out] … "
    half = max(2, size - len(mark)) // 2
    return text[:half] + mark + text[len(text) - half :]
