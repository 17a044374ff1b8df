"""Time, chance and identity of one simulated process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from simulation.loop import Strand, VirtualLoop, context_of
from stateward.world import Ticker, World

T = TypeVar("T")


class SimulatedTicker(Ticker):
    """The lease thread of a process, as callbacks of the virtual loop on a strand of its own."""

    def __init__(
        self, step: Callable[[], float | None], loop: VirtualLoop, strand: Strand, lateness: Random
    ) -> None:
        self._step = step
        self._loop = loop
        self._strand = strand
        self._lateness = lateness
        self._stopped = self._awake = False
        self._next: asyncio.TimerHandle | None = None
        self._after(0.0)

    def wake(self) -> None:
        self._awake = True
        self._after(0.0)

    def stop(self) -> None:
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def _after(self, delay: float) -> None:
        if self._next is not None:
            self._next.cancel()
        if self._stopped:
            return
        late = delay + 0.01 * self._lateness.random()  # a thread runs when it gets its turn
        context = context_of(self._strand)
        self._next = self._loop.call_later(late, self._run, context=context)

    def _run(self) -> None:
        if self._stopped:
            return
        self._awake = False
        delay = self._step()
        if not self._awake and delay is not None:
            self._after(delay)


class SimulatedWorld(World):
    """What one process sees: a clock that may be wrong, a monotonic one that is not."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        clock: Callable[[], float],
        chance: Random,
        beside: Strand,
        over: Callable[[], bool],
    ) -> None:
        self._name = name
        self._loop = loop
        self._clock = clock
        self._chance = chance
        self._beside = beside
        self._over = over
        self._ids = 0

    def now(self) -> float:
        return self._clock()

    def monotonic(self) -> float:
        return self._loop.time()

    def random(self) -> float:
        return self._chance.random()

    def new_id(self) -> str:
        """Fresh, and readable in a trace: who drew it, and which of theirs it is."""
        self._ids += 1
        return f"{self._name}-{self._ids:04}"

    def new_op(self) -> str:
        return self.new_id()

    def ticker(self, step: Callable[[], float | None], name: str) -> Ticker:
        return SimulatedTicker(step, self._loop, self._beside, self._chance)

    async def offload(self, work: Callable[..., T], *args: Any) -> T:
        await self.pause(0)
        return work(*args)

    def name(self) -> str:
        return self._name

    async def pause(self, seconds: float) -> None:
        if self._over():
            raise asyncio.CancelledError
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        raise AssertionError(f"simulated code blocks its event loop for {seconds} s")
