"""A person is erased: gone from every replica and from what is stored, and no one else is."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress
from typing import Any

from stateward.audit.differences import MISSING, SURPLUS
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import leftovers
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import ErasedPerson, Stage, Workload
from stateward.pages.words import plural

LONG = 130  # messages of each person's first conversation
TAILS = ("", "1", "A", "a", "ab", "%", "_", "*", "?", "/x", ":x", " ", "é")  # ids look alike
ERASED = ("a", "%", "*")  # tails of the people to erase
WRITTEN = 40  # messages an append

GONE = "gone immediately"
FRESH = "gone in a new process"
OTHERS = "other people's data stays"
TRACES = "no trace in the store"
ANEW = "id used again"
BACKUP = "a later backup"
KEPT = "spilled turns"
FILES = "no trace in the server's files"
AWAY = "-away"  # the tail of whoever is erased while a replica keeps a turn of theirs


async def conduct(stage: Stage) -> None:
    one, other = await stage.fleet.start(2)
    (base,) = stage.names("person-to-erase", 1)
    users, traces = stage.provides("users"), stage.provides("traces")
    how: dict[str, Any] = {"base": base, "seed": stage.record.seed, "users": users}
    await one.ask("erasure:write", patience=120.0, **how)
    checks = [await other.ask("erasure:look", erased=[], by="before", **how)]  # and remember it
    gone: list[str] = []
    for number, tail in enumerate(ERASED):
        by, beside = (one, other) if number % 2 else (other, one)
        await by.ask("erasure:erase", tail=tail, base=base)
        gone.append(tail)
        checks += [
            await replica.ask("erasure:look", erased=gone, by="a replica", **how)
            for replica in (by, beside)
        ]
    (fresh,) = await stage.fleet.start(fresh=True)
    checks.append(await fresh.ask("erasure:look", erased=gone, by="a new process", **how))
    more, spilled = await _kept_meanwhile(stage, one, base)
    checks.append(more)
    searched = [*gone, AWAY] if spilled else gone
    if traces:
        checks.append(await one.ask("erasure:search", erased=searched, patience=120.0, **how))
    checks.append(await other.ask("erasure:begin_anew", base=base, tail=gone[0]))
    checks.append(await leftovers.conduct(stage, other))
    await stage.fleet.end(one, other, fresh)
    await stage.fleet.rest()  # no replica's transaction may keep the server from rewriting files
    checks.append(await _search_files(stage, searched))
    stage.erased = [ErasedPerson(f"{base}{tail}", threads(base, tail)) for tail in gone[1:]]
    stage.record.erasure = merged(*checks)


async def _kept_meanwhile(
    stage: Stage, other: Replica, base: str
) -> tuple[list[dict[str, Any]], bool]:
    """Let a cut-off replica keep a turn of a person who is erased in the meantime.

    Returns the checks of that turn, and whether it was kept at all: not every memory does that.
    """
    fault = await stage.disturbances.away()
    if fault is None:
        return [], False
    (cut_off,) = await stage.fleet.start(fresh=True, **fault.changed)
    how: dict[str, Any] = {"base": base, "seed": stage.record.seed}
    try:
        await cut_off.ask("erasure:say", number=0, **how)
        await fault.begin(cut_off)
        try:
            outcomes = await cut_off.ask("erasure:say", number=1, patience=120.0, **how)
            spilled = set(outcomes) == {"kept"}
            cut_off.signal(signal.SIGSTOP)  # so that the erasure comes first
        finally:
            await fault.end(cut_off)
        if spilled:
            await other.ask("erasure:erase", base=base, tail=AWAY)
        cut_off.signal(signal.SIGCONT)
        with suppress(Failed):  # some bring what they kept when they are asked for something
            await cut_off.call("load", f"{base}-spared", None)
        if not spilled or not await other.ask(
            "erasure:wait_for_the_spared", base=base, seconds=stage.sizes.recovery,
            patience=stage.sizes.recovery + 30.0,
        ):  # fmt: skip
            return [], spilled
        asked = [await each.ask("erasure:look_for_kept", base=base) for each in (cut_off, other)]
        return [check for checks in asked for check in checks], True
    finally:
        cut_off.signal(signal.SIGCONT)
        await stage.fleet.end(cut_off)


async def _search_files(stage: Stage, erased: list[str]) -> list[dict[str, Any]]:
    """Search the files of a server of the audit's own, after the server rewrote them."""
    if stage.server_files is None:
        return []
    trials, seed = Trials(), stage.record.seed
    everywhere = await stage.server_files([secret(seed, tail) for tail in (TAILS[0], *erased)])
    if not everywhere[0]:
        return []  # even existing text is not found: the files store another form
    for files in everywhere[1:]:
        case = "erase a person, make the server rewrite its files, search them"
        trials.hold(FILES, not files, case, "found nowhere", ", ".join(files)[:300])
    return trials.plain()


async def look_in_backup(stage: Stage, restored: Any) -> None:
    """Check that erased data is not in a backup made afterwards."""
    trials = Trials()
    for person in stage.erased:
        there = [len(await restored.call("load", thread)) for thread in person.threads]
        if stage.provides("users"):
            there.append(len((await restored.call("get_user", person.user))[0]))
        case = "erase a person, back up, restore elsewhere, look for them"
        trials.compare(BACKUP, case, [0] * len(there), there)
    if stage.erased and stage.record.erasure is not None:
        stage.record.erasure = [*stage.record.erasure, *merged(trials)]


