"""A worker that bills orders from a Redis stream: url, name, file of effects."""

from __future__ import annotations

import asyncio
import logging
import sys

from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub

import stateward
from stateward.integrations.faststream import StatewardMiddleware, step


def happens(path: str, what: str) -> str:
    """An effect in the world: a line in a file."""
    with open(path, "a") as file:
        file.write(f"{what}\n")
    return what


async def main(url: str, name: str, path: str) -> None:
    async with stateward.open(url) as store:
        once = StatewardMiddleware(store, "billing", ttl=1.0, user=lambda m: m.headers.get("user"))
        broker = RedisBroker(url, middlewares=[once], logger=None)

        async def bill(order: dict[str, str]) -> dict[str, str]:
            charged = await step("charge", happens, path, f"charged {order['id']}")
            print(f"charged {order['id']}", flush=True)
            if order.get("hang") == name:
                await asyncio.sleep(3600)
            await step("mail", happens, path, f"mailed {order['id']}")
            return {"order": order["id"], "receipt": charged}

        for idle in (None, 300):  # new messages, and those that another worker has left behind
            stream = StreamSub("orders", group="billing", consumer=name, min_idle_time=idle)
            subscriber = broker.subscriber(stream=stream, ack_policy=AckPolicy.NACK_ON_ERROR)
            subscriber(broker.publisher(stream="receipts")(bill))
        async with broker:
            await broker.start()
            print("ready", flush=True)
            await asyncio.Event().wait()


logging.disable(logging.CRITICAL)
asyncio.run(main(*sys.argv[1:]))
