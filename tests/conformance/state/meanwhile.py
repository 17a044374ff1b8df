"""Several things at once, in either colour, and replicas that are cut off from their store."""

from __future__ import annotations

import asyncio

# sync only: import threading
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from conformance.state.harness import StoreHarness
from stateward.layers.policy import Policy
from stateward.state.calls import awaited
from stateward.testing.faults import FaultyEngine, FaultyStore

T = TypeVar("T")

PATIENCE = 30.0  # seconds after which what a case waits for has not happened


class Beside(Generic[T]):
    """Work that goes on beside the case: a task of the event loop, or a thread."""

    def __init__(self, work: Callable[..., Awaitable[T]], *args: Any) -> None:
        self.done = False
        self._work = work
        self._args = args
        self._results: list[T] = []
        self._error: Exception | None = None
        # async only: begin
        self._task = asyncio.ensure_future(self._run())
        # async only: end
        # sync only: self._thread = threading.Thread(target=self._run, daemon=True)
        # sync only: self._thread.start()

    async def _run(self) -> None:
        try:
            self._results.append(await self._work(*self._args))
        except Exception as error:
            self._error = error
        self.done = True

    async def result(self) -> T:
        """Wait for its end; what it returned, or the error it raised."""
        await self._task  # async only
        # sync only: self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]


async def until(h: StoreHarness, happened: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until it has happened."""
    end = h.world.monotonic() + PATIENCE
    while not await awaited(happened()):
        assert h.world.monotonic() < end, "what the case waits for never happened"
        await h.world.pause(0.002)


def severable(h: StoreHarness, *, heartbeat: float | None = None, **policy: Any) -> FaultyStore:
    """A replica that `faults.unavailable()` cuts off: for the others it has vanished.

    Unlike a process that dies it is told so, and soon: what it still tries raises.
    """
    engine = FaultyEngine(h.make_engine(), h.world)
    chosen: dict[str, Any] = {"read_timeout": 0.2, "write_timeout": 0.2} | policy
    return FaultyStore(
        engine, namespace=h.namespace, world=h.world, policy=Policy(**chosen), heartbeat=heartbeat
    )


def rounds(number: int) -> Callable[[], bool]:
    """For `work(until=…)`: look for work so many times, then stop."""
    left = number

    def over() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return over
