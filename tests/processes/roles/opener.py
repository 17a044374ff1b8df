"""Opens one fresh file after the other, at the same moments as everybody else.

python opener.py COLOUR WHO; every line it is told is a URL.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from talk import described, hear, open_store, say, settled

colour, who = sys.argv[1:]


async def write(store: Any) -> None:
    await settled(store.thread(f"t-{who}").append({"who": who}))
    await settled(store.user("u-1").update(lambda value: {"n": value.get("n", 0) + 1}))
    await settled(store.close())


async def enter(store: Any) -> None:
    """As `with` does it: what fails here is not tried again by any policy."""
    if colour == "sync":
        store.__enter__()
    else:
        await store.__aenter__()


async def open_and_write(url: str) -> None:
    store = open_store(colour, url)
    try:
        await enter(store)
        await write(store)
        say("opened")
    except Exception as error:
        say(f"failed: {described(error)}")
        await settled(store.close())


open_store(colour, "sqlite:///imported-only.db")  # everything is imported before it counts
say("ready")
while url := hear():
    asyncio.run(open_and_write(url))
