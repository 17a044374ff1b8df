"""Every call is timed and counted, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.errors import StoreMisused
from stateward.layers.layer import Execute
from stateward.observe.recorder import Recorder
from stateward.ops import Op, Outcome
from stateward.world import World


class Instruments:
    """Over everything else: what is measured is what a caller waits for, retries included."""

    def __init__(self, below: Execute, recorder: Recorder, world: World) -> None:
        self._below = below
        self._recorder = recorder
        self._world = world

    async def execute(
        self, ops: Sequence[Op], deadline: float | None = None, traced: bool = False
    ) -> list[Outcome]:
        recorder, monotonic = self._recorder, self._world.monotonic
        if recorder.tracing is not None and not traced:
            with recorder.tracing(recorder.engine, ops):
                return await self.execute(ops, deadline, True)
        known = recorder.consistency.known(ops)
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
        recorder.answered(ops, outcomes, known, now - start, now)
        return outcomes
