"""Reads large conversations, all at once, and says how far the memory of the process has risen.

In a process of its own: in another, what others have freed would be used first, and not show.

    large_reads.py <url> <how many>
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys

import stateward


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(url: str, loads: int) -> None:
    policy = stateward.Policy(read_timeout=100.0, write_timeout=100.0, threads="raise")
    async with stateward.open(url, policy=policy, heartbeat=None) as store:
        await store.thread("none").load()
        before = peak_kib()

        async def count(number: int) -> int:
            return len((await store.thread(f"t-{number}", user="u").load()).messages)

        found = await asyncio.gather(*map(count, range(loads)))
        said = {
            "messages": found,
            "kib": peak_kib() - before,
            "breaker": (await store.health()).breaker,
            "opened": store.counters.breaker_opened,
        }
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
