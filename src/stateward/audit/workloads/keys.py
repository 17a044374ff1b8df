"""Redelivered turns: immediately, later, elsewhere, and beside others with similar keys."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import Trials, merged, within
from stateward.audit.workloads.workload import Stage, Workload, until

BETWEEN = 1100  # turns after which the first is delivered again
BUDGET = 12.0  # seconds for these
ROUNDS = 25  # of two deliveries at the same time


async def conduct(stage: Stage) -> None:
    plain, elsewhere, crowded, flying, alike = stage.names("key", 5)
    one, other = await stage.fleet.start(2, fresh=True)
    checks = [
        await one.ask("keys:plainly", thread=plain, elsewhere=elsewhere),
        await one.ask("keys:look_alike", thread=alike),
    ]
    between = await one.ask("keys:crowd", thread=crowded, count=BETWEEN, patience=120.0)
    again = {"thread": crowded, "between": between}
    checks.append(await one.ask("keys:again", by="the same replica", **again))
    checks.append(await other.ask("keys:again", by="another replica", **again))
    flown = await stage.at_once([one, other], "keys:fly", thread=flying, count=ROUNDS)
    (reader,) = await stage.fleet.start()
    acknowledged = sorted({name for names in flown for name in names})
    checks.append(await reader.ask("keys:landed", thread=flying, acknowledged=acknowledged))
    await stage.fleet.end(reader)
    await one.kill()
    await other.kill()
    (new,) = await stage.fleet.start(fresh=True)
    checks.append(await new.ask("keys:again", by="a new process after a kill", **again))
    checks.append(await new.ask("keys:once_more", thread=plain))
    await stage.fleet.end(new)
    stage.record.keys = merged(*checks)


WORKLOAD = Workload("keys", "keys", "redelivering turns", conduct)


# --- in a replica -----------------------------------------------------------------------


def said(text: str) -> list[dict[str, Any]]:
    return [message("user", text), message("assistant", f"re: {text}")]


async def counted(memory: Memory, thread: str) -> Counter[str]:
    """Count how often the conversation contains each question."""
    texts = contents(await within(memory.load(thread)))
    return Counter(text for text in texts if not text.startswith("re: "))


async def plainly(memory: Memory, tell: Any, thread: str, elsewhere: str) -> list[dict[str, Any]]:
    trials = Trials()
    for number in range(5):
        key, text = f"plain/{number}", f"turn {number}"
        for _ in range(2):
            await _append(memory, trials, thread, text, key)
        await _append(memory, trials, elsewhere, text, key)
    counts = await counted(memory, thread)
    for number in range(5):
        case = f"append turn {number} twice with one key"
        trials.compare("redelivered immediately", case, 1, counts[f"turn {number}"])
    other = await counted(memory, elsewhere)
    for number in range(5):
        case = f"append with the key plain/{number} to two conversations; in the second"
        trials.compare("same key in another conversation", case, 1, other[f"turn {number}"])
    long = "long turn " + "x" * 20_000
    for _ in range(2):
        await _append(memory, trials, thread, long, "long")
    case = "append a turn of 20,000 characters twice with one key"
    trials.compare("redelivered immediately", case, 1, (await counted(memory, thread))[long])
    for number in range(3):
        await _append(memory, trials, thread, "the same words", f"words/{number}")
    counts = await counted(memory, thread)
    case = "append the same words with three keys"
    trials.compare("same text with another key", case, 3, counts["the same words"])
    order = [text for text in contents(await within(memory.load(thread))) if text[:4] == "turn"]
    expected = [f"turn {number}" for number in range(5)]
    case = "the order after turns were delivered again"
    trials.compare("order kept", case, expected, list(dict.fromkeys(order)))
    return trials.plain()


async def _append(memory: Memory, trials: Trials, thread: str, text: str, key: str) -> None:
    try:
        await within(memory.append(thread, said(text), key))
    except Exception as error:
        trials.differ(
            "redelivery raises no error", f"append {text!r} with the key {key!r}", "stored", error
        )
    else:
        trials.hold("redelivery raises no error", True, "", "", "")


async def once_more(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Repeat turns after a restart, in the conversation in which their keys were used before."""
    trials = Trials()
    for number in range(5):
        await _append(memory, trials, thread, f"turn {number}", f"plain/{number}")
    there = await counted(memory, thread)
    for number in range(5):
        case = f"append turn {number} again in a new process"
        trials.compare("redelivered after a restart", case, 1, there[f"turn {number}"])
    return trials.plain()


