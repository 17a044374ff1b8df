"""A replica that knows no migration after those of this release, at work.

python older_release.py URL COLOUR

It reads and writes until it is told to stop, and says after every tenth round how many it has done.
"""

from __future__ import annotations

import asyncio
import sys
from threading import Thread
from typing import Any

from talk import hear, open_store, ready, report, say, settled

url, colour = sys.argv[1:]
told_to_stop: list[str] = []


async def main() -> None:
    store = open_store(colour, url)
    opened = await settled(store.describe())
    ready()
    Thread(target=lambda: told_to_stop.append(hear()), daemon=True).start()
    rounds = 0
    while not told_to_stop:
        await work(store, rounds)
        rounds += 1
        if rounds % 10 == 0:
            say(f"rounds {rounds}")
    at_end = (await settled(store.describe())).schema
    await settled(store.close())
    report(rounds=rounds, opened_at=opened.schema, closed_at=at_end)


async def work(store: Any, number: int) -> None:
    """A bit of everything, each checked against what was written before."""
    thread = store.thread("t-1", user="u-1")
    await settled(
        thread.append(
            {"role": "user", "content": "", "n": number, "part": 1},
            {"role": "assistant", "content": "", "n": number, "part": 2},
        )
    )
    window = await settled(thread.load(last=2))
    assert [message["n"] for message in window.messages] == [number, number]
    document = await settled(store.user("u-1").update(lambda v: {"n": v.get("n", 0) + 1}))
    assert document.value == {"n": number + 1}
    context = await settled(store.context(user="u-1", thread="t-1"))
    assert context.user["default"].value == {"n": number + 1}


asyncio.run(main())
