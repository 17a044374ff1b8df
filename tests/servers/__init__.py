"""Real servers that the tests start themselves, on free loopback ports, and can kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 30.0


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it holds; one that never does is a failure."""
    end = time.monotonic() + PATIENCE
    for pause in [0.0] * 100 + [0.002] * 100_000:
        if condition():
            return
        assert time.monotonic() < end, "what the test waits for does not happen"
        await asyncio.sleep(pause)
