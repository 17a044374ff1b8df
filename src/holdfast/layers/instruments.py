"""Every call is timed and counted, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from holdfast.meter import Meter, Tracing
from holdfast.ops import Op, Outcome
from holdfast.world import World


class Below(Protocol):
    """What stands below."""

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]: ...


class Instruments:
    """Over the deadlines: what is measured is what a caller waits for, retries included."""

    def __init__(self, below: Below, meter: Meter, world: World) -> None:
        self._below = below
        self._meter = meter
        self._world = world

    def execute(self, ops: Sequence[Op]) -> Coroutine[Any, Any, list[Outcome]]:
        tracing = self._meter.tracing
        return self._measured(ops) if tracing is None else self._traced(ops, tracing)

    async def _traced(self, ops: Sequence[Op], tracing: Tracing) -> list[Outcome]:
        with tracing(self._meter.engine, ops):
            return await self._measured(ops)

    async def _measured(self, ops: Sequence[Op]) -> list[Outcome]:
        meter, monotonic = self._meter, self._world.monotonic
        known = meter.known(ops)
        start = monotonic()
        try:
            outcomes = await self._below.execute(ops)
        except BaseException as error:
            meter.failed(ops, error, monotonic() - start)
            raise
        now = monotonic()
        meter.answered(ops, outcomes, known, now - start, now)
        return outcomes
