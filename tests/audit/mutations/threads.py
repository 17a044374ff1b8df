"""Conversations that lose, double, reorder, mix up or forget turns, and windows that are wrong."""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import json
import re
import time
import unicodedata
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Condition, Json, Mutant, Sound

Messages = list[Json]


def fresh() -> str:
    """A key that nobody has used."""
    return uuid.uuid4().hex


# --- what is appended -------------------------------------------------------------------


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


# --- keys -------------------------------------------------------------------------------


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
        sound.number = await sound.change("processes", _count)
    return sound.number


def _count(value: Json) -> int:
    value["count"] = value.get("count", 0) + 1
    return int(value["count"])


# --- windows ----------------------------------------------------------------------------


def window(change: Callable[[Messages, int], Messages]) -> dict[str, Around]:
    """What is shown if only the last so many are asked for: of all messages and that number."""

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(thread, None)
        return found if last is None else change(found, last)

    return {"load": load}


def history(change: Callable[[Messages], Messages]) -> dict[str, Around]:
    """What is there of a history, whether all or a window of it is asked for."""

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found = change(await sound.load(thread, None))
        return found if last is None else found[max(0, len(found) - last) :]

    return {"load": load}


def whole(change: Callable[[Messages], Messages]) -> dict[str, Around]:
    """What is shown if all is asked for."""

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(thread, last)
        return change(found) if last is None else found

    return {"load": load}


def tail(found: Messages, last: int) -> Messages:
    return found[max(0, len(found) - last) :]


def pages(overlap: int) -> Callable[[Messages], Messages]:
    """Read in pages of 100 that overlap, or leave gaps."""

    def change(found: Messages) -> Messages:
        read: Messages = []
        for first in range(0, len(found), 100):
            read += found[max(0, first - overlap if first else 0) : first + 100]
        return read

    def gaps(found: Messages) -> Messages:
        return [each for at, each in enumerate(found) if not at or at % 100]

    return change if overlap > 0 else gaps


async def window_of_before(sound: Sound, thread: str, last: int | None) -> Messages:
    """Kept by thread alone: another window of the same conversation gets this one."""
    found: Messages = await sound.load(thread, None)
    if last is None:
        return found
    kept = sound.kept.setdefault("windows", {})
    size = kept.setdefault(thread, last)
    return tail(found, size)


# --- forgotten --------------------------------------------------------------------------


def forgotten_after(seconds: float, *, read_prolongs: bool = False) -> dict[str, Around]:
    """Gone so long after the conversation was last written to, or read."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        await sound.append(thread, messages, key, **more)
        await sound.remember(f"ttl:{thread}", {"at": time.time()})

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        at = (await sound.remembered(f"ttl:{thread}")).get("at", time.time())
        if time.time() - at > seconds:
            return []
        if read_prolongs:
            await sound.remember(f"ttl:{thread}", {"at": time.time()})
        found: Messages = await sound.load(thread, last)
        return found

    return {"append": append, "load": load}


def fixed_lifetime(seconds: float) -> dict[str, Around]:
    """Gone so long after its beginning, however often it is written to."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        await sound.append(thread, messages, key, **more)
        await sound.change(f"ttl:{thread}", lambda value: value.setdefault("at", time.time()))

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        at = (await sound.remembered(f"ttl:{thread}")).get("at", time.time())
        return [] if time.time() - at > seconds else await sound.load(thread, last)

    return {"append": append, "load": load}


def only_newest_threads(count: int) -> dict[str, Around]:
    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        await sound.append(thread, messages, key, **more)

        def touched(value: Json) -> None:
            names = [each for each in value.get("threads", []) if each != thread]
            value["threads"] = [*names, thread][-count:]

        await sound.change("newest", touched)

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        there = (await sound.remembered("newest")).get("threads", [])
        return await sound.load(thread, last) if thread in there else []

    return {"append": append, "load": load}


# --- stale ------------------------------------------------------------------------------


