"""A person is erased: gone from every replica and from what is stored, and no one else is."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress
from typing import Any

from stateward.audit.plurals import plural
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import message
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import ErasedPerson, Stage, Workload

LONG = 130  # messages of each person's first conversation
TAILS = ("", "1", "A", "a", "ab", "%", "_", "*", "?", "/x", ":x", " ", "é")  # ids look alike
ERASED = ("a", "%", "*")  # of these people
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
    said = [await other.ask("erasure:look", erased=[], by="before", **how)]  # and remember it
    gone: list[str] = []
    for number, tail in enumerate(ERASED):
        by, beside = (one, other) if number % 2 else (other, one)
        await by.ask("erasure:erase", tail=tail, base=base)
        gone.append(tail)
        said += [
            await replica.ask("erasure:look", erased=gone, by="a replica", **how)
            for replica in (by, beside)
        ]
    (fresh,) = await stage.fleet.start(fresh=True)
    said.append(await fresh.ask("erasure:look", erased=gone, by="a new process", **how))
    more, kept = await _kept_meanwhile(stage, one, base)
    said.append(more)
    searched = [*gone, AWAY] if kept else gone
    if traces:
        said.append(await one.ask("erasure:search", erased=searched, patience=120.0, **how))
    said.append(await _search_files(stage, searched))
    said.append(await other.ask("erasure:begin_anew", base=base, tail=gone[0]))
    await stage.fleet.end(one, other, fresh)
    stage.erased = [ErasedPerson(f"{base}{tail}", threads(base, tail)) for tail in gone[1:]]
    stage.record.erasure = merged(*said)


async def _kept_meanwhile(
    stage: Stage, other: Replica, base: str
) -> tuple[list[dict[str, Any]], bool]:
    """A replica that cannot reach the store keeps a turn; the person is erased in the meantime.

    What became of it; and whether it kept the turn at all, as not every memory does.
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
            said = await cut_off.ask("erasure:say", number=1, patience=120.0, **how)
            kept = set(said) == {"kept"}
            cut_off.signal(signal.SIGSTOP)  # so that the erasure comes first
        finally:
            await fault.end(cut_off)
        if kept:
            await other.ask("erasure:erase", base=base, tail=AWAY)
        cut_off.signal(signal.SIGCONT)
        with suppress(Failed):  # some bring what they kept when they are asked for something
            await cut_off.call("load", f"{base}-spared", None)
        if not kept or not await other.ask(
            "erasure:wait_for_the_spared", base=base, seconds=stage.sizes.recovery,
            patience=stage.sizes.recovery + 30.0,
        ):  # fmt: skip
            return [], kept
        asked = [await each.ask("erasure:look_for_kept", base=base) for each in (cut_off, other)]
        return [check for checks in asked for check in checks], True
    finally:
        cut_off.signal(signal.SIGCONT)
        await stage.fleet.end(cut_off)


async def _search_files(stage: Stage, erased: list[str]) -> list[dict[str, Any]]:
    """In those of a server of the audit's own, once it has written them again."""
    if stage.server_files is None:
        return []
    trials, seed = Trials(), stage.record.seed
    everywhere = await stage.server_files([secret(seed, tail) for tail in (TAILS[0], *erased)])
    if not everywhere[0]:
        return []  # what is there for certain is not found: it is stored in another form
    for found in everywhere[1:]:
        done = "erase a person, make the server rewrite its files, search them"
        trials.hold(FILES, not found, done, "found nowhere", ", ".join(found)[:300])
    return trials.plain()


async def look_in_backup(stage: Stage, restored: Any) -> None:
    """What was erased is not in a copy that was made afterwards."""
    trials = Trials()
    for person in stage.erased:
        there = [len(await restored.call("load", thread)) for thread in person.threads]
        if stage.provides("users"):
            there.append(len((await restored.call("get_user", person.user))[0]))
        done = "erase a person, back up, restore elsewhere, look for them"
        trials.compare(BACKUP, done, [0] * len(there), there)
    if stage.erased and stage.record.erasure is not None:
        stage.record.erasure = [*stage.record.erasure, *merged(trials)]


WORKLOAD = Workload("erasure", "erasure", "erasing people", conduct, unwatched=True)


# --- in a replica -----------------------------------------------------------------------


def threads(base: str, tail: str) -> list[str]:
    return [f"{base}-long{tail}", f"{base}-short{tail}"]


def secret(seed: int, tail: str) -> str:
    """What no one else has ever said."""
    return f"{random.Random(f'{seed}/secret/{tail}').getrandbits(96):024x}"


