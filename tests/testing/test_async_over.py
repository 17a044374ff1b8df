"""A blocking engine behind the async contract: called by real threads, several at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from stateward.engines.memory.model import Model
from stateward.ops import Append, Applied, Commit, Entity, Op, Outcome
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.engines.passthrough import Passthrough
from stateward.testing.async_over import AsyncOver
from stateward.world import World

CALLS = 3


class Meeting(Passthrough):
    """Answers nobody until several have asked at once."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine(Model(), World()))
        self.callers: list[int] = []
        self._barrier = threading.Barrier(CALLS, timeout=30.0)

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.callers.append(threading.get_ident())
        self._barrier.wait()
        return super().execute(ops, deadline=deadline)


def append(number: int) -> Commit:
    return Commit(Entity("n", "thread", "t"), f"op-{number}", (Append((f"{number}",)),))


async def test_calls_made_at_once_reach_the_engine_at_once_and_not_from_the_event_loop() -> None:
    meeting = Meeting()
    engine = AsyncOver(meeting)
    await engine.open()
    outcomes = await asyncio.gather(*(engine.execute([append(n)]) for n in range(CALLS)))
    assert all(isinstance(outcome, Applied) for (outcome,) in outcomes)
    assert sorted(outcome.version for (outcome,) in outcomes) == [1, 2, 3]  # type: ignore[union-attr]
    assert len({*meeting.callers, threading.get_ident()}) == CALLS + 1
    await engine.close()


async def test_an_error_of_the_engine_is_the_callers() -> None:
    engine = AsyncOver(MemoryEngine(Model(), World()))
    await engine.open()
    with pytest.raises(ValueError, match="at least one"):
        await engine.execute([Commit(Entity("n", "thread", "t"), "op", ())])
    await engine.close()


def test_it_promises_what_the_engine_does_but_for_what_it_does_not_hand_on() -> None:
    behind = MemoryEngine(Model(), World())
    capabilities = AsyncOver(behind).capabilities
    assert capabilities.snapshots == behind.capabilities.snapshots
    assert not capabilities.purges
    assert not capabilities.schemas
