"""Leads conversations and writes to them with its fence, also when it is a leader no more.

facts: url, effects, who, colour, threads, ttl

The writers are tasks or threads of their own: they have the lease, and never ask whether it
still holds. So what keeps a stale write out is the store, not the writer's good manners.
orders: {"go": true}, {"stop": true}
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from talk import facts, listen, say
from witness import load, load_async, open_store

from stateward import LeaseLost

who, ttl = facts["who"], facts["ttl"]
store = open_store(facts["colour"])
go, stop = threading.Event(), threading.Event()
STALE_TRIES = 3


def message(number: int, lease: Any) -> dict[str, Any]:
    return {"by": who, "n": number, "token": lease.token}


def lead(id: str) -> None:
    thread = store.thread(id)
    lease = None
    try:
        with thread.lead(ttl=ttl) as lease:
            writer = threading.Thread(target=write, args=(thread, lease))
            writer.start()
            writer.join()
            lease.check()
    except LeaseLost:
        say(told=id, token=lease and lease.token)


def write(thread: Any, lease: Any) -> None:
    number = refused = 0
    while refused < STALE_TRIES and not stop.is_set():
        try:
            thread.append(message(number, lease), fence=lease)
            say(wrote=thread.id, token=lease.token)
        except LeaseLost:
            refused += 1
            say(refused=thread.id, token=lease.token)
        number += 1
        time.sleep(0.02)


async def lead_async(id: str) -> None:
    thread = store.thread(id)
    writer = lease = None
    try:
        async with thread.lead(ttl=ttl) as lease:
            writer = asyncio.create_task(write_async(thread, lease))
            await asyncio.wait([writer])
    except LeaseLost:
        say(told=id, token=lease and lease.token)
    if writer is not None:
        await writer


async def write_async(thread: Any, lease: Any) -> None:
    number = refused = 0
    while refused < STALE_TRIES and not stop.is_set():
        try:
            await thread.append(message(number, lease), fence=lease)
            say(wrote=thread.id, token=lease.token)
        except LeaseLost:
            refused += 1
            say(refused=thread.id, token=lease.token)
        number += 1
        await asyncio.sleep(0.02)


def heard(order: dict[str, Any]) -> None:
    (go if "go" in order else stop).set()


def run() -> None:
    load(store)  # it is open: a slow start does not eat up a lease
    say(ready=True)
    go.wait()
    threads = [threading.Thread(target=lead, args=(id,)) for id in facts["threads"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


async def run_async() -> None:
    await load_async(store)
    say(ready=True)
    await asyncio.to_thread(go.wait)
    await asyncio.gather(*(lead_async(id) for id in facts["threads"]))
    await store.close()


listen(heard)
if facts["colour"] == "sync":
    run()
else:
    asyncio.run(run_async())
