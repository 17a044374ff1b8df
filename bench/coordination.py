"""Run-once tasks and workflow steps, against the statements they cannot do without.

The floor of a task is two durable transactions on the raw driver: claim it, record its result. The
floor of a finished one is a single read, of a step one durable insert.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import apsw

import stateward
import stateward.sync
from bench.rounds import Ratio
from bench.targets import BLOCKING, STATEWARD, Row

FLOOR = "apsw"
WHAT = ("task", "hit", "step")
TITLES = {"task": "run-once task", "hit": "finished task", "step": "workflow step"}

Seconds = dict[str, list[float]]  # what → medians of the rounds


class Raw:
    """What a competent engineer would write by hand, without leases, retries or fences."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.execute(
            """PRAGMA synchronous = FULL;
            CREATE TABLE task (id TEXT PRIMARY KEY, status TEXT, result TEXT) WITHOUT ROWID;
            CREATE TABLE step (workflow TEXT, name TEXT, value TEXT)"""
        ).fetchall()

    def task(self, id: str) -> None:
        self._write("INSERT INTO task VALUES (?, 'running', NULL)", (id,))
        self._write("UPDATE task SET status = 'done', result = '1' WHERE id = ?", (id,))

    def hit(self, id: str) -> None:
        self._connection.execute("SELECT status, result FROM task WHERE id = ?", (id,)).fetchall()

    def step(self, id: str) -> None:
        self._write("INSERT INTO step VALUES ('w', ?, '1')", (id,))

    def close(self) -> None:
        self._connection.close()

    def _write(self, query: str, values: tuple[Any, ...]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(query, values)
        self._connection.execute("COMMIT")


@dataclass
class Measured:
    """Each contestant's seconds, round by round."""

    seconds: dict[str, Seconds]


def measure(folder: Path, *, rounds: int, calls: int) -> Measured:
    """Contestants take turns, round after round."""
    seconds: dict[str, Seconds] = {n: {w: [] for w in WHAT} for n in (FLOOR, BLOCKING, STATEWARD)}
    raw = Raw(folder / "coordination-raw.db")
    loop = asyncio.Runner()
    store = stateward.open(f"sqlite:///{folder / 'coordination-async.db'}")
    with stateward.sync.open(f"sqlite:///{folder / 'coordination-sync.db'}") as blocking:
        for number in range(rounds):
            ids = [f"{number}-{n}" for n in range(calls)]
            _round(seconds[FLOOR], ids, raw.task, raw.hit, raw.step)
            with blocking.workflow(f"w-{number}", kind="bench") as run:
                once = lambda id: blocking.once(id, _one)  # noqa: E731
                _round(seconds[BLOCKING], ids, once, once, lambda id: run.step(id, _one))
            loop.run(_awaited(store, seconds[STATEWARD], number, ids))
    loop.run(store.close())
    loop.close()
    raw.close()
    return Measured(seconds)


def _round(seconds: Seconds, ids: list[str], *calls: Callable[[str], Any]) -> None:
    for what, call in zip(WHAT, calls, strict=True):
        took = []
        for id_ in ids:
            start = perf_counter()
            call(id_)
            took.append(perf_counter() - start)
        seconds[what].append(median(took))


async def _awaited(store: stateward.Store, seconds: Seconds, number: int, ids: list[str]) -> None:
    async with store.workflow(f"w-{number}", kind="bench") as run:
        for what in WHAT:
            took = []
            for id_ in ids:
                start = perf_counter()
                await (run.step(id_, _one) if what == "step" else store.once(id_, _one))
                took.append(perf_counter() - start)
            seconds[what].append(median(took))


def _one() -> int:
    return 1


def rows_of_coordination(measured: Measured) -> Iterator[Row]:
    """A task has a target; a hit and a step are there to be read."""
    floor = measured.seconds[FLOOR]
    for what in WHAT:
        for name in (BLOCKING, STATEWARD):
            ratio = Ratio.of(measured.seconds[name][what], floor[what])
            limit = 1.5 if what == "task" else None
            yield Row(TITLES[what], f"{name} / {FLOOR}, by hand", ratio, at_most=limit)