async def look_alike(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Append with keys that look alike but all differ."""
    long = "k" * 300
    keys = ["k", "K", "k ", "k1", "k10", "k01", "k/1", "k:1", "k%", "k_", "k*", "é", "e\u0301",
            f"{'k' * 64}a", f"{'k' * 64}b", f"{'k' * 128}a", f"{'k' * 128}b",
            f"{'k' * 254}a", f"{'k' * 254}b"]  # fmt: skip
    trials, stored = Trials(), []
    for number, key in enumerate(keys):
        try:
            await within(memory.append(thread, said(f"alike {number}"), key))
            stored.append((number, key))
        except Exception as error:
            if len(key) > 100:
                trials.refuse("similar keys", f"a key of {len(key)} characters", error)
            else:
                trials.differ("similar keys", f"key {key!r}", "stored", error)
    try:
        await within(memory.append(thread, said("long one"), f"{long}a"))
        await within(memory.append(thread, said("long other"), f"{long}b"))
    except Exception as error:
        trials.refuse("similar keys", "a key of 301 characters", error)
    counts = await counted(memory, thread)
    for number, key in stored:
        case = f"append with the keys {[key for _, key in stored[:number][-1:]]} and {key!r}"
        trials.compare("similar keys", case[:200], 1, counts[f"alike {number}"])
    if counts["long one"]:
        case = "append with two keys of 301 characters that differ only at the end"
        trials.compare("similar keys", case, 1, counts["long other"])
    return trials.plain()


async def crowd(memory: Memory, tell: Any, thread: str, count: int) -> int:
    """Append the first turns and up to `count` others; return the number there was time for."""
    end = time.monotonic() + BUDGET
    for number in range(5):
        await within(memory.append(thread, said(f"first {number}"), f"first/{number}"))
    for number in range(count):
        await within(memory.append(thread, [message("user", f"other {number}")], f"other/{number}"))
        if time.monotonic() > end:
            return number + 1
    return count


async def again(
    memory: Memory, tell: Any, thread: str, between: int, by: str
) -> list[dict[str, Any]]:
    """Repeat the first turns, and some that are not as old."""
    trials = Trials()
    ages = [age for age in (0, 9, 99, 120, 130, 250, 260, 500, 520, 1000) if age < between]
    named = [(f"first {number}", f"first/{number}") for number in range(5)]
    named += [(f"other {between - 1 - age}", f"other/{between - 1 - age}") for age in ages]
    for text, key in named:
        messages = said(text) if text.startswith("first") else [message("user", text)]
        with trials.expecting("redelivered later", f"append {text!r} again", "no change"):
            await within(memory.append(thread, messages, key))
    there = await counted(memory, thread)
    for text, _ in named:
        case = f"append {text!r}, {between:,} other turns, and {text!r} again by {by}"
        trials.compare("redelivered later", case, 1, there[text])
    return trials.plain()


async def fly(
    memory: Memory, tell: Any, thread: str, count: int, who: int, begin: float
) -> list[str]:
    """Append every turn twice in every replica, concurrently."""
    acknowledged = []
    for number in range(count):
        await until(begin + number * 0.02)
        name = f"flight {number}"
        calls = [within(memory.append(thread, said(name), name)) for _ in range(2)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        if not all(isinstance(answer, BaseException) for answer in answers):
            acknowledged.append(name)
    return acknowledged


async def landed(
    memory: Memory, tell: Any, thread: str, acknowledged: list[str]
) -> list[dict[str, Any]]:
    trials = Trials()
    there = await counted(memory, thread)
    answers = Counter(contents(await within(memory.load(thread))))
    for name in acknowledged:
        case = f"two replicas concurrently append {name!r} twice each, with one key"
        good = trials.compare("delivered concurrently", case, 1, there[name])
        if good:
            trials.compare("delivered concurrently", f"{case}: the second message", 1,
                           answers[f"re: {name}"])  # fmt: skip
    return trials.plain()
