"""Time, chance and identity, in one place.

Nothing else in Holdfast asks the operating system for the time, a random number or a fresh
id. A test or a simulation passes a `World` of its own and owns all three.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class World:
    """The real one."""

    def now(self) -> float:
        """Seconds since the epoch: the clock of embedded engines."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that never steps: for deadlines and durations."""
        return time.monotonic()

    def random(self) -> float:
        """A number in [0, 1)."""
        return random.random()

    def new_id(self) -> str:
        """A fresh id of 96 random bits, as 16 characters."""
        return base64.urlsafe_b64encode(os.urandom(12)).decode("ascii")

    async def offload(self, work: Callable[..., T], *args: Any) -> T:
        """Do blocking work (files) while others run."""
        return await asyncio.to_thread(work, *args)

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Do blocking work on this thread: what `offload` is to blocking callers."""
        return work(*args)

    async def pause(self, seconds: float) -> None:
        """Let `seconds` pass while others run."""
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Let `seconds` pass on this thread: what `pause` is to blocking callers."""
        time.sleep(seconds)
