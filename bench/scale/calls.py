"""What a call costs client and server in processor time, with many under way at once.

Processor time, unlike the time that passes, hardly depends on what else the machine does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from time import process_time
from typing import Any

import stateward
from bench.conversations import turn
from bench.scale.places import Place
from bench.scale.turns import PATIENT

AT_ONCE = 100
HISTORY = 100  # messages


@dataclass(frozen=True)
class Cost:
    """Means of a call."""

    call: str
    client_us: float
    server_us: float | None  # None: there is no server
    sent: float | None  # bytes to the server, where it counts them
    received: float | None


def measure(place: Place, calls: int) -> list[Cost]:
    return asyncio.run(_measure(place, place.url("calls"), calls))


async def _measure(place: Place, url: str, calls: int) -> list[Cost]:
    async with stateward.open(url, policy=PATIENT, spill=False) as store:
        for number in range(AT_ONCE):
            await store.thread(f"t-{number}", f"u-{number}").append(
                *(m for n in range(HISTORY // 2) for m in turn(n))
            )
            await store.user(f"u-{number}").put({"visits": 0, "notes": "x" * 400})
        new = count()
        asked: dict[str, Callable[[int], Awaitable[Any]]] = {
            "append to a new thread": lambda n: store.thread(f"new-{next(new)}", f"u-{n}").append(
                *turn(n)
            ),
            "append": lambda n: store.thread(f"t-{n}", f"u-{n}").append(*turn(n)),
            "last 20": lambda n: store.thread(f"t-{n}", f"u-{n}").load(last=20),
            "full context": lambda n: store.context(user=f"u-{n}", thread=f"t-{n}", last=20),
            "user get": lambda n: store.user(f"u-{n}").get(),
            "user update": lambda n: store.user(f"u-{n}").update(_visit),
        }
        found = []
        for name, call in asked.items():
            await _many(call, AT_ONCE)  # connections and statements are there now
            before = process_time(), place.cpu(), place.network("calls")
            await _many(call, calls)
            client, server, network = process_time(), place.cpu(), place.network("calls")
            found.append(
                Cost(
                    name,
                    (client - before[0]) / calls * 1e6,
                    _mean(before[1], server, calls, 1e6),
                    *(
                        _mean(was, now, calls, 1.0)
                        for was, now in zip(before[2], network, strict=True)
                    ),
                )
            )
    return found


def _mean(was: float | None, now: float | None, calls: int, unit: float) -> float | None:
    return None if was is None or now is None else (now - was) / calls * unit


async def _many(call: Callable[[int], Awaitable[Any]], calls: int) -> None:
    async def caller(number: int) -> None:
        for _ in range(calls // AT_ONCE):
            await call(number)

    await asyncio.gather(*(caller(number) for number in range(AT_ONCE)))


def _visit(value: dict[str, Any]) -> None:
    value["visits"] += 1
