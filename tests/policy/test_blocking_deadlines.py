"""Blocking callers in an outage: each is let go at its own deadline, whatever others wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from servers import until

from policy.engines import ENGINES, Step
from stateward import Policy, StoreUnavailable
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Append, Applied, Commit, Entity, Fetch, Log, Op
from stateward.sync.layers.coalescer import Coalescer
from stateward.sync.layers.deadlines import Deadlines
from stateward.world import World

LONG = 60.0  # the deadline of those who lead, while the others come and go
SHORT = (0.1, 0.2, 0.3)  # of the calls that each of the others makes in a row
CALLERS = 12
SLACK = 4.0  # for a slow machine; whoever waits for others, or for a connection, waits for longer

PATIENT = Policy(read_timeout=LONG, write_timeout=LONG, breaker_failures=10**6)
FAULTS = [("sqlite", "locked"), ("valkey", "frozen"), ("postgres", "frozen")]

ops = count()


def append(id: str) -> Commit:
    return Commit(Entity("n", "thread", id), f"op-{next(ops)}", (Append(("1",)),))


def fetch(id: str) -> Fetch:
    return Fetch(Entity("n", "thread", id), log=Log(last=1))


class Callers:
    """Threads that ask one engine, as those of a store do."""

    def __init__(self, engine: Any, threads: ThreadPoolExecutor) -> None:
        self._coalescer = Coalescer(engine)
        self._below = Deadlines(self._coalescer, PATIENT, World())
        self._threads = threads

    def ask(self, op: Op, seconds: float) -> Any:
        (outcome,) = self._below.execute([op], time.monotonic() + seconds)
        return outcome

    def begin(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        return self._threads.submit(call, *args)

    def row(self, id: str, ops: tuple[Callable[[str], Op], ...]) -> float:
        """How much later than allowed a caller was let go that asked for these in a row."""
        began = time.monotonic()
        for op, seconds in zip(ops, SHORT, strict=True):
            try:
                self.ask(op(id), seconds)
            except StoreUnavailable:
                pass
        return time.monotonic() - began - sum(SHORT)

    def somebody_leads(self) -> bool:
        return self._coalescer._writes._leader is not None


@asynccontextmanager
async def outage(engine: str, fault: str, folder: Path) -> AsyncIterator[tuple[Callers, Step]]:
    """Callers of a store that fails from now on, and what makes it well again."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(ENGINES[engine][0](folder))
        opened = create_sync_engine(parse(target.url), World())
        await asyncio.to_thread(opened.open)
        stack.push_async_callback(asyncio.to_thread, opened.close)
        threads = ThreadPoolExecutor(CALLERS + 2)
        stack.push_async_callback(asyncio.to_thread, threads.shutdown)
        callers = Callers(opened, threads)
        await asyncio.to_thread(callers.ask, append("before"), LONG)
        begin, end = target.faults[fault]
        over = AsyncExitStack()
        over.push_async_callback(end)
        await begin()
        async with over:
            yield callers, over.aclose


@pytest.mark.parametrize(("engine", "fault"), FAULTS)
async def test_nobody_waits_for_those_who_may_wait_longer(
    engine: str, fault: str, tmp_path: Path
) -> None:
    async with outage(engine, fault, tmp_path) as (callers, end):
        patient = [
            callers.begin(callers.ask, op, LONG) for op in (append("patient"), fetch("patient"))
        ]
        await until(callers.somebody_leads)
        mixed = ((append, fetch, append), (fetch, append, fetch))
        rows = [callers.begin(callers.row, f"t-{n}", mixed[n % 2]) for n in range(CALLERS)]
        done, late = await asyncio.to_thread(wait, rows, sum(SHORT) + 2 * SLACK)
        assert not late, "they wait for somebody"
        assert max(row.result() for row in done) <= SLACK
        await end()
        stored, _ = [await asyncio.wrap_future(call) for call in patient]
        assert isinstance(stored, Applied), "whoever may wait for the end of it gets an answer"


@pytest.mark.parametrize(("engine", "fault"), FAULTS)
async def test_those_who_come_one_after_another_do_not_wait_one_after_another(
    engine: str, fault: str, tmp_path: Path
) -> None:
    """Without anybody who is patient: each of them leads in its turn, and connects."""
    async with outage(engine, fault, tmp_path) as (callers, _):
        reads = (fetch, fetch, fetch)
        writes = (append, append, append)
        rows = [
            callers.begin(callers.row, f"t-{n}", reads if n % 2 else writes) for n in range(CALLERS)
        ]
        done, late = await asyncio.to_thread(wait, rows, sum(SHORT) + 2 * SLACK)
        assert not late, "their waits add up"
        assert max(row.result() for row in done) <= SLACK
