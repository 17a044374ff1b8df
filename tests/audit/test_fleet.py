"""Replicas as the conductor asks them."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
