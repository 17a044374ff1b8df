"""The way to an engine that many callers share: one lane for reads, one for writes.

See `lane.py` for how callers share a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Any

from stateward.engine import Engine
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.layers.lane import Lane
from stateward.layers.queue import after_writes
from stateward.observe.recorder import Recorder
from stateward.ops import READS, Op, Outcome


class Coalescer:
    """The engine's `execute`, shared by all tasks of one event loop, or by all threads."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        can = engine.capabilities
        flights, most = can.parallel_batches, can.batch  # async only
        reads = None if recorder is None else recorder.read_batches
        writes = None if recorder is None else recorder.write_batches
        # sync only: self._reads = Lane(engine, clock, reads)
        # sync only: self._writes = Lane(engine, clock, writes)
        # async only: begin
        self._reads = Lane(
            engine, clock, reads, can.parallel_reads or flights, can.read_batch or most
        )
        self._writes = Lane(engine, clock, writes, flights, most)
        # async only: end
        self._inline = can.inline_reads

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Return outcomes in the order of `ops`, by the `deadline` (by the monotonic clock).

        Raises `StoreUnavailable` with `applied="no"` when it passes before the ops were sent, and
        `applied="unknown"` when it passes after. A thread that makes the round trip itself waits
        until the engine gives it up, which it does where there is a network in between.
        """
        if type(ops[0]) in READS if len(ops) == 1 else READS.issuperset(map(type, ops)):
            if self._inline:
                return self._engine.execute(ops, deadline=deadline)
            return self._reads.execute(ops, deadline)
        if len(ops) == 1 or READS.isdisjoint(map(type, ops)):
            return self._writes.execute(ops, deadline)
        return self._execute_both(ops, deadline)

    async def _execute_both(self, ops: Sequence[Op], deadline: float | None) -> list[Outcome]:
        writes = [op for op in ops if type(op) not in READS]
        reads = [op for op in ops if type(op) in READS]
        written = iter(await self._writes.execute(writes, deadline))
        try:
            read = iter(await self._reads.execute(reads, deadline))
        except (StoreUnavailable, InvalidInput) as error:
            raise after_writes(error) from error
        return [next(read if type(op) in READS else written) for op in ops]

    async def drain(self) -> None:
        """Wait until nothing is waiting or under way."""
        await self._writes.drain()
        await self._reads.drain()
