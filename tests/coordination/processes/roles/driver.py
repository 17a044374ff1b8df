"""Drives workflows of several steps, each of which changes the world.

facts: url, effects, who, ttl, colour, and one of
  drive: the id of a workflow to drive, waiting for an order before every step
  work: true, to drive whatever is due until told to stop
  begin: ids of workflows to begin and to leave at once, as a caller does that only starts them
slow: seconds that every step takes; timeout: how long a write may take (seconds)

The file of effects has three lines a step: `step`, when its effect happens, `leaving`, when its
function ends, and `recorded`, when the step is finished. After that the effect must never happen
again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

from talk import effect, facts, hear, listen, say, settled
from witness import load_async, open_store

from stateward import Policy, StoreUnavailable, idempotency_key

STEPS = ("fetch", "check", "pay", "pay", "tell")

who, ttl = facts["who"], facts["ttl"]
# On a busy machine it may take a while to open a file.
policy = Policy(read_timeout=60.0, write_timeout=facts.get("timeout", 60.0))
store = open_store(facts["colour"], policy)
stop = threading.Event()


def act(workflow: str, step: str) -> str:
    effect(step=[workflow, step], by=who, key=idempotency_key())
    time.sleep(facts.get("slow", 0))
    effect(leaving=[workflow, step], by=who)
    return f"{step} by {who}"


async def handle(run: Any, before: Any = None) -> None:
    for number, name in enumerate(STEPS):
        step = f"{name}-{number}"
        if before is not None:
            before(number)
        await settled(run.step(name, act, run.id, step))
        effect(recorded=[run.id, step], by=who)
        say(recorded=[run.id, step])


def handle_sync(run: Any) -> None:
    for number, name in enumerate(STEPS):
        step = f"{name}-{number}"
        run.step(name, act, run.id, step)
        effect(recorded=[run.id, step], by=who)
        say(recorded=[run.id, step])


def wait_for_order(number: int) -> None:
    say(before=number)
    hear()


async def drive(id: str) -> None:
    """One at a time, step by step."""
    async with store.workflow(id, kind="refund", ttl=ttl) as run:
        await handle(run, before=wait_for_order)
    say(completed=id)


async def begin(ids: list[str]) -> None:
    for id in ids:
        try:
            async with store.workflow(id, kind="refund", ttl=ttl) as run:
                raise StoreUnavailable("left for others")
        except StoreUnavailable:
            say(begun=run.id)


class Note(logging.Handler):
    """Failures that `work` survives are said, so that the test sees that they happened."""

    def emit(self, record: logging.LogRecord) -> None:
        say(noted=record.msg, error=getattr(record, "error", None))


async def work() -> None:
    await store.work({"refund": handle}, poll=0.05, ttl=ttl, until=stop.is_set)


async def main() -> None:
    await load_async(store)  # it is open: a slow start does not eat up a lease
    say(ready=True)
    if "drive" in facts:
        await drive(facts["drive"])
    elif "begin" in facts:
        await begin(facts["begin"])
    else:
        await work()
    await store.close()


for name in ("stateward.workflows", "stateward.sync.workflows"):
    logging.getLogger(name).addHandler(Note())
if "work" in facts:
    listen(lambda _: stop.set())
if facts["colour"] == "sync":
    say(ready=True)
    store.work({"refund": handle_sync}, poll=0.05, ttl=ttl, until=stop.is_set)
    store.close()
else:
    asyncio.run(main())
