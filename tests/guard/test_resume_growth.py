"""What a resume of a workflow costs when it has become ten times as long.

Counted by what the store is asked: round trips, and the rows and bytes that come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateward import sync
from stateward.engines.memory.model import Model
from stateward.ops import Fetched, Op, Outcome
from stateward.sync.engines.memory import MemoryEngine
from stateward.sync.engines.passthrough import Passthrough
from stateward.world import World

LENGTHS = (400, 4_000)
PAGE = 200


class Counted(Passthrough):
    """An engine that counts what it is asked, and what it answers."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.round_trips = self.rows = self.bytes = 0

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = super().execute(ops, deadline=deadline)
        self.round_trips += 1
        for outcome in outcomes:
            if isinstance(outcome, Fetched):
                self.rows += outcome.count
                self.bytes += len(outcome.lines) + sum(len(each.body) for each in outcome.entries)
                self.bytes += sum(len(each.json) for each in outcome.documents.values())
        return outcomes


def answer(number: int) -> str:
    return f"answer {number}"


def replayed(run: sync.Run, calls: int) -> list[str]:
    return [run.step("model", answer, number) for number in range(calls)]


def checkpointed(run: sync.Run, calls: int) -> list[str]:
    state = run.checkpointed or {"calls": 0, "last": []}
    while state["calls"] < calls:
        said = [*state["last"], run.step("model", answer, state["calls"])]
        state = {"calls": state["calls"] + 1, "last": said[-20:]}
        run.checkpoint(state)
    last: list[str] = state["last"]
    return last


def resume(flow: Callable[[sync.Run, int], list[str]], calls: int) -> Counted:
    """What the last resume of a workflow asks, until its code is where it was."""
    model = Model()
    with sync.Store(MemoryEngine(model, World())) as store, store.workflow("w", kind="k") as run:
        first = flow(run, calls)
        run.wait("more")
    counted = Counted(MemoryEngine(model, World()))
    with sync.Store(counted) as store, store.workflow("w") as run:
        assert flow(run, calls) == first
        run.wait("more")
    return counted


def test_a_replay_of_ten_times_as_many_steps_takes_as_many_round_trips() -> None:
    """The last page comes first, with its details; all that is before it then comes as text."""
    short, long = (resume(replayed, calls) for calls in LENGTHS)
    assert long.round_trips == short.round_trips
    assert (short.rows, long.rows) == (401, 4_001)  # each once, and the wait
    assert long.bytes <= 11 * short.bytes


def test_a_resume_from_a_checkpoint_reads_as_much_however_long_the_work_was() -> None:
    short, long = (resume(checkpointed, calls) for calls in LENGTHS)
    assert long.round_trips == short.round_trips
    assert max(short.rows, long.rows) <= PAGE
    assert long.bytes <= 1.5 * short.bytes
