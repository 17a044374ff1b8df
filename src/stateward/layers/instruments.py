"""Every call is timed and counted, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stateward.observe.recorder import Recorder, Tracing
from stateward.ops import Op, Outcome
from stateward.world import World

Execute = Callable[[Sequence[Op]], Coroutine[Any, Any, list[Outcome]]]


class Instruments:
    """Over everything else: what is measured is what a caller waits for, retries included."""

    def __init__(self, below: Execute, meter: Recorder, world: World) -> None:
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
            outcomes = await self._below(ops)
        except BaseException as error:
            now = monotonic()
            meter.failed(ops, error, now - start, now)
            raise
        now = monotonic()
        meter.answered(ops, outcomes, known, now - start, now)
        return outcomes
