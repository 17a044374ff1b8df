"""Delivers run-once tasks, several at a time, and keeps them in hand as long as it is told.

facts: url, effects, who, colour, manner ("waits" or "blocks"), at_once, ttl
orders: {"round": r, "deliver": [numbers], "hold": whether to keep in hand what it begins},
        {"go": r} (go on with what is in hand), {"end": true}
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from talk import effect, facts, listen, say
from witness import open_store

from stateward import LeaseLost, idempotency_key

who, ttl = facts["who"], facts["ttl"]
store = open_store(facts["colour"])
gates: dict[int, threading.Event] = defaultdict(threading.Event)  # by round
gate = gates[0]
orders: SimpleQueue[dict[str, Any]] = SimpleQueue()


def heard(order: dict[str, Any]) -> None:
    if "go" in order:
        gates[order["go"]].set()
    else:
        orders.put(order)


def begin_round() -> dict[str, Any] | None:
    """The next deliveries; None if there are no more."""
    global gate
    order = orders.get()
    if "end" in order:
        return None
    gate = gates[order["round"]]
    if not order["hold"]:
        gate.set()
    return order


def begin(number: int) -> dict[str, Any]:
    """The effect; every run has a result of its own, so that the committed one can be told."""
    effect(task=number, by=who, key=idempotency_key())
    say(begun=number)
    return {"charged": number, "by": who}


def charge(number: int) -> dict[str, Any]:
    result = begin(number)
    gate.wait()
    return result


async def charge_and_wait(number: int) -> dict[str, Any]:
    result = begin(number)
    while not gate.is_set():  # noqa: ASYNC110 - set by a thread
        await asyncio.sleep(0.005)
    return result


charge_and_wait.__name__ = "charge"
function = charge_and_wait if facts["manner"] == "waits" else charge


def deliver(number: int) -> None:
    """As a queue does it: again, until there is an answer."""
    while True:
        try:
            result = store.once(f"task-{number}", function, number, ttl=ttl)
            return say(delivered=number, result=result)
        except LeaseLost:
            say(lost=number)


async def deliver_async(number: int, some: asyncio.Semaphore) -> None:
    async with some:
        while True:
            try:
                result = await store.once(f"task-{number}", function, number, ttl=ttl)
                return say(delivered=number, result=result)
            except LeaseLost:
                say(lost=number)


def work() -> None:
    with ThreadPoolExecutor(facts["at_once"]) as pool:
        while (order := begin_round()) is not None:
            list(pool.map(deliver, order["deliver"]))
            say(round=order["round"])
    store.close()


async def work_async() -> None:
    some = asyncio.Semaphore(facts["at_once"])
    while (order := await asyncio.to_thread(begin_round)) is not None:
        await asyncio.gather(*(deliver_async(number, some) for number in order["deliver"]))
        say(round=order["round"])
    await store.close()


listen(heard)
say(ready=True)
if facts["colour"] == "sync":
    work()
else:
    asyncio.run(work_async())
