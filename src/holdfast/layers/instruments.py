"""Every call is timed and counted, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from holdfast.layers.policy import Deadlines
from holdfast.meter import Meter, Tracing
from holdfast.ops import Op, Outcome
from holdfast.world import World


class Instruments:
    """Over the deadlines: what is measured is what a caller waits for, retries included."""

    def __init__(self, below: Deadlines, meter: Meter, world: World) -> None:
        self._below = below
        self._meter = meter
        self._world = world

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        tracing = self._meter.tracing
        if tracing is None:
            return self._measured(ops, deadline)
        return self._traced(ops, deadline, tracing)

    async def _traced(
        self, ops: Sequence[Op], deadline: float | None, tracing: Tracing
    ) -> list[Outcome]:
        with tracing(self._meter.engine, ops):
            return await self._measured(ops, deadline)

    async def _measured(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        meter, monotonic = self._meter, self._world.monotonic
        known = meter.known(ops)
        start = monotonic()
        try:
            outcomes = await self._below.execute(ops, deadline)
        except BaseException as error:
            meter.failed(ops, error, monotonic() - start)
            raise
        now = monotonic()
        meter.answered(ops, outcomes, known, now - start, now)
        return outcomes