def _said(seed: int, tail: str, count: int) -> list[dict[str, Any]]:
    return [message("user", f"{secret(seed, tail)} {number}") for number in range(count)]


async def write(memory: Memory, tell: Any, base: str, seed: int, users: bool) -> None:
    for tail in TAILS:
        long, short = threads(base, tail)
        said = _said(seed, tail, LONG)
        for first in range(0, LONG, WRITTEN):
            await within(memory.append(long, said[first : first + WRITTEN], f"{first}"))
        await within(memory.append(short, said[:1], "0"))
        if users:
            await within(memory.put_user(f"{base}{tail}", {"secret": secret(seed, tail)}))


async def say(memory: Memory, tell: Any, base: str, seed: int, number: int) -> list[str]:
    """Concurrent turns of a person who is erased and of one who is not: stored, or spilled?"""
    texts = {thread: f"{secret(seed, AWAY)} {number}" for thread in threads(base, AWAY)}
    texts[f"{base}-spared"] = f"spared {number}"

    async def one(thread: str, text: str) -> str:
        try:
            given = [message("user", text)]
            return str(await within(memory.append(thread, given, f"{number}"), 30.0))
        except Exception as error:
            return words(error)

    return list(await asyncio.gather(*(one(*each) for each in texts.items())))


async def wait_for_the_spared(memory: Memory, tell: Any, base: str, seconds: float) -> bool:
    """Whether what was kept for someone else has come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(await within(memory.load(f"{base}-spared"))) == 2:
            return True
        await asyncio.sleep(0.1)
    return False


async def look_for_kept(memory: Memory, tell: Any, base: str) -> list[dict[str, Any]]:
    trials = Trials()
    done = "spill a turn, erase its person elsewhere, reconnect the replica to the store"
    try:
        found = len(await within(memory.load(threads(base, AWAY)[0])))
        trials.hold(KEPT, not found, done, "no message", f"{plural(found, 'message')}")
    except Exception as error:
        trials.differ(KEPT, done, "no message", words(error))
    return trials.plain()


async def erase(memory: Memory, tell: Any, base: str, tail: str) -> None:
    await within(memory.call("erase", f"{base}{tail}", threads(base, tail)), 30.0)


async def _there(memory: Memory, base: str, tail: str, users: bool) -> list[int]:
    """How many messages each conversation has, and whether the user's state is known."""
    found = [len(await within(memory.load(thread))) for thread in threads(base, tail)]
    if users:
        found.append(len((await within(memory.get_user(f"{base}{tail}")))[0]))
    return found


async def look(
    memory: Memory, tell: Any, base: str, seed: int, users: bool, erased: list[str], by: str
) -> list[dict[str, Any]]:
    trials = Trials()
    for tail in TAILS:
        gone = tail in erased
        promise = (FRESH if by == "a new process" else GONE) if gone else OTHERS
        whole = [LONG, 1, 1] if users else [LONG, 1]
        expected = [0] * len(whole) if gone else whole
        done = f"erase …{' and …'.join(erased) or 'no one'}; what {by} finds of …{tail}"
        try:
            found = await _there(memory, base, tail, users)
        except Exception as error:
            trials.differ(promise, done, f"{expected}", words(error))
            continue
        trials.hold(promise, found == expected, done, _words(expected), _words(found))
    return trials.plain()


def _words(found: list[int]) -> str:
    state = f", user's state {'known' if found[2] else 'unknown'}" if len(found) > 2 else ""
    return f"{found[0]} and {found[1]} messages{state}"


async def search(
    memory: Memory, tell: Any, base: str, seed: int, users: bool, erased: list[str]
) -> list[dict[str, Any]]:
    """In all that is stored. That the others are found shows that it was really searched."""
    trials = Trials()
    known = [tail for tail in TAILS if tail not in erased]
    if not await within(memory.call("traces", secret(seed, known[-1])), 60.0):
        return []
    for tail in erased:
        found = await within(memory.call("traces", secret(seed, tail)), 60.0)
        trials.hold(TRACES, not found, "erase a person, search for what they said",
                    "found nowhere", ", ".join(map(str, found))[:300])  # fmt: skip
    return trials.plain()


async def begin_anew(memory: Memory, tell: Any, base: str, tail: str) -> list[dict[str, Any]]:
    trials = Trials()
    thread = threads(base, tail)[0]
    done = "erase a person, append to the same conversation, load it"
    try:
        await within(memory.append(thread, [message("user", "anew")], "anew"))
        found = [str(each.get("content")) for each in await within(memory.load(thread))]
        trials.compare(ANEW, done, ["anew"], found[:20])
    except Exception as error:
        trials.differ(ANEW, done, "only what was said since", words(error))
    return trials.plain()
