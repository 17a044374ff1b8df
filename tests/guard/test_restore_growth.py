"""Restoring a long log into the memory engine, part by part, touches each entry a few times."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from stateward.engines.memory.model import Model
from stateward.ops import Applied, Commit, Entity, Entry, Head, Restore
from stateward.sync.engines.memory import MemoryEngine
from stateward.testing.clock import SteppableWorld

SIZE = 5  # entries in a part, each an append of its own


def calls_to_restore(parts: int) -> int:
    """Count the calls that it takes to restore a log of so many parts."""
    engine = MemoryEngine(Model(), SteppableWorld(1e9))
    engine.open()
    entity = Entity("n", "thread", "t")
    calls = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for part in range(parts):
        numbers = range(part * SIZE + 1, (part + 1) * SIZE + 1)
        entries = tuple(Entry(n, 1.0, "{}", f"op {n}", f"key {n}", n) for n in numbers)
        head = Head(True, version=numbers[-1], stamp=entries[-1].stamp, commits=1)
        write = Restore(head, entries, continued=part > 0)
        sys.setprofile(note)
        try:
            (outcome,) = engine.execute([Commit(entity, f"part {part}", (write,))])
        finally:
            sys.setprofile(None)
        assert isinstance(outcome, Applied)
    engine.close()
    return calls


def test_a_long_log_is_restored_in_linear_time() -> None:
    assert calls_to_restore(200) < 2.2 * calls_to_restore(100)
