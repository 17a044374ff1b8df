"""Calls that take too long, and histories that take too much room."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import (
    Around,
    Json,
    Messages,
    Mutant,
    Sound,
    counted,
    fresh,
    mutants,
    tail,
)


def slow(method: str, seconds: float) -> dict[str, Around]:
    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(seconds)
        return await sound.call(method, *args, **more)

    return {method: around}


def slow_with_history(method: str, a_message: float) -> dict[str, Around]:
    """As a scan does: each message that is there costs."""

    async def around(sound: Sound, thread: str, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(a_message * await sound.length(thread))
        return await sound.call(method, thread, *args, **more)

    return {method: around}


def slow_with_threads(method: str, a_thread: float) -> dict[str, Around]:
    """As a missing index does: each conversation that is there costs."""

    async def append(sound: Sound, thread: str, *args: Any, **more: Any) -> Any:
        if thread not in sound.written:
            await sound.change("threads", counted)
        if method == "append":
            await asyncio.sleep(a_thread * (await sound.remembered("threads")).get("count", 0))
        return await sound.append(thread, *args, **more)

    async def load(sound: Sound, thread: str, last: int | None) -> Any:
        if method == "load":
            await asyncio.sleep(a_thread * (await sound.remembered("threads")).get("count", 0))
        return await sound.load(thread, last)

    return {"append": append, "load": load}


def one_document() -> dict[str, Around]:
    """The whole conversation in one document, which is written anew with each turn."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        def changed(value: Json) -> None:
            if key not in value.setdefault("keys", []):
                value["keys"].append(key)
                value.setdefault("messages", []).extend(messages)

        if more:  # the fence is still checked
            await sound.append(thread, [], fresh(), **more)
        await sound.change(f"thread:{thread}", changed)

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = (await sound.remembered(f"thread:{thread}")).get("messages", [])
        return found if last is None else tail(found, last)

    return {"append": append, "load": load}


async def with_snapshot(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    """A copy of the whole conversation is kept with each turn."""
    await sound.append(thread, messages, key, **more)
    await sound.remember(f"copy:{thread}:{key}", {"all": await sound.load(thread, None)})


async def reads_all(sound: Sound, thread: str, last: int | None) -> Messages:
    found: Messages = json.loads(json.dumps(await sound.load(thread, None)))
    found = json.loads(json.dumps(found, indent=1))
    return found if last is None else tail(found, last)


def cold(seconds: float) -> dict[str, Around]:
    """A process that has just started is slow at first."""

    async def load(sound: Sound, *args: Any) -> Any:
        if sound.kept.setdefault("loads", 0) < 20:
            sound.kept["loads"] += 1
            await asyncio.sleep(seconds)
        return await sound.load(*args)

    return {"load": load}


def one_at_a_time(seconds: float) -> dict[str, Around]:
    """One lock for all conversations of a process."""

    async def load(sound: Sound, *args: Any) -> Any:
        async with sound.kept.setdefault("lock", asyncio.Lock()):
            await asyncio.sleep(seconds)
            return await sound.load(*args)

    return {"load": load}


# --- the table --------------------------------------------------------------------------

SPEED = "speed"

MUTANTS = mutants(
    ("load.slow@150ms", "Every lookup takes 150 ms.", (SPEED,), slow("load", 0.15), None),
    ("load.slow@1in5", "One lookup in five takes half a second.", (SPEED,),
     slow("load", 0.5), conditions.one_in(5)),
    ("load.one_at_a_time@60ms", "Lookups wait for each other.", (SPEED,), one_at_a_time(0.06),
     None),
    ("load.slow_with_history", "Lookups take longer the longer the conversation.",
     ("growth",), slow_with_history("load", 5e-5), None),
    ("append.slow_with_history", "Turns take longer to store the longer the conversation.",
     ("growth",), slow_with_history("append", 5e-5), None),
    ("load.slow_with_threads", "Lookups take longer the more conversations there are.",
     ("growth",), slow_with_threads("load", 1e-3), None),
    ("append.slow_with_threads", "Turns take longer to store the more conversations there "
     "are.", ("growth",), slow_with_threads("append", 1e-3), None),
    ("append.slow@500ms", "Storing a turn takes half a second.", (SPEED,),
     slow("append", 0.5), None),
    ("append.one_document", "Each turn writes the whole conversation anew.", ("growth",),
     one_document(), None),
    ("append.snapshots", "The store grows by the whole conversation with each turn.",
     ("growth",), {"append": with_snapshot}, None),
    ("load.reads_all", "Lookups read the whole conversation to show the end of it.",
     ("growth",), {"load": reads_all}, None),
)  # fmt: skip
MUTANTS.append(
    Mutant(
        "load.cold@1s",
        "A replica that has just started is slow at first.",
        (SPEED,),
        cold(1.0),
        least="warn",
        found="first lookups",
    )
)
