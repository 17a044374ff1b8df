"""Windows that show the wrong messages, and histories of which some are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Json, Messages, Mutant, Sound, fresh, mutants, tail


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


def forgotten_after(
    seconds: float, *, read_prolongs: bool = False, turn_prolongs: bool = True
) -> dict[str, Around]:
    """Gone so long after the conversation was last written to, or read, or begun."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        if more:  # the fence is still checked
            await sound.append(thread, [], fresh(), **more)
        await sound.append(f"{thread}#{await age(sound, thread)}", messages, key)
        now = time.time()
        await sound.change(f"ttl:{thread}", lambda value: value.setdefault("at", now))
        if turn_prolongs:
            await sound.change(f"ttl:{thread}", lambda value: value.update(at=now))

    async def age(sound: Sound, thread: str) -> int:
        """How often it has been gone."""

        def changed(value: Json) -> int:
            if time.time() - value.get("at", time.time()) > seconds:
                value["age"] = value.get("age", 0) + 1
                value.pop("at")
            return int(value.get("age", 0))

        return int(await sound.change(f"ttl:{thread}", changed))

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(f"{thread}#{await age(sound, thread)}", last)
        if read_prolongs and found:
            await sound.change(f"ttl:{thread}", lambda value: value.update(at=time.time()))
        return found

    return {"append": append, "load": load}


def says_it_keeps(seconds: float) -> Callable[[Any], None]:
    def inside(memory: Any) -> None:
        memory.retain = seconds

    return inside


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


async def nothing(sound: Sound, thread: str, last: int | None) -> Messages:
    return []


# --- the table --------------------------------------------------------------------------

WINDOW = "windows"
ORDER = "order"

MUTANTS = mutants(
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
     "middle of it.", ("retention",), forgotten_after(1.0, turn_prolongs=False), None),
    ("history.forgotten@5s", "A conversation is gone five seconds after its last turn.",
     ("retention",), forgotten_after(5.0), None),
    ("history.newest_threads@10", "Only the ten newest conversations are kept.",
     ("retention",), only_newest_threads(10), None),
    ("history.newest_threads@50", "Only the fifty newest conversations are kept.",
     ("retention",), only_newest_threads(50), None),
    ("history.elsewhere_lost", "A new process finds no conversation that another wrote.",
     ("turns kept",), {"load": nothing}, conditions.written_elsewhere),
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
)  # fmt: skip


MUTANTS.append(
    Mutant(
        "window.of_none",
        "A window of no message is the whole conversation.",
        (WINDOW,),
        window(lambda m, n: m[-n:]),
        least="warn",
    )
)


def _retaining(id: str, says: str, around: dict[str, Around]) -> Mutant:
    return Mutant(id, says, ("retention",), around, inside=says_it_keeps(KEPT))


KEPT = 4.0  # seconds
MUTANTS += [
    _retaining("retention.never", "What should be gone after some time stays for ever.", {}),
    _retaining(
        "retention.read_prolongs",
        "A conversation that somebody looks at is never gone.",
        forgotten_after(KEPT, read_prolongs=True),
    ),
    _retaining(
        "retention.from_first_turn",
        "A conversation is gone in the middle of it.",
        forgotten_after(KEPT, turn_prolongs=False),
    ),
    _retaining(
        "retention.half",
        "A conversation is gone after half of the time.",
        forgotten_after(KEPT / 2),
    ),
    _retaining(
        "retention.triple",
        "A conversation stays three times as long as it may.",
        forgotten_after(3 * KEPT),
    ),
]
CONTROLS = [_retaining("control.retention", "Nothing is broken.", forgotten_after(KEPT))]
