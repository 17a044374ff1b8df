"""Summaries in the background, and what is said when one fails."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import stateward
import stateward.sync

Message = dict[str, Any]


def turns(number: int) -> list[Message]:
    turn = ({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"})
    return [message for _ in range(number) for message in turn]


def words(previous: str | None, messages: list[Message]) -> str:
    return "a summary"


async def test_closing_cancels_a_background_summary_and_gives_its_lease_back(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    begun = asyncio.Event()

    async def never(previous: str | None, messages: list[Message]) -> str:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    slow = stateward.Compaction(never, after=6, keep=2, background=True)
    store = stateward.open(url)
    thread = store.thread("t")
    await thread.append(*turns(5))
    for _ in range(3):  # one is enough
        assert (await thread.load(summarize=slow)).summary is None
    await asyncio.wait_for(begun.wait(), 10)
    assert store.counters.summaries_elsewhere == 0
    await asyncio.wait_for(store.close(), 10)
    async with stateward.open(url) as other:
        summary = await other.thread("t").compact(stateward.Compaction(words, after=6, keep=2))
    assert summary is not None
    assert summary.upto == 8


def test_a_blocking_summary_in_the_background_does_not_hold_up_the_turn(tmp_path: Path) -> None:
    go, done = threading.Event(), threading.Event()

    def slow(previous: str | None, messages: list[Message]) -> str:
        assert go.wait(10)
        done.set()
        return "a summary"

    compaction = stateward.sync.Compaction(slow, after=6, keep=2, background=True)
    with stateward.sync.open(f"sqlite:///{tmp_path}/store.db") as store:
        thread = store.thread("t")
        thread.append(*turns(5))
        assert thread.load(summarize=compaction).summary is None
        assert not done.is_set()
        go.set()
    assert done.is_set()  # closing waited for it
    with stateward.sync.open(f"sqlite:///{tmp_path}/store.db") as store:
        assert store.thread("t").load(summarize=compaction).summary == "a summary"


async def test_a_failed_summary_is_logged_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(previous: str | None, messages: list[Message]) -> str:
        raise TimeoutError("the model said: a secret")

    async with stateward.open(f"sqlite:///{tmp_path}/store.db") as store:
        thread = store.thread("t-9")
        await thread.append(*turns(5))
        with caplog.at_level(logging.WARNING):
            await thread.load(summarize=stateward.Compaction(fails, after=6, keep=2))
    (record,) = caplog.records
    assert (record.name, record.message) == ("stateward.summaries", "summary_failed")
    assert record.__dict__["error"] == "TimeoutError"
    assert record.__dict__["thread_id"] == "t-9"
    assert "secret" not in caplog.text
