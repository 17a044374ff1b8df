"""Redelivered turns: immediately, later, elsewhere, and beside others with similar keys."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload, until

BETWEEN = 1100  # turns after which the first is delivered again
BUDGET = 12.0  # seconds for these
ROUNDS = 25  # of two deliveries at the same time


async def conduct(stage: Stage) -> None:
    plain, elsewhere, crowded, flying, alike = stage.names("key", 5)
    one, other = await stage.fleet.start(2, fresh=True)
    said = [
        await one.ask("keys:plainly", thread=plain, elsewhere=elsewhere),
        await one.ask("keys:look_alike", thread=alike),
    ]
    between = await one.ask("keys:crowd", thread=crowded, count=BETWEEN, patience=120.0)
    again = {"thread": crowded, "between": between}
    said.append(await one.ask("keys:again", by="the same replica", **again))
    said.append(await other.ask("keys:again", by="another replica", **again))
    flown = await stage.at_once([one, other], "keys:fly", thread=flying, count=ROUNDS)
    (reader,) = await stage.fleet.start()
    acknowledged = sorted({name for names in flown for name in names})
    said.append(await reader.ask("keys:landed", thread=flying, acknowledged=acknowledged))
    await stage.fleet.end(reader)
    await one.kill()
    await other.kill()
    (new,) = await stage.fleet.start(fresh=True)
    said.append(await new.ask("keys:again", by="a new process after a kill", **again))
    said.append(await new.ask("keys:once_more", thread=plain))
    await stage.fleet.end(new)
    stage.record.keys = merged(*said)


WORKLOAD = Workload("keys", "keys", "redelivering turns", conduct)


# --- in a replica -----------------------------------------------------------------------


def said(text: str) -> list[dict[str, Any]]:
    return [message("user", text), message("assistant", f"re: {text}")]


async def counted(memory: Memory, thread: str) -> Counter[str]:
    """How often each question is there."""
    found = contents(await within(memory.load(thread)))
    return Counter(text for text in found if not text.startswith("re: "))


async def plainly(memory: Memory, tell: Any, thread: str, elsewhere: str) -> list[dict[str, Any]]:
    trials = Trials()
    for number in range(5):
        key, text = f"plain/{number}", f"turn {number}"
        for _ in range(2):
            await _append(memory, trials, thread, text, key)
        await _append(memory, trials, elsewhere, text, key)
    there = await counted(memory, thread)
    for number in range(5):
        done = f"append turn {number} twice with one key"
        trials.compare("redelivered immediately", done, 1, there[f"turn {number}"])
    other = await counted(memory, elsewhere)
    for number in range(5):
        done = f"append with the key plain/{number} to two conversations; in the second"
        trials.compare("same key in another conversation", done, 1, other[f"turn {number}"])
    long = "long turn " + "x" * 20_000
    for _ in range(2):
        await _append(memory, trials, thread, long, "long")
    done = "append a turn of 20,000 characters twice with one key"
    trials.compare("redelivered immediately", done, 1, (await counted(memory, thread))[long])
    for number in range(3):
        await _append(memory, trials, thread, "the same words", f"words/{number}")
    there = await counted(memory, thread)
    done = "append the same words with three keys"
    trials.compare("same text with another key", done, 3, there["the same words"])
    order = [text for text in contents(await within(memory.load(thread))) if text[:4] == "turn"]
    expected = [f"turn {number}" for number in range(5)]
    done = "the order after turns were delivered again"
    trials.compare("order kept", done, expected, list(dict.fromkeys(order)))
    return trials.plain()


async def _append(memory: Memory, trials: Trials, thread: str, text: str, key: str) -> None:
    try:
        await within(memory.append(thread, said(text), key))
    except Exception as error:
        trials.differ(
            "redelivery raises no error",
            f"append {text!r} with the key {key!r}",
            "stored",
            words(error),
        )
    else:
        trials.hold("redelivery raises no error", True, "", "", "")


async def once_more(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """After a restart, in the conversation in which keys were used before."""
    trials = Trials()
    for number in range(5):
        await _append(memory, trials, thread, f"turn {number}", f"plain/{number}")
    there = await counted(memory, thread)
    for number in range(5):
        done = f"append turn {number} again in a new process"
        trials.compare("redelivered after a restart", done, 1, there[f"turn {number}"])
    return trials.plain()


async def look_alike(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Keys of which each is another."""
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
                trials.differ("similar keys", f"key {key!r}", "stored", words(error))
    try:
        await within(memory.append(thread, said("long one"), f"{long}a"))
        await within(memory.append(thread, said("long other"), f"{long}b"))
    except Exception as error:
        trials.refuse("similar keys", "a key of 301 characters", error)
    there = await counted(memory, thread)
    for number, key in stored:
        done = f"append with the keys {[key for _, key in stored[:number][-1:]]} and {key!r}"
        trials.compare("similar keys", done[:200], 1, there[f"alike {number}"])
    if there["long one"]:
        done = "append with two keys of 301 characters that differ only at the end"
        trials.compare("similar keys", done, 1, there["long other"])
    return trials.plain()


async def crowd(memory: Memory, tell: Any, thread: str, count: int) -> int:
    """A first turn, and then so many others; how many there were time for."""
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
    """The first ones, and some that are not as old."""
    trials = Trials()
    ages = [age for age in (0, 9, 99, 120, 130, 250, 260, 500, 520, 1000) if age < between]
    named = [(f"first {number}", f"first/{number}") for number in range(5)]
    named += [(f"other {between - 1 - age}", f"other/{between - 1 - age}") for age in ages]
    for text, key in named:
        given = said(text) if text.startswith("first") else [message("user", text)]
        try:
            await within(memory.append(thread, given, key))
        except Exception as error:
            trials.differ("redelivered later", f"append {text!r} again", "no change", words(error))
    there = await counted(memory, thread)
    for text, _ in named:
        done = f"append {text!r}, {between:,} other turns, and {text!r} again by {by}"
        trials.compare("redelivered later", done, 1, there[text])
    return trials.plain()


async def fly(
    memory: Memory, tell: Any, thread: str, count: int, who: int, begin: float
) -> list[str]:
    """Every turn twice, by every replica, concurrently."""
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
        done = f"two replicas concurrently append {name!r} twice each, with one key"
        good = trials.compare("delivered concurrently", done, 1, there[name])
        if good:
            trials.compare("delivered concurrently", f"{done}: the second message", 1,
                           answers[f"re: {name}"])  # fmt: skip
    return trials.plain()
