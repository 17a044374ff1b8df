"""Works for a schedule whose ticks change the world, until it is told to stop.

facts: url, effects, who, ttl, colour
"""

from __future__ import annotations

import asyncio
import threading
import time

from talk import effect, facts, listen, say
from witness import open_store

who = facts["who"]
store = open_store(facts["colour"])
stop = threading.Event()


def report(at: str) -> str:
    effect(tick=at, by=who)
    time.sleep(0.02)  # long enough to be killed in
    say(ran=at)
    return who


options = {"tasks": {"report": report}, "ttl": facts["ttl"], "poll": 0.05, "until": stop.is_set}


async def work() -> None:
    async with store:
        say(works=True)
        await store.work({}, **options)


listen(lambda _: stop.set())
if facts["colour"] == "async":
    asyncio.run(work())
else:
    with store:
        say(works=True)
        store.work({}, **options)