def cached(method: str, seconds: float, own_writes: bool = True) -> dict[str, Around]:
    """Answered from what this process read before; its own writes are seen if `own_writes`."""

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        kept = sound.kept.setdefault(method, {})
        at, found = kept.get((id, more), (-1e9, None))
        if time.monotonic() - at > seconds:
            found = await sound.call(method, id, *more)
            kept[id, more] = (time.monotonic(), found)
        return found

    async def write(name: str, sound: Sound, id: str, *args: Any, **more: Any) -> Any:
        done = await sound.call(name, id, *args, **more)
        kept = sound.kept.get(method, {})
        for entry in [each for each in kept if each[0] == id]:
            del kept[entry]
        return done

    def writing(name: str) -> Around:
        async def around(sound: Sound, *args: Any, **more: Any) -> Any:
            return await write(name, sound, *args, **more)

        return around

    writes = ("append",) if method == "load" else ("put_user", "update_user")
    found: dict[str, Around] = {method: read}
    if own_writes:
        found |= {name: writing(name) for name in writes}
    return found


def nothing_cached(method: str, seconds: float) -> dict[str, Around]:
    """That something is unknown is believed for a while."""

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        kept = sound.kept.setdefault(f"nothing {method}", {})
        if time.monotonic() - kept.get(id, -1e9) < seconds:
            return [] if method == "load" else ({}, 0)
        found = await sound.call(method, id, *more)
        if not (found if method == "load" else found[0]):
            kept[id] = time.monotonic()
        return found

    return {method: read}


def lagging(method: str, seconds: float) -> dict[str, Around]:
    """Reads are of a copy that lags behind, also one's own writes."""
    write = "append" if method == "load" else "put_user"

    async def written(sound: Sound, id: str, *args: Any, **more: Any) -> Any:
        before = await sound.call(method, id, *([None] if method == "load" else []))
        await sound.remember(f"lag:{id}", {"at": time.time(), "before": before})
        return await sound.call(write, id, *args, **more)

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        lag = await sound.remembered(f"lag:{id}")
        if lag and time.time() - lag["at"] < seconds:
            before = lag["before"]
            if method == "load":
                return before if more[0] is None else tail(before, more[0])
            return before[0], before[1]
        return await sound.call(method, id, *more)

    return {write: written, method: read}


# --- mixed up ---------------------------------------------------------------------------


def with_id(change: Callable[[str], str], *methods: str) -> dict[str, Around]:
    """What belongs to one id belongs to all that look alike."""

    def around(name: str) -> Around:
        if name == "lock":
            return lambda sound, id, ttl: sound.lock(change(id), ttl)

        async def mixed(sound: Sound, id: str, *args: Any, **more: Any) -> Any:
            return await sound.call(name, change(id), *args, **more)

        return mixed

    return {name: around(name) for name in methods}


def matching(alike: Callable[[str, str], bool]) -> dict[str, Around]:
    """A load shows all conversations that a pattern matches."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        await sound.append(thread, messages, key, **more)
        known = sound.kept.setdefault("registered", set())
        if thread not in known:
            known.add(thread)
            await sound.change("registered", lambda value: value.update({thread: True}))

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        names = await sound.remembered("registered")
        found: Messages = []
        for name in names:
            if name == thread or alike(thread, name):
                found += await sound.load(name, None)
        return found if last is None else tail(found, last)

    return {"append": append, "load": load}


def like(pattern: str, name: str) -> bool:
    """SQL's LIKE."""
    words = re.escape(pattern).replace("%", ".*").replace("_", ".")
    return re.fullmatch(words, name, re.DOTALL) is not None


