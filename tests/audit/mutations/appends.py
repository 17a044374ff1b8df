"""Turns that are lost, doubled, torn or in the wrong place, or acknowledged too early."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Messages, Sound, counted, mutants


def appended(change: Callable[[Messages], Messages]) -> dict[str, Around]:
    """Other messages than those that were given."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> Any:
        return await sound.append(thread, change(messages), key, **more)

    return {"append": append}


async def drop(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
    return None


async def double(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
    await sound.append(thread, messages, key, **more)
    await sound.append(thread, messages, f"{key}#again", **more)


async def one_by_one(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
    """Every message is a write of its own."""
    for number, each in enumerate(messages):
        await sound.append(thread, [each], f"{key}#{number}", **more)
        await asyncio.sleep(0.005)


def in_halves(pause: float) -> Around:
    """Two transactions; nobody else comes in between, but a kill may."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        async with sound.lock(f"mutant:{thread}", 1.0):
            await sound.append(thread, messages[:1], f"{key}#0", **more)
            await asyncio.sleep(pause)
            await sound.append(thread, messages[1:], f"{key}#1", **more)

    return append


# --- acknowledged early -----------------------------------------------------------------


def written_after(seconds: float) -> dict[str, Around]:
    """Acknowledged, and written by a task in the background; this process sees it at once."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        if more:  # with a fence: at once
            return await sound.append(thread, messages, key, **more)
        waiting: list[Any] = sound.kept.setdefault("waiting", [])
        entry = (thread, key, messages)
        if any(each[:2] == entry[:2] for each in waiting):
            return
        waiting.append(entry)

        async def write() -> None:
            await asyncio.sleep(seconds)
            await sound.append(thread, messages, key, **more)
            waiting.remove(entry)

        sound.kept.setdefault("tasks", set()).add(asyncio.create_task(write()))

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found = await sound.load(thread, None)
        for where, _, messages in list(sound.kept.get("waiting", [])):
            if where == thread:
                found = [*found, *messages]
        return found if last is None else found[len(found) - last if last < len(found) else 0 :]

    return {"append": append, "load": load}


def written_in_batches(count: int) -> dict[str, Around]:
    """Only every so many turns; the rest at the end of the process, if that is orderly."""

    async def flush(sound: Sound) -> None:
        waiting, sound.kept["waiting"] = sound.kept.get("waiting", []), []
        for thread, messages, key, more in waiting:
            await sound.append(thread, messages, key, **more)

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        if more:  # with a fence: at once
            return await sound.append(thread, messages, key, **more)
        sound.kept.setdefault("waiting", []).append((thread, messages, key, more))
        if len(sound.kept["waiting"]) >= count:
            await flush(sound)

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        await flush(sound)  # whoever reads here sees all that was written here
        found: Messages = await sound.load(thread, last)
        return found

    async def close(sound: Sound) -> None:
        await flush(sound)
        await sound.close()

    return {"append": append, "load": load, "close": close}


# --- order ------------------------------------------------------------------------------


async def load_by_text(sound: Sound, thread: str, last: int | None) -> Messages:
    """Numbers sorted as text: 10 comes before 9."""
    found = await sound.load(thread, None)
    order = sorted(range(len(found)), key=str)
    found = [found[number] for number in order]
    return found if last is None else found[max(0, len(found) - last) :]


def by_clock(skew: float) -> dict[str, Around]:
    """Sorted by the clock of whoever wrote; every other replica's clock is off."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        off = skew if await _number(sound) % 2 else 0.0
        stamped = [{"t": time.time() + off, "m": each} for each in messages]
        await sound.append(thread, stamped, key, **more)

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found = sorted(await sound.load(thread, None), key=lambda each: each["t"])
        plain = [each["m"] for each in found]
        return plain if last is None else plain[max(0, len(plain) - last) :]

    return {"append": append, "load": load}


async def _number(sound: Sound) -> int:
    if not sound.number:
        sound.number = await sound.change("processes", counted)
    return sound.number


# --- the table --------------------------------------------------------------------------

LOST = "turns kept"
ORDER = "order"
DURABLE = "acknowledged"

MUTANTS = mutants(
    ("append.drop@1in50", "One turn in fifty is missing.", (LOST,), {"append": drop},
     conditions.one_in(50)),
    ("append.drop@1in500", "One turn in five hundred is missing.", (LOST,), {"append": drop},
     conditions.one_in(500)),
    ("append.drop@long", "A conversation of 300 messages takes no more turns.", (LOST,),
     {"append": drop}, conditions.long_history),
    ("append.drop@large", "Turns of more than 8 KB are missing.", (LOST,), {"append": drop},
     conditions.large_value),
    ("append.drop_last", "The last message of each turn is missing.", (LOST,),
     appended(lambda m: m[:-1]), None),
    ("append.drop_first", "The first message of each turn is missing.", (LOST,),
     appended(lambda m: m[1:]), None),
    ("append.first_only@3", "Of three messages or more in one call only two are stored.",
     (LOST,), appended(lambda m: m[:2]), None),
    ("append.batch@10", "Of a turn with many tool calls, the messages after ten are missing.",
     (LOST,), appended(lambda m: m[:10]), None),
    ("append.batch@100", "Of an imported conversation, all after 100 messages is missing.",
     (LOST,), appended(lambda m: m[:100]), None),
    ("append.batch@500", "Of an imported conversation, all after 500 messages is missing.",
     (LOST,), appended(lambda m: m[:500]), None),
    ("append.empty_content", "Messages without text (tool calls) are missing.",
     ("messages kept",), appended(lambda m: [x for x in m if x.get("content")]), None),
    ("append.roles", "Messages of tools and of the system are missing.", ("messages kept",),
     appended(lambda m: [x for x in m if x.get("role") in ("user", "assistant")]), None),
    ("append.role_changed", "Messages of tools and of the system appear as the user's own.",
     ("messages kept",),
     appended(lambda m: [x if x.get("role") == "assistant" else {**x, "role": "user"}
                         for x in m]), None),
    ("append.only_role_and_content", "Tool calls and all else but role and text are missing.",
     ("messages kept",),
     appended(lambda m: [{k: v for k, v in x.items() if k in ("role", "content")}
                         for x in m]), None),
    ("append.known_fields", "Fields that the store has no column for are missing.",
     ("messages kept",),
     appended(lambda m: [{k: v for k, v in x.items()
                          if k in ("role", "content", "part", "text", "number")}
                         for x in m]), None),
    ("append.double@1in50", "One turn in fifty is there twice.", (LOST,), {"append": double},
     conditions.one_in(50)),
    ("append.double@long", "In long conversations each new turn is there twice.", (LOST,),
     {"append": double}, conditions.long_history),
    ("append.double@large", "Turns of more than 8 KB are there twice.", (LOST,),
     {"append": double}, conditions.large_value),
    ("append.double@second", "What every other replica writes is there twice.", (LOST,),
     {"append": double}, conditions.second_replica),
    ("append.drop@second", "What every other replica writes is missing.", (LOST,),
     {"append": drop}, conditions.second_replica),
    ("append.reversed", "The answer stands before its question.", (ORDER,),
     appended(lambda m: m[::-1]), None),
    ("append.reversed@large", "In turns of more than 8 KB the answer stands before its "
     "question.", (ORDER,), appended(lambda m: m[::-1]), conditions.large_value),
    ("append.one_by_one", "Two replicas' turns are mixed into each other.", (ORDER,),
     {"append": one_by_one}, None),
    ("append.in_halves", "After a kill there is a question without its answer.",
     ("torn",), {"append": in_halves(0.03)}, None),
    ("append.in_halves@large", "After a kill, half of a long turn is there.", ("torn",),
     {"append": in_halves(0.03)}, conditions.large_value),
    ("load.by_text", "After nine messages the order is wrong: 1, 10, 11, 2.", (ORDER,),
     {"load": load_by_text}, None),
    ("load.by_clock@5s", "One replica's turns stand in the wrong place by its clock.",
     (ORDER,), by_clock(5.0), None),
    ("load.by_clock@-5s", "One replica's turns stand before what they answer.", (ORDER,),
     by_clock(-5.0), None),
    ("load.by_clock@50ms", "Turns that follow closely are in the wrong order.", (ORDER,),
     by_clock(0.05), None),
    ("append.later@50ms", "A kill loses turns that were acknowledged.", (DURABLE,),
     written_after(0.05), None),
    ("append.later@500ms", "A kill loses the last half second of acknowledged turns.",
     (DURABLE,), written_after(0.5), None),
    ("append.in_batches@5", "A kill loses up to four acknowledged turns.", (DURABLE,),
     written_in_batches(5), None),
    ("append.in_batches@50", "A kill loses up to 49 acknowledged turns.", (DURABLE,),
     written_in_batches(50), None),
    ("append.at_close", "A kill loses all turns since the start.", (DURABLE,),
     written_in_batches(1_000_000), None),
)  # fmt: skip
