"""Keys that do not make a second delivery harmless, or that make a first one vanish."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Json, Messages, Sound, fresh, mutants


def with_key(change: Callable[[str], str]) -> dict[str, Around]:
    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> Any:
        return await sound.append(thread, messages, change(key), **more)

    return {"append": append}


async def key_in_any_thread(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    first = await sound.change(f"key:{key}", lambda value: value.setdefault("thread", thread))
    if first == thread:
        await sound.append(thread, messages, key, **more)


def key_for_seconds(seconds: float) -> Around:
    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        name = f"key:{thread}:{key}"
        at = await sound.change(name, lambda value: value.setdefault("at", time.time()))
        if time.time() - at > seconds:
            await sound.remember(name, {"at": time.time()})
            key = fresh()
        await sound.append(thread, messages, key, **more)

    return append


async def key_in_process(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    known = sound.kept.setdefault("keys", set())
    if (thread, key) not in known:
        known.add((thread, key))
        await sound.append(thread, messages, fresh(), **more)


async def key_of_last(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
    """Only the last key is remembered."""
    name = f"last:{thread}"

    def is_new(value: Json) -> bool:
        new = value.get("key") != key
        value["key"] = key
        return new

    if await sound.change(name, is_new):
        await sound.append(thread, messages, fresh(), **more)


def key_among_last(count: int) -> Around:
    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        def is_new(value: Json) -> bool:
            keys = value.setdefault("keys", [])
            if key in keys:
                return False
            value["keys"] = [*keys, key][-count:]
            return True

        if await sound.change(f"keys:{thread}", is_new):
            await sound.append(thread, messages, fresh(), **more)

    return append


async def key_checked_apart(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    name = f"key:{thread}:{key}"
    if await sound.remembered(name):
        return
    await asyncio.sleep(0.01)
    await sound.append(thread, messages, fresh(), **more)
    await sound.remember(name, {"used": True})


async def key_noted_first(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    """The key is stored, then the turn: a kill in between, and the next delivery is ignored."""
    new = await sound.change(f"key:{thread}:{key}", _first_time)
    if new:
        await asyncio.sleep(0.03)
        await sound.append(thread, messages, key, **more)


def _first_time(value: Json) -> bool:
    new = "used" not in value
    value["used"] = True
    return new


def said(each: Json) -> str:
    return json.dumps(each, sort_keys=True)


async def unless_said_before(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    known = {said(each) for each in await sound.load(thread, None)}
    new = [each for each in messages if said(each) not in known]
    await sound.append(thread, new, key, **more)


async def unless_just_said(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    last = [said(each) for each in await sound.load(thread, len(messages))]
    if last != [said(each) for each in messages]:
        await sound.append(thread, messages, key, **more)


async def key_of_content(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> None:
    content = hashlib.sha256(said({"": messages}).encode()).hexdigest()
    await sound.append(thread, messages, content, **more)


# --- the table --------------------------------------------------------------------------

KEYS = "keys"

MUTANTS = mutants(
    ("key.ignored", "A second delivery is there twice.", (KEYS,), with_key(lambda _: fresh()),
     None),
    ("key.ignored@long", "In long conversations a second delivery is there twice.", (KEYS,),
     with_key(lambda _: fresh()), conditions.long_history),
    ("key.ignored@large", "A second delivery of a long turn is there twice.", (KEYS,),
     with_key(lambda _: fresh()), conditions.large_value),
    ("key.ignored@second", "A second delivery by another replica is there twice.", (KEYS,),
     with_key(lambda _: fresh()), conditions.second_replica),
    ("key.in_any_thread", "A turn is missing whose key another conversation has used.",
     (KEYS,), {"append": key_in_any_thread}, None),
    ("key.for@1s", "A delivery repeated after a second is there twice.", (KEYS,),
     {"append": key_for_seconds(1.0)}, None),
    ("key.for@3s", "A delivery repeated after three seconds is there twice.", (KEYS,),
     {"append": key_for_seconds(3.0)}, None),
    ("key.in_process", "A delivery repeated after a restart is there twice.", (KEYS,),
     {"append": key_in_process}, None),
    ("key.last_only", "A delivery repeated after another turn is there twice.", (KEYS,),
     {"append": key_of_last}, None),
    ("key.among_last@10", "A delivery repeated after ten turns is there twice.", (KEYS,),
     {"append": key_among_last(10)}, None),
    ("key.among_last@100", "A delivery repeated after a hundred turns is there twice.",
     (KEYS,), {"append": key_among_last(100)}, None),
    ("key.case", "A turn is missing whose key differs from another in capitals only.",
     (KEYS,), with_key(str.lower), None),
    ("key.truncated@16", "A turn is missing whose key begins as another does.", (KEYS,),
     with_key(lambda key: key[:16]), None),
    ("key.truncated@64", "A turn is missing whose long key begins as another does.", (KEYS,),
     with_key(lambda key: key[:64]), None),
    ("key.blanks", "A turn is missing whose key differs from another in a blank only.",
     (KEYS,), with_key(str.strip), None),
    ("key.of_content", "Saying the same twice (yes, yes) is stored once.", (KEYS,),
     {"append": key_of_content}, None),
    ("key.said_before", "A message that was said before is not stored again.", (KEYS,),
     {"append": unless_said_before}, None),
    ("key.just_said", "A turn that repeats the one before it is not stored.", (KEYS,),
     {"append": unless_just_said}, None),
    ("key.checked_apart", "Two deliveries at once are there twice.", (KEYS,),
     {"append": key_checked_apart}, None),
    ("key.noted_first", "A turn whose first delivery was cut off is never stored.",
     ("torn",), {"append": key_noted_first}, None),
)  # fmt: skip
