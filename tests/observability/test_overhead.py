"""Watching costs an operation next to nothing."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import Callable

import pytest
from guard.counting import COUNTED, WARM, Counter, Counts, median_of

import stateward
from stateward import sync
from stateward.observe.exporters.statsd import Statsd

LIMIT = 5.0  # µs an operation
MESSAGE = {"role": "user", "content": "How long for medium rare?"}
CALLS: dict[str, Callable[[sync.Store], object]] = {
    "get": lambda store: store.user("u").get(),
    "load": lambda store: store.thread("t").load(last=20),
    "append": lambda store: store.thread("t").append(MESSAGE),
    "put": lambda store: store.user("u").put({"n": 1}),
}


@pytest.mark.parametrize("name", CALLS)
def test_instruments_take_few_lines_an_operation(name: str) -> None:
    """Counted, since times depend on the machine: `python -m bench.instruments` measures those."""
    on, off = (counted(CALLS[name], metrics=metrics) for metrics in (True, False))
    assert 0 < on["lines"] - off["lines"] <= 50
    assert 0 < on["calls"] - off["calls"] <= 15


def counted(call: Callable[[sync.Store], object], *, metrics: bool) -> Counts:
    counter, found = Counter(), []
    with sync.open("memory://", metrics=metrics) as store:
        store.thread("t").append(MESSAGE)
        for _ in range(WARM):
            call(store)
        for _ in range(COUNTED):
            with counter.counting():
                call(store)
            found.append(counter.counts)
    return median_of(found)


@pytest.mark.timing
async def test_a_statsd_host_that_is_dead_costs_no_more_than_one_that_listens() -> None:
    """Operations beside an exporter that flushes a hundred times a second into the void."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        alive = listening.getsockname()[1]
        async with stateward.open("memory://") as store:
            differences = []
            for _ in range(10):
                heard = await _median_beside(store, "127.0.0.1", alive)
                differences.append(await _median_beside(store, "no-such-host.invalid", 1) - heard)
    assert statistics.median(differences) <= LIMIT, differences


async def _median_beside(store: stateward.Store, host: str, port: int) -> float:
    took = []
    with Statsd(store, host=host, port=port, every=0.01):
        await asyncio.sleep(0.02)
        for _ in range(200):
            begun = time.perf_counter()
            await store.user("u-1").get()
            took.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(took)
