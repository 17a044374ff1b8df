"""The layer that times and counts every call, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from stateward.errors import StoreMisused
from stateward.layers.layer import Execute
from stateward.observe.recorder import Recorder, Tracing
from stateward.ops import Op, Outcome
from stateward.world import World


class Instruments:
    """Over everything else: what is measured is what a caller waits for, retries included."""

    def __init__(self, below: Execute, recorder: Recorder, world: World) -> None:
        self._below = below
        self._recorder = recorder
        self._world = world

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        tracing = self._recorder.tracing
        if tracing is None:
            return self._measured(ops, deadline)
        return self._traced(tracing, ops, deadline)

    async def _traced(
        self, tracing: Tracing, ops: Sequence[Op], deadline: float | None
    ) -> list[Outcome]:
        with tracing(self._recorder.engine, ops):
            return await self._measured(ops, deadline)

    async def _measured(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        recorder, monotonic = self._recorder, self._world.monotonic
        commits = recorder.consistency.commits_of(ops)
        start = monotonic()
        try:
            outcomes = await self._below(ops, deadline)
        except StoreMisused:
            raise  # nothing was asked of the store; after a fork a lock of these may never be free
        except BaseException as error:
            now = monotonic()
            recorder.failed(ops, error, now - start, now)
            raise
        now = monotonic()
        recorder.answered(ops, outcomes, commits, now - start, now)
        return outcomes
