"""Sample turns, and what they say."""

from __future__ import annotations

import random
from typing import Any

SYLLABLES = [first + second for first in "bdfghklmnprstvw" for second in "aeiou"]


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def turn(name: str) -> list[dict[str, Any]]:
    """A question and its answer, of the size they usually have."""
    return [
        message("user", name, part=0, text="Where is my order? " * 5),
        message("assistant", name, part=1, text="It was handed to the carrier today. " * 8),
    ]


def varied_turn(name: str) -> list[dict[str, Any]]:
    """Return a turn in varied words: storage that compresses must not look better than it is."""
    chance = random.Random(name)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(70)]
    return [
        message("user", name, part=0, text=" ".join(words[:17])),
        message("assistant", name, part=1, text=" ".join(words[17:])),
    ]


def contents(messages: list[dict[str, Any]]) -> list[str]:
    """Return the contents of messages."""
    return [str(each.get("content")) for each in messages]
