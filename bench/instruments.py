"""What the instruments cost an operation: on against off, interleaved, in processor time.

    python -m bench.instruments

Two stores in memory, where an operation itself costs least, so that the difference shows. They take
turns in short rounds, and what is compared is the median of the differences: a busy machine slows
both of a pair alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import stateward
from stateward import sync

ROUNDS = 60
CALLS = 100
MESSAGE = {"role": "user", "content": "How long for medium rare?"}

Call = Callable[[], Awaitable[object]]


class Cost(NamedTuple):
    """Microseconds an operation."""

    name: str
    off: float
    on: float
    difference: float


def measure(rounds: int = ROUNDS) -> list[Cost]:
    """Every operation, in both colours."""
    return [*asyncio.run(_async(rounds)), *_sync(rounds)]


async def _async(rounds: int) -> list[Cost]:
    async with stateward.open("memory://") as on, stateward.open("memory://", metrics=False) as off:
        costs = []
        for name in ("get", "load", "append", "put"):
            pairs = []
            for _ in range(rounds):
                with_them = await _turn(_call(on, name))
                pairs.append((with_them, await _turn(_call(off, name))))
            costs.append(_cost(f"async {name}", pairs))
        return costs


def _call(store: stateward.Store, name: str) -> Call:
    thread, user = store.thread("s-1"), store.user("u-1")
    calls: dict[str, Call] = {
        "get": user.get,
        "load": lambda: thread.load(last=5),
        "append": lambda: thread.append(MESSAGE),
        "put": lambda: user.put({"plan": "pro"}),
    }
    return calls[name]


async def _turn(call: Call) -> float:
    begun = time.thread_time()
    for _ in range(CALLS):
        await call()
    return (time.thread_time() - begun) / CALLS * 1e6


def _sync(rounds: int) -> list[Cost]:
    with sync.open("memory://") as on, sync.open("memory://", metrics=False) as off:
        costs = []
        for name in ("get", "load"):
            pairs = []
            for _ in range(rounds):
                with_them = _sync_turn(on, name)
                pairs.append((with_them, _sync_turn(off, name)))
            costs.append(_cost(f"sync {name}", pairs))
        return costs


def _sync_turn(store: sync.Store, name: str) -> float:
    thread, user = store.thread("s-1"), store.user("u-1")
    begun = time.thread_time()
    for _ in range(CALLS):
        if name == "get":
            user.get()
        else:
            thread.load(last=5)
    return (time.thread_time() - begun) / CALLS * 1e6


def _cost(name: str, pairs: list[tuple[float, float]]) -> Cost:
    return Cost(
        name,
        off=statistics.median(off for _, off in pairs),
        on=statistics.median(on for on, _ in pairs),
        difference=statistics.median(on - off for on, off in pairs),
    )


def main() -> None:
    print(f"{'operation':<14} {'off µs':>8} {'on µs':>8} {'cost µs':>8}")
    for cost in measure():
        print(f"{cost.name:<14} {cost.off:>8.2f} {cost.on:>8.2f} {cost.difference:>8.2f}")


if __name__ == "__main__":
    main()
