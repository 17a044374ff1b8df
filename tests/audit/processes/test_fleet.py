"""Replicas as the conductor asks them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stateward.audit.faults.disk import DiskFull
from stateward.audit.replicas.fleet import Fleet
from stateward.audit.targets.choice import choose


async def test_an_interrupt_that_meets_an_answer_is_not_lost(tmp_path: Path) -> None:
    fleet = Fleet(choose("naive:process-dict", str(tmp_path), "n", None))
    try:
        (replica,) = await fleet.start()
        for wait in range(200):

            async def ask_on() -> None:
                while True:
                    await replica.call("load", "t", 1)

            asking = asyncio.create_task(ask_on())
            await asyncio.sleep(wait * 0.00001)
            asking.cancel()
            await asyncio.wait([asking], timeout=5.0)
            assert asking.cancelled()
    finally:
        await fleet.kill_all()


MEMORY = """
class Memory:
    def __init__(self, namespace):
        pass

    def append(self, thread, messages, key):
        pass

    def load(self, thread, last):
        import imported_late
        return []
"""


async def test_what_is_imported_while_the_disk_is_full_leaves_no_half_of_its_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_memory.py").write_text(MEMORY)
    (tmp_path / "imported_late.py").write_text(f"TEXT = {'x' * 1000!r}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    fleet = Fleet(choose("own_memory:Memory", str(tmp_path), "n", None))
    full = DiskFull(small=True)
    try:
        (replica,) = await fleet.start()
        await full.begin(replica)
        await replica.call("load", "t", 1)
        await full.end(replica)
    finally:
        await fleet.kill_all()
    left = sorted(tmp_path.glob("__pycache__/imported_late.*"))  # noqa: ASYNC240
    assert left == []
