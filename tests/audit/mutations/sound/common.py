"""What the memories written by hand share: JSON, leases that are kept alive, and lookup times."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LEASE = 1.5  # seconds that a task or workflow stays claimed without a sign of life
BEAT = 0.4  # seconds between two signs of life
LOOK = 0.02  # seconds between two looks at what another replica is doing
WAIT = 30.0  # seconds that a lock is waited for


def dumped(value: Any) -> str:
    """ASCII alone: no store has an opinion on what is in it."""
    return json.dumps(value, separators=(",", ":"))


class LookupTimes:
    """How long the last lookups took."""

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[float] = deque(maxlen=2000)

    def add(self, seconds: float) -> None:
        self.count += 1
        self._last.append(seconds)

    def told(self) -> Json:
        times = sorted(self._last)
        if len(times) < 2:
            return {"lookups": self.count, "percentiles": {}}
        cuts = statistics.quantiles(times, n=100, method="inclusive")
        named = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
        return {"lookups": self.count, "percentiles": named}


@asynccontextmanager
async def kept_alive(renew: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Renewed every now and then while the block runs."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT)
            with suppress(Exception):  # the next one may succeed; if none does, the lease ends
                await renew()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


_act: ContextVar[str] = ContextVar("act")


async def acted(names: tuple[str, ...], function: Callable[[], Awaitable[Any]]) -> Any:
    """What the function of a task or a step returns; meanwhile its key is known."""
    token = _act.set(dumped(names))
    try:
        return await function()
    finally:
        _act.reset(token)


def act_key() -> str:
    """Of what is being done: the same at every try, in every process."""
    return _act.get()


def fitted(whole: list[Json], last: int) -> list[Json]:
    """For a model: system messages, whole turns that fit; of one that does not, what can be."""
    first = next((n for n, each in enumerate(whole) if each["role"] != "system"), len(whole))
    pinned, said = whole[:first], whole[first:]
    begins = [n for n, each in enumerate(said) if each["role"] == "user"]
    fits = [n for n in begins if len(said) - n <= last]
    if fits or not begins:
        return [*pinned, *said[fits[0] if fits else len(said) :]]
    question, steps = said[begins[-1]], said[begins[-1] + 1 :]
    # From where a step begins: a call, or whatever is no result.
    starts = [n for n, each in enumerate(steps) if "tool_call_id" not in each]
    room = [n for n in starts if len(steps) - n <= last - 1]
    if room:
        return [*pinned, question, *steps[room[0] :]]
    return [*pinned, *steps[-last:]] if steps else [*pinned, question]


def now() -> float:
    """Of a clock that all processes of this machine share."""
    return time.time()


def write_file(folder: str, name: str, data: bytes) -> None:
    (Path(folder) / name).write_bytes(data)


def read_file(folder: str, name: str) -> bytes:
    return (Path(folder) / name).read_bytes()
