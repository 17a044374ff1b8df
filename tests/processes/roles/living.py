"""Has a store open and does nothing, until it is told to close it, by any line, or is killed.

python living.py URL async|sync SECONDS
"""

from __future__ import annotations

import asyncio
import sys

from talk import hear, open_store, say, settled

url, colour, seconds = sys.argv[1:]


async def main() -> None:
    store = open_store(colour, url, heartbeat=float(seconds))
    await settled(store.thread("t").load())
    say("open")
    await asyncio.to_thread(hear)
    await settled(store.close())
    say("closed")


asyncio.run(main())
