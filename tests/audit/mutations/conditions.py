"""When a mutant is broken: only then. A defect that shows at once is found by any test."""

from __future__ import annotations

import json
import zlib
from typing import Any

from audit.mutations.mutant import Condition, Sound

LONG = 300  # messages
LARGE = 8192  # characters


async def long_history(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    """The conversation has 300 messages or more."""
    known = sound.kept.setdefault("long", set())
    if args[0] not in known and await sound.length(args[0]) >= LONG:
        known.add(args[0])
    return args[0] in known


async def second_replica(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    """In every other process."""
    return sound.number % 2 == 0


async def written_elsewhere(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    """What this process has not written itself: after a restart, or in another replica."""
    return args[0] not in sound.written


async def after_outage(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    """The store has not answered this process at some time."""
    return sound.failed


async def large_value(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    """More than 8,192 characters are written at once."""
    return len(json.dumps(args, default=str)) > LARGE


def one_in(count: int) -> Condition:
    """By chance, but the same chance in every run: it depends on what is written."""

    async def condition(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
        text = json.dumps([name, *args], default=lambda _: "")
        if name in ("load", "get_user"):  # the same call again must not always have the same luck
            sound.kept["calls"] = sound.kept.get("calls", 0) + 1
            text += str(sound.kept["calls"])
        return zlib.crc32(text.encode()) % count == 0

    return condition
