"""Conversations that are mixed up with each other."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
import zlib
from collections.abc import Callable
from typing import Any

from audit.mutations.mutant import Around, Messages, Mutant, Sound, mutants, tail


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


# --- the table --------------------------------------------------------------------------

MIXED = "threads apart"

MUTANTS = mutants(
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
)  # fmt: skip
MUTANTS += [
    Mutant(
        f"threads.{name}",
        f"Conversations are mixed {alike}.",
        (MIXED,),
        with_id(change, "append", "load", "lock"),
    )
    for name, (change, alike) in IDS.items()
]
