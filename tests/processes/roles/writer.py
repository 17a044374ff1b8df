"""Writes until it is killed, and says what was acknowledged as soon as it was.

python writer.py URL COLOUR WHO

Several conversations and one document at once, so that a kill finds batches under way.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from threading import Thread
from typing import Any

from talk import open_store, ready, say

CONVERSATIONS = 4


def turn(who: str, number: int) -> list[dict[str, Any]]:
    """Sometimes large: the pages of one turn must then span several writes to the disk."""
    filler = "x" * (9_000 if number % 7 == 0 else 40)
    return [{"who": who, "turn": number, "part": part, "filler": filler} for part in (1, 2)]


def write_sync(store: Any, who: str) -> None:
    store.health()
    ready()

    def converse(place: int) -> None:
        thread = store.thread(f"{who}-{place}", user=who)
        for number in count(1):
            thread.append(*turn(who, number))
            say(f"append {place} {number}")

    def update() -> None:
        while True:
            document = store.user(who).update(lambda value: {"n": value.get("n", 0) + 1})
            say(f"update {document.value['n']}")

    for place in range(CONVERSATIONS):
        Thread(target=converse, args=(place,), daemon=True).start()
    update()


async def write_async(store: Any, who: str) -> None:
    await store.health()  # open, so that the test begins with the first write
    ready()

    async def converse(place: int) -> None:
        thread = store.thread(f"{who}-{place}", user=who)
        for number in count(1):
            await thread.append(*turn(who, number))
            say(f"append {place} {number}")

    async def update() -> None:
        while True:
            document = await store.user(who).update(lambda value: {"n": value.get("n", 0) + 1})
            say(f"update {document.value['n']}")

    async with asyncio.TaskGroup() as tasks:
        for place in range(CONVERSATIONS):
            tasks.create_task(converse(place))
        tasks.create_task(update())


url, colour, who = sys.argv[1:]
store = open_store(colour, url)
if colour == "sync":
    write_sync(store, who)
else:
    asyncio.run(write_async(store, who))
