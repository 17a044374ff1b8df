"""Work that outlives its caller."""

from __future__ import annotations

import asyncio

import pytest

from stateward.state.background import Background


async def test_closing_waits_for_what_a_caller_awaits_and_for_what_follows_its_cancellation() -> (
    None
):
    background, done = Background(), list[str]()
    going = asyncio.Event()

    async def work() -> None:
        await going.wait()
        done.append("work")

    async def undo() -> None:
        await asyncio.sleep(0)
        done.append("undo")

    async def caller() -> None:
        try:
            await background.awaited(work())
        except asyncio.CancelledError:
            background.must_finish(undo())
            raise

    first, second = asyncio.create_task(caller()), asyncio.create_task(caller())
    await asyncio.sleep(0)
    closing = asyncio.create_task(background.finish())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not closing.done()
    going.set()
    await closing
    await second
    assert sorted(done) == ["undo", "work"]