WORKLOAD = Workload("erasure", "erasure", "erasing people", conduct, unwatched=True)


# --- in a replica -----------------------------------------------------------------------


def threads(base: str, tail: str) -> list[str]:
    return [f"{base}-long{tail}", f"{base}-short{tail}"]


def secret(seed: int, tail: str) -> str:
    """Return a text that no one else has ever said."""
    return f"{random.Random(f'{seed}/secret/{tail}').getrandbits(96):024x}"


def _said(seed: int, tail: str, count: int) -> list[dict[str, Any]]:
    return [message("user", f"{secret(seed, tail)} {number}") for number in range(count)]


async def write(memory: Memory, tell: Any, base: str, seed: int, users: bool) -> None:
    for tail in TAILS:
        long, short = threads(base, tail)
        messages = _said(seed, tail, LONG)
        for first in range(0, LONG, WRITTEN):
            await within(memory.append(long, messages[first : first + WRITTEN], f"{first}"))
        await within(memory.append(short, messages[:1], "0"))
        if users:
            await within(memory.put_user(f"{base}{tail}", {"secret": secret(seed, tail)}))


async def say(memory: Memory, tell: Any, base: str, seed: int, number: int) -> list[str]:
    """Append concurrent turns of a person who is erased and of one who is not."""
    texts = {thread: f"{secret(seed, AWAY)} {number}" for thread in threads(base, AWAY)}
    texts[f"{base}-spared"] = f"spared {number}"

    async def one(thread: str, text: str) -> str:
        try:
            messages = [message("user", text)]
            return str(await within(memory.append(thread, messages, f"{number}"), 30.0))
        except Exception as error:
            return words(error)

    return list(await asyncio.gather(*(one(*each) for each in texts.items())))


async def wait_for_the_spared(memory: Memory, tell: Any, base: str, seconds: float) -> bool:
    """Wait for the spilled turn of another person; return True if it came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(await within(memory.load(f"{base}-spared"))) == 2:
            return True
        await asyncio.sleep(0.1)
    return False


async def look_for_kept(memory: Memory, tell: Any, base: str) -> list[dict[str, Any]]:
    trials = Trials()
    case = "spill a turn, erase its person elsewhere, reconnect the replica to the store"
    with trials.expecting(KEPT, case, "no message"):
        count = len(await within(memory.load(threads(base, AWAY)[0])))
        trials.hold(KEPT, not count, case, "no message", f"{plural(count, 'message')}")
    return trials.plain()


async def erase(memory: Memory, tell: Any, base: str, tail: str) -> None:
    await within(memory.call("erase", f"{base}{tail}", threads(base, tail)), 30.0)


async def _there(memory: Memory, base: str, tail: str, users: bool) -> list[int]:
    """Count the messages of each conversation, and the fields of the user's state."""
    counts = [len(await within(memory.load(thread))) for thread in threads(base, tail)]
    if users:
        counts.append(len((await within(memory.get_user(f"{base}{tail}")))[0]))
    return counts


async def look(
    memory: Memory, tell: Any, base: str, seed: int, users: bool, erased: list[str], by: str
) -> list[dict[str, Any]]:
    trials = Trials()
    for tail in TAILS:
        gone = tail in erased
        promise = (FRESH if by == "a new process" else GONE) if gone else OTHERS
        whole = [LONG, 1, 1] if users else [LONG, 1]
        expected = [0] * len(whole) if gone else whole
        case = f"erase …{' and …'.join(erased) or 'no one'}; what {by} finds of …{tail}"
        try:
            counts = await _there(memory, base, tail, users)
        except Exception as error:
            trials.differ(promise, case, f"{expected}", error)
            continue
        less = any(one < other for one, other in zip(counts, expected, strict=True))
        kind = MISSING if less else SURPLUS
        trials.hold(promise, counts == expected, case, _words(expected), _words(counts), kind)
    return trials.plain()


def _words(found: list[int]) -> str:
    state = f", user's state {'known' if found[2] else 'unknown'}" if len(found) > 2 else ""
    return f"{found[0]} and {found[1]} messages{state}"


async def search(
    memory: Memory, tell: Any, base: str, seed: int, users: bool, erased: list[str]
) -> list[dict[str, Any]]:
    """Search all that is stored. Finding the other people proves that the search works."""
    trials = Trials()
    others = [tail for tail in TAILS if tail not in erased]
    if not await within(memory.call("traces", secret(seed, others[-1])), 60.0):
        return []
    for tail in erased:
        places = await within(memory.call("traces", secret(seed, tail)), 60.0)
        trials.hold(TRACES, not places, "erase a person, search for what they said",
                    "found nowhere", ", ".join(map(str, places))[:300])  # fmt: skip
    return trials.plain()


async def begin_anew(memory: Memory, tell: Any, base: str, tail: str) -> list[dict[str, Any]]:
    trials = Trials()
    thread = threads(base, tail)[0]
    case = "erase a person, append to the same conversation, load it"
    with trials.expecting(ANEW, case, "only what was said since"):
        await within(memory.append(thread, [message("user", "anew")], "anew"))
        texts = [str(each.get("content")) for each in await within(memory.load(thread))]
        trials.compare(ANEW, case, ["anew"], texts[:20])
    return trials.plain()
