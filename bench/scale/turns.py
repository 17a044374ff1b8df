"""Filling stores with conversations, a turn at a time, as agents do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import stateward
from bench.conversations import turn

# What takes long is measured, not given up.
PATIENT = stateward.Policy(read_timeout=120.0, write_timeout=120.0, threads="raise")
AT_ONCE = 200  # conversations that talk at the same time
USERS = 1_000


async def fill(
    url: str, conversations: int, messages: int, say: Callable[[int], None] = lambda _: None
) -> None:
    """So many conversations of so many messages each; `say` is told how many are done."""
    left = iter(range(conversations))
    done = 0
    async with stateward.open(url, policy=PATIENT, spill=False) as store:

        async def writer() -> None:
            nonlocal done
            for number in left:
                thread = store.thread(f"c-{number}", user=f"u-{number % USERS}")
                for each in range(messages // 2):
                    await thread.append(*turn(each))
                done += 1
                say(done)

        await asyncio.gather(*(writer() for _ in range(min(AT_ONCE, conversations))))