IDS: dict[str, tuple[Callable[[str], str], str]] = {
    "case": (str.lower, "that differ in capitals only"),
    "blanks": (str.strip, "that differ in blanks at their ends only"),
    "truncated@24": (lambda id: id[:24], "that begin with the same 24 characters"),
    "truncated@64": (lambda id: id[:64], "that begin with the same 64 characters"),
    "truncated@128": (lambda id: id[:128], "that begin with the same 128 characters"),
    "slash": (lambda id: id.rstrip("/").rpartition("/")[2], "that end alike after a slash"),
    "path": (lambda id: re.sub(r"[^A-Za-z0-9_-]", "_", id), "that differ in punctuation only"),
    "colon": (lambda id: id.partition(":")[0], "that are alike up to a colon"),
    "accents": (
        lambda id: unicodedata.normalize("NFD", id).encode("ascii", "ignore").decode() or id,
        "that differ in accents only",
    ),
    "composed": (
        lambda id: unicodedata.normalize("NFC", id),
        "whose accents are composed in two ways",
    ),
    "numbers": (lambda id: str(int(id)) if id.isdigit() else id, "such as 7 and 007"),
    "hashed@12bits": (lambda id: str(zlib.crc32(id.encode()) % 4096), "whose hashes collide"),
    "nul": (lambda id: id.partition("\0")[0], "that are alike up to a NUL character"),
    "escaped": (lambda id: id.replace("%2F", "/").replace("+", " "), "such as a+b and a b"),
}


# --- leaks ------------------------------------------------------------------------------


async def unknown_is_last(sound: Sound, thread: str, last: int | None) -> Messages:
    found: Messages = await sound.load(thread, last)
    if found:
        sound.kept["last loaded"] = found
    return found or sound.kept.get("last loaded", [])


