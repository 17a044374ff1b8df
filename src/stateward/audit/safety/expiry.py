"""Expiry of an audit's data, should no one remove it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.ops import Commit, Op, Outcome, SetHead

DAY = 86_400.0


class ExpiringEngine(Passthrough):
    """Any engine, with an expiry of `seconds` on everything that is created through it.

    Users, workflows and shared documents would otherwise live for ever.
    """

    def __init__(self, engine: Engine, seconds: float = DAY) -> None:
        super().__init__(engine)
        self._seconds = seconds

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await self._engine.execute([self._bounded(op) for op in ops], deadline=deadline)

    def _bounded(self, op: Op) -> Op:
        if not isinstance(op, Commit):
            return op
        most = self._seconds
        writes = tuple(
            replace(write, retain=most)
            if isinstance(write, SetHead) and write.retain is not None and not _within(write, most)
            else write
            for write in op.writes
        )
        span = most if op.retain is None else min(op.retain, most)
        return replace(op, retain=span, writes=writes)


def _within(write: SetHead, most: float) -> bool:
    """Return True if the write limits the retention to `most` or less; 0 is no limit."""
    return write.retain is not None and 0 < write.retain <= most
