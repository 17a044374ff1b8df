"""A replica of an agent as it is deployed: it answers requests, works, leads, and ends on SIGTERM.

facts: url, effects, who, code ("old" or "new"), ttl
orders: {"request": n, "do": …, "on": id}, and {"last": true} when no more will come

The new code asks for a step less than the old one (check), and for one more (thank).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from typing import Any

from talk import effect, facts, listen, say
from witness import open_store

from stateward import LeaseLost, idempotency_key

who, code, ttl = facts["who"], facts["code"], facts["ttl"]


class Note(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(noted=record.msg, steps=getattr(record, "steps", None))


logging.getLogger("stateward.workflows").addHandler(Note())


async def act(workflow: str, step: str) -> str:
    effect(step=[workflow, step], code=code, key=idempotency_key())
    await asyncio.sleep(0.01)
    return step


async def refund(run: Any) -> None:
    async def step(name: str) -> None:
        await run.step(name, act, run.id, name)
        effect(recorded=[run.id, name], code=code)

    await step("fetch")
    if code == "old":
        await step("check")
    await run.wait("approval")
    await step("pay")
    if code == "new":
        await step("thank")
    await step("tell")


async def charge(number: str) -> dict[str, str]:
    effect(charge=number, key=idempotency_key())
    await asyncio.sleep(0.02)
    return {"charged": number, "by": who}


class Agent:
    """One store, and all that is done with it."""

    def __init__(self) -> None:
        self.store = open_store("async")
        self.leads = False

    async def append(self, on: str, number: int) -> int:
        thread = self.store.thread(on)
        async with thread.lead(ttl=ttl) as lease:
            appended = await thread.append({"request": number}, fence=lease)
        version: int = appended.version
        return version

    async def charge(self, on: str, number: int) -> Any:
        return await self.store.once(on, charge, on, ttl=ttl)

    async def refund(self, on: str, number: int) -> None:
        async with self.store.workflow(on, kind="refund", ttl=ttl) as run:
            await refund(run)

    async def approve(self, on: str, number: int) -> None:
        await self.store.workflow(on).signal("approval", number, key="approved")

    async def answer(self, order: dict[str, Any]) -> None:
        begun, number = time.monotonic(), order["request"]
        try:
            result = await getattr(self, order["do"])(order["on"], number)
        except Exception as error:
            say(answered=number, error=f"{type(error).__name__}: {error}")
        else:
            say(answered=number, result=result, seconds=time.monotonic() - begun)

    async def lead(self) -> None:
        """Lead for as long as the store is open; closing it is what ends this."""
        try:
            async with self.store.elect("scheduler", ttl=ttl) as lease:
                self.leads = True
                say(leads=lease.token, at=time.monotonic())
                await asyncio.Event().wait()
        except LeaseLost:
            say(led=lease.token)


async def main() -> None:
    agent = Agent()
    loop = asyncio.get_running_loop()
    orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    listen(lambda order: loop.call_soon_threadsafe(orders.put_nowait, order))
    working = asyncio.create_task(agent.store.work({"refund": refund}, poll=0.05, ttl=ttl))
    leading = asyncio.create_task(agent.lead())

    def drain() -> None:
        working.cancel()  # in the middle of a step, perhaps
        say(draining=True)

    loop.add_signal_handler(signal.SIGTERM, drain)
    say(ready=True)
    async with asyncio.TaskGroup() as requests:
        while "last" not in (order := await orders.get()):
            requests.create_task(agent.answer(order))
    await asyncio.wait([working])
    assert working.cancelled(), working.exception()
    if not agent.leads:
        leading.cancel()
        await asyncio.wait([leading])
    say(closing=time.monotonic(), leader=agent.leads)
    await agent.store.close()
    if agent.leads:
        await leading  # closing has ended it


asyncio.run(main())