def shared_default() -> dict[str, Around]:
    """`def load(thread, found=[])`: what is appended to a new conversation stays in there."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        if not await sound.load(thread, 1):
            sound.kept.setdefault("default", []).extend(messages)
        await sound.append(thread, messages, key, **more)

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(thread, last)
        return found or list(sound.kept.get("default", []))

    return {"append": append, "load": load}


# --- slow and large ---------------------------------------------------------------------


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
            await sound.change("threads", _count)
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

LOST, KEYS, WINDOW, MIXED = "turns kept", "keys", "windows", "threads apart"
ORDER, DURABLE, FRESH, SPEED = "order", "acknowledged", "fresh", "speed"


def _table() -> list[Mutant]:
    rows: list[tuple[str, str, tuple[str, ...], dict[str, Around], Condition | None]] = [
        # drop and double
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
        # order and atomicity
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
        # keys
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
        # acknowledged early
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
        # forgotten
        ("history.trimmed@20", "All but the last 20 messages are gone.", (WINDOW,),
         history(lambda m: m[-20:]), None),
        ("history.trimmed@100", "All but the last 100 messages are gone.", (WINDOW,),
         history(lambda m: m[-100:]), None),
        ("history.trimmed@400", "All but the last 400 messages are gone.", (WINDOW,),
         history(lambda m: m[-400:]), None),
        ("history.trimmed@1000", "All but the last 1,000 messages are gone.", (WINDOW,),
         history(lambda m: m[-1000:]), None),
        ("history.first_lost@100", "After 100 messages the first, the instruction, is gone.",
         (WINDOW,), history(lambda m: m[1:] if len(m) > 100 else m), None),
        ("history.middle_lost@200", "After 200 messages some in the middle are gone.", (WINDOW,),
         history(lambda m: m[:50] + m[60:] if len(m) > 200 else m), None),
        ("history.forgotten@1s", "A conversation is gone a second after its last turn.",
         ("retention",), forgotten_after(1.0), None),
        ("history.lifetime@1s", "A conversation is gone a second after its first turn, in the "
         "middle of it.", ("retention",), fixed_lifetime(1.0), None),
        ("history.forgotten@5s", "A conversation is gone five seconds after its last turn.",
         ("retention",), forgotten_after(5.0), None),
        ("history.newest_threads@10", "Only the ten newest conversations are kept.",
         ("retention",), only_newest_threads(10), None),
        ("history.newest_threads@50", "Only the fifty newest conversations are kept.",
         ("retention",), only_newest_threads(50), None),
        ("history.elsewhere_lost", "A new process finds no conversation that another wrote.",
         ("turns kept",), {"load": _nothing}, conditions.written_elsewhere),
        # windows
        ("window.one_less", "The window has one message less than was asked for.", (WINDOW,),
         window(lambda m, n: tail(m, n - 1) if n > 1 else tail(m, n)), None),
        ("window.one_more", "The window has one message more than was asked for.", (WINDOW,),
         window(lambda m, n: tail(m, n + 1)), None),
        ("window.reversed", "The window has the newest message first.", (WINDOW,),
         window(lambda m, n: tail(m, n)[::-1]), None),
        ("window.lacks_newest", "The window lacks the newest message.", (WINDOW,),
         window(lambda m, n: tail(m[:-1], n)), None),
        ("window.lacks_newest_turn", "The window lacks the newest turn.", (WINDOW,),
         window(lambda m, n: tail(m[:-2], n)), None),
        ("window.first", "The window is of the beginning of the conversation.", (WINDOW,),
         window(lambda m, n: m[:n]), None),
        ("window.ignored", "Always the whole conversation is read.", (WINDOW,),
         window(lambda m, n: m), None),
        ("window.capped@20", "More than 20 messages are never shown in a window.", (WINDOW,),
         window(lambda m, n: tail(m, min(n, 20))), None),
        ("window.capped@100", "More than 100 messages are never shown in a window.", (WINDOW,),
         window(lambda m, n: tail(m, min(n, 100))), None),
        ("window.in_turns", "The window counts turns where messages were asked for.", (WINDOW,),
         window(lambda m, n: tail(m, 2 * n)), None),
        ("window.from_user", "The window leaves out an answer that it begins with.", (WINDOW,),
         window(lambda m, n: tail(m, n)[1:] if tail(m, n)[:1] and
                tail(m, n)[0].get("role") == "assistant" else tail(m, n)), None),
        ("window.too_long", "A window larger than the conversation is empty.", (WINDOW,),
         window(lambda m, n: tail(m, n) if n <= len(m) else []), None),
        ("window.of_one", "A window of one message is empty.", (WINDOW,),
         window(lambda m, n: tail(m, n) if n > 1 else []), None),
        ("window.of_none", "A window of no message is the whole conversation.", (WINDOW,),
         window(lambda m, n: m[-n:]), None),
        ("window.kept", "A window of another size is the same as the first.", (WINDOW,),
         {"load": window_of_before}, None),
        ("window.lacks_newest@long", "In long conversations the window lacks the newest.",
         (WINDOW,), window(lambda m, n: tail(m[:-1], n)), conditions.long_history),
        ("window.reversed@long", "In long conversations the window is reversed.", (WINDOW,),
         window(lambda m, n: tail(m, n)[::-1]), conditions.long_history),
        ("window.one_less@long", "In long conversations the window is one short.", (WINDOW,),
         window(lambda m, n: tail(m, n - 1) if n > 1 else tail(m, n)), conditions.long_history),
        ("window.lacks_newest@restart", "What another replica wrote last is not in the window.",
         (WINDOW,), window(lambda m, n: tail(m[:-1], n)), conditions.written_elsewhere),
        ("load.capped@50", "Reading all gives the last 50 messages.", (WINDOW,),
         whole(lambda m: m[-50:]), None),
        ("load.capped@1000", "Reading all gives the last 1,000 messages.", (WINDOW,),
         whole(lambda m: m[-1000:]), None),
        ("load.first@1000", "Reading all gives the first 1,000 messages.", (WINDOW,),
         whole(lambda m: m[:1000]), None),
        ("load.pages_overlap", "After 100 messages one is read twice.", (WINDOW,),
         whole(pages(1)), None),
        ("load.pages_apart", "Every hundredth message is not read.", (WINDOW,),
         whole(pages(-1)), None),
        ("load.reversed", "Reading all gives the newest first.", (ORDER,),
         whole(lambda m: m[::-1]), None),
        # stale
        ("load.cached@50ms", "For 50 ms a replica does not see another's turns.", (FRESH,),
         cached("load", 0.05), None),
        ("load.cached@300ms", "For 300 ms a replica does not see another's turns.", (FRESH,),
         cached("load", 0.3), None),
        ("load.cached@2s", "For two seconds a replica does not see another's turns.", (FRESH,),
         cached("load", 2.0), None),
        ("load.cached@ever", "A replica that has read a conversation never sees another's turns.",
         (FRESH,), cached("load", 1e9), None),
        ("load.cached_own@300ms", "For 300 ms a replica does not see its own turn.", (FRESH,),
         cached("load", 0.3, own_writes=False), None),
        ("load.nothing_cached@2s", "A new conversation looks empty to whoever asked too early.",
         (FRESH,), nothing_cached("load", 2.0), None),
        ("load.lagging@30ms", "For 30 ms nobody sees a turn.", (FRESH,), lagging("load", 0.03),
         None),
        ("load.lagging@300ms", "For 300 ms nobody sees a turn.", (FRESH,), lagging("load", 0.3),
         None),
        ("load.cached@long", "In long conversations a replica does not see another's turns.",
         (FRESH,), cached("load", 0.3), conditions.long_history),
        ("load.cached@1in20", "Now and then a replica does not see another's turns.", (FRESH,),
         {"load": cached("load", 0.5, own_writes=False)["load"]}, conditions.one_in(20)),
        # mixed up
        ("threads.wildcards", "A conversation whose id has _ or % shows others too.", (MIXED,),
         matching(like), None),
        ("threads.stars", "A conversation whose id has * or ? shows others too.", (MIXED,),
         matching(lambda pattern, name: fnmatch.fnmatchcase(name, pattern)), None),
        ("threads.prefix", "A conversation shows those whose id begins with its own.", (MIXED,),
         matching(lambda pattern, name: name.startswith(pattern)), None),
        ("threads.unknown_is_last", "A new conversation shows another user's.", (MIXED,),
         {"load": unknown_is_last}, None),
        ("threads.shared_default", "A new conversation shows what others began with.", (MIXED,),
         shared_default(), None),
        # slow and large
        ("load.slow@150ms", "Every lookup takes 150 ms.", (SPEED,), slow("load", 0.15), None),
        ("load.slow@1in5", "One lookup in five takes half a second.", (SPEED,),
         slow("load", 0.5), conditions.one_in(5)),
        ("load.cold@1s", "A replica that has just started is slow at first.", (SPEED,), cold(1.0),
         None),
        ("load.one_at_a_time@25ms", "Lookups wait for each other.", (SPEED,), one_at_a_time(0.025),
         None),
        ("load.slow_with_history", "Lookups take longer the longer the conversation.",
         ("growth",), slow_with_history("load", 5e-5), None),
        ("append.slow_with_history", "Turns take longer to store the longer the conversation.",
         ("growth",), slow_with_history("append", 5e-5), None),
        ("load.slow_with_threads", "Lookups take longer the more conversations there are.",
         ("growth",), slow_with_threads("load", 5e-4), None),
        ("append.slow_with_threads", "Turns take longer to store the more conversations there "
         "are.", ("growth",), slow_with_threads("append", 5e-4), None),
        ("append.slow@500ms", "Storing a turn takes half a second.", (SPEED,),
         slow("append", 0.5), None),
        ("append.one_document", "Each turn writes the whole conversation anew.", ("growth",),
         one_document(), None),
        ("append.snapshots", "The store grows by the whole conversation with each turn.",
         ("growth",), {"append": with_snapshot}, None),
        ("load.reads_all", "Lookups read the whole conversation to show the end of it.",
         ("growth",), {"load": reads_all}, None),
    ]  # fmt: skip
    found = [Mutant(id, says, by, around, when=when) for id, says, by, around, when in rows]
    for name, (change, alike) in IDS.items():
        found.append(
            Mutant(
                f"threads.{name}",
                f"Conversations are mixed {alike}.",
                (MIXED,),
                with_id(change, "append", "load", "lock"),
            )
        )
    return found


async def _nothing(sound: Sound, thread: str, last: int | None) -> Messages:
    return []


MUTANTS = _table()
