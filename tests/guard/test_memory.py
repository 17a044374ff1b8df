"""An open conversation that nobody uses at the moment takes little memory."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running

import stateward

# Not more, so that a table that keeps thousands does not pass by being full.
CONVERSATIONS, TOGETHER = 2_000, 250
MOST = 1024  # bytes of each: its handle, and what is remembered of it for a while
TURN = ({"role": "user", "content": "q" * 480}, {"role": "assistant", "content": "a" * 480})
POLICY = stateward.Policy(read_timeout=100.0, write_timeout=100.0, threads="raise")


async def use_once(thread: stateward.Thread) -> None:
    await thread.append(*TURN)
    await thread.load(last=20)


async def use(store: stateward.Store, name: str, count: int) -> list[stateward.Thread]:
    threads = [store.thread(f"{name}-{number}", user=f"u-{number}") for number in range(count)]
    for start in range(0, count, TOGETHER):
        await asyncio.gather(*map(use_once, threads[start : start + TOGETHER]))
    return threads


async def traced(url: str) -> float:
    """Bytes that a process has more of for each conversation that it has used."""
    async with stateward.open(url, policy=POLICY, heartbeat=None) as store:
        await use(store, "warm", TOGETHER)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            threads = await use(store, "t", CONVERSATIONS)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / len(threads)


async def test_an_idle_conversation_takes_less_than_a_kibibyte(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db?durability=relaxed"
    assert await traced(url) <= MOST


@pytest.mark.verify
async def test_an_idle_conversation_takes_less_than_a_kibibyte_on_valkey(tmp_path: Path) -> None:
    with running(tmp_path / "server", "valkey") as server:
        assert await traced(server.url) <= MOST


@pytest.mark.verify
async def test_an_idle_conversation_takes_less_than_a_kibibyte_on_postgres() -> None:
    server = PostgresServer(fsync="off").start()
    try:
        assert await traced(server.url) <= MOST
    finally:
        server.remove()
