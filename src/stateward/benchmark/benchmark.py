"""One benchmark, from its first look at the store until everything is cleared away."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from msgspec import Struct

import stateward
from stateward.audit.safety import headroom, isolation
from stateward.benchmark.calls import KEPT, BenchCalls, Call, threads_of
from stateward.benchmark.figures import (
    BY_HISTORY,
    FORMAT,
    OPERATIONS,
    BenchResult,
    FigureCell,
    Figures,
    Slot,
    figures,
)
from stateward.engine import Description
from stateward.engines.registry import parse
from stateward.errors import StatewardError, StoreUnavailable

BASE = 100  # messages: the history that many conversations are measured on, if it was asked for
FILLING = 20  # conversations that are written at the same time
AFTER_AN_ERROR = 0.05  # seconds: a store that fails fast is not called a thousand times a second
PATIENCE = stateward.Policy(threads="raise", read_timeout=10.0, write_timeout=10.0)

Show = Callable[[str, int, int], None]  # current work, amount done, total amount


class BenchPlan(Struct, frozen=True):
    """Options that the user gave."""

    url: str | None = None  # None: an embedded store in a temporary folder
    conversations: tuple[int, ...] = (1, 10, 100)
    history: tuple[int, ...] = (10, 100, 1_000, 10_000)
    operations: tuple[str, ...] = tuple(OPERATIONS)
    seconds: float = 1.0  # for each cell, all rounds together
    rounds: int = 3
    namespace: str | None = None
    command: str = "stateward bench"

    @property
    def base(self) -> int:
        return BASE if BASE in self.history else self.history[0]

    def cells(self) -> list[FigureCell]:
        """Return the cells, reads first, because appends make histories longer."""
        names = self.operations
        cells = [FigureCell(name, many, self.base) for name in names for many in self.conversations]
        cells += [
            FigureCell(name, 1, length)
            for name in names
            if name in BY_HISTORY
            for length in self.history
        ]
        return sorted(dict.fromkeys(cells), key=lambda cell: cell.operation == "append")

    def lengths(self) -> dict[int, int]:
        """Return the number of conversations of each length that are needed."""
        callers: dict[int, int] = {}
        for cell in self.cells():
            callers[cell.history] = max(callers.get(cell.history, 1), cell.conversations)
        return {length: threads_of(length, many) for length, many in callers.items()}


class Benchmark:
    """Works in its own part. What it wrote is removed, whatever happens."""

    def __init__(self, plan: BenchPlan, show: Show) -> None:
        self.plan = plan
        self._show = show
        self._folder = None if plan.url else tempfile.mkdtemp(prefix="stateward-bench-")
        url = plan.url or f"sqlite:///{self._folder}/bench.db"
        self._namespace = plan.namespace or f"{isolation.PREFIX}bench-{uuid4().hex[:12]}"
        own = plan.namespace is None
        self._url = isolation.apart(url, self._namespace, own=own, observing=False)
        self._presence = isolation.Presence(self._url, self._namespace)
        self._slots: dict[FigureCell, list[Slot]] = {cell: [] for cell in plan.cells()}
        self._done = 0
        self._begun = False
        self._said = Description("", "", 0, "")

    async def run(self) -> BenchResult:
        """Run all measurements; if cancelled, clear away and return those made so far."""
        began, started = time.monotonic(), datetime.now(UTC)
        interrupted = False
        try:
            try:
                await self._all()
            except asyncio.CancelledError:
                interrupted = True
            finally:
                namespace = await self._clear()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder)
        measured = [figures(cell, slots) for cell, slots in self._slots.items() if slots]
        return BenchResult(
            FORMAT,
            parse(self.plan.url).safe if self.plan.url else "sqlite (embedded)",
            self._said.engine,
            self._said.version,
            self._said.durability,
            started.isoformat(timespec="seconds"),
            round(time.monotonic() - began, 1),
            interrupted,
            namespace,
            self.plan.command,
            self._environment(),
            tuple(sorted(measured, key=_as_listed)),
        )

    async def _all(self) -> None:
        await isolation.begin(self._url, self._namespace)
        self._begun = True
        await self._presence.begin()
        async with stateward.open(
            self._url,
            namespace=self._namespace,
            retain=KEPT,
            policy=PATIENCE,
            spill=False,
            heartbeat=None,
        ) as store:
            self._said = await store.describe()
            headroom.refuse_full({"settings": dict(self._said.settings)})
            calls = BenchCalls(store, self.plan.lengths())
            await self._fill(calls)
            await self._measure(calls)

    # --- what is written before ---------------------------------------------------------

    async def _fill(self, calls: BenchCalls) -> None:
        pairs = [(length, n) for length, many in self.plan.lengths().items() for n in range(many)]
        users = max(self.plan.lengths().values())
        left, done = iter(pairs), 0

        async def writer() -> None:
            nonlocal done
            for length, number in left:
                await calls.fill(length, number)
                done += 1
                self._show("writing histories", done, len(pairs))

        await asyncio.gather(*(writer() for _ in range(FILLING)))
        people = iter(range(users))

        async def greeter() -> None:
            for number in people:
                await calls.greet(number)

        await asyncio.gather(*(greeter() for _ in range(FILLING)))

    # --- measuring ----------------------------------------------------------------------

    async def _measure(self, calls: BenchCalls) -> None:
        """Measure in turns, so that a slow moment of the machine does not hit one cell alone."""
        rounds, seconds = self.plan.rounds, self.plan.seconds / self.plan.rounds
        total = rounds * len(self._slots)
        for cell in self._slots:  # connections, statements and caches are there afterwards
            await calls.of(cell)(0)
        for _ in range(rounds):
            for cell, slots in self._slots.items():
                self._show(str(cell), self._done, total)
                most = calls.most(cell)
                share = None if most is None else max(1, most // rounds)
                slots.append(await _slot(calls.of(cell), cell.conversations, seconds, share))
                self._done += 1

    # --- the end ------------------------------------------------------------------------

    async def _clear(self) -> str:
        """Remove all data; return the namespace if the store has gone, or "" if it is emptied."""
        self._show("removing what was written", self._done, self._done or 1)
        await self._presence.end()
        if self._begun:
            try:
                await isolation.end(self._url, self._namespace)
            except StoreUnavailable:
                return self._namespace  # the measurements are shown all the same
        return ""

    def _environment(self) -> dict[str, Any]:
        return {
            "stateward": stateward.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "processors": os.cpu_count(),
            "seconds": self.plan.seconds,
            "rounds": self.plan.rounds,
        }


async def _slot(call: Call, callers: int, seconds: float, most: int | None) -> Slot:
    """Let each caller repeat its call as soon as it has its answer, until the time is over."""
    slot = Slot()
    left = None if most is None else iter(range(most))
    begun, cpu = time.perf_counter(), time.process_time()
    end = begun + seconds

    async def caller(number: int) -> None:
        while left is None or next(left, None) is not None:
            start = time.perf_counter()
            try:
                await call(number)
            except StatewardError as error:
                name = type(error).__name__
                slot.errors[name] = slot.errors.get(name, 0) + 1
                await asyncio.sleep(AFTER_AN_ERROR)
            else:
                slot.took.append(time.perf_counter() - start)
            if time.perf_counter() >= end:
                return
            if callers > 1:
                await asyncio.sleep(0)  # a store that answers without waiting would serve one alone

    await asyncio.gather(*(caller(number) for number in range(callers)))
    slot.elapsed = time.perf_counter() - begun
    slot.cpu = time.process_time() - cpu
    return slot


def _as_listed(each: Figures) -> tuple[int, int, int]:
    return list(OPERATIONS).index(each.operation), each.history, each.conversations
