"""Run-once tasks and workflow steps, against the writes that they cannot do without.

The floor of a task is two durable writes on the raw driver: claim it, record its result. The
floor of a finished one is a single read, of a step one write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import stateward
import stateward.sync
from bench.homes import EVERYSEC, start_server
from bench.rounds import Ratio
from bench.targets import BLOCKING, STATEWARD, Row
from bench.tasks_by_hand import (
    WHAT,
    ByHand,
    ByHandAwaited,
    PostgresTasks,
    PostgresTasksAsync,
    RedisTasks,
    RedisTasksAsync,
    SqliteTasks,
    timed,
    timed_awaited,
)

TITLES = {"task": "run-once task", "hit": "finished task", "step": "workflow step"}
# What the rows of an engine begin with.
BEFORE = {"sqlite": "", "redis": "Valkey: ", "postgres": "PostgreSQL: "}
MOST = 1.5
# What is measured is the time: a machine that is busy with other things ends no run.
PATIENT = stateward.Policy(read_timeout=60.0, write_timeout=60.0)

Seconds = dict[str, list[float]]  # what → medians of the rounds
NewPlace = Callable[[str], str]  # name → a place for one contestant alone


class Contestant(Protocol):
    """Whoever does each kind of call with these ids, and says what one took."""

    name: str

    def play(self, number: int, ids: list[str]) -> dict[str, float]: ...
    def close(self) -> None: ...


@dataclass
class Measured:
    """Each contestant's seconds, round by round."""

    engine: str
    pairs: list[tuple[str, str]]  # who, beside whom
    seconds: dict[str, Seconds]


class Ours:
    """Stateward in blocking code."""

    name = BLOCKING

    def __init__(self, url: str) -> None:
        self._store = stateward.sync.open(url, policy=PATIENT)

    def play(self, number: int, ids: list[str]) -> dict[str, float]:
        with self._store.workflow(f"w-{number}", kind="bench") as run:
            return timed(ids, _Calls(self._store, run))

    def close(self) -> None:
        self._store.close()


class OursAwaited:
    """Stateward on an event loop."""

    name = STATEWARD

    def __init__(self, url: str) -> None:
        self._loop = asyncio.Runner()
        self._store = stateward.open(url, policy=PATIENT)

    def play(self, number: int, ids: list[str]) -> dict[str, float]:
        return self._loop.run(self._play(number, ids))

    async def _play(self, number: int, ids: list[str]) -> dict[str, float]:
        async with self._store.workflow(f"w-{number}", kind="bench") as run:
            return await timed_awaited(ids, _Calls(self._store, run))

    def close(self) -> None:
        self._loop.run(self._store.close())
        self._loop.close()


class _Calls:
    """The calls of either colour."""

    def __init__(self, store: Any, run: Any) -> None:
        self._store, self._run = store, run

    def task(self, id: str) -> Any:
        return self._store.once(id, _one)

    hit = task

    def step(self, id: str) -> Any:
        return self._run.step(id, _one)


def _one() -> int:
    return 1


def measure(engine: str, folder: Path, *, rounds: int, calls: int) -> Measured:
    """Contestants take turns, round after round."""
    with ExitStack() as stack:
        contestants, pairs = _contestants(engine, stack.enter_context(_PLACES[engine](folder)))
        for each in contestants:
            stack.callback(each.close)
        seconds: dict[str, Seconds] = {
            each.name: {what: [] for what in WHAT} for each in contestants
        }
        for number in range(rounds):
            ids = [f"{number}-{n}" for n in range(calls)]
            for each in contestants:
                for what, took in each.play(number, ids).items():
                    seconds[each.name][what].append(took)
    return Measured(engine, pairs, seconds)


def _contestants(engine: str, place: NewPlace) -> tuple[list[Contestant], list[tuple[str, str]]]:
    """Who takes part, and who is compared with whom: with its own colour, where both are there."""
    floors: list[Contestant]
    if engine == "sqlite":
        floors = [ByHand(SqliteTasks(place("raw").removeprefix("sqlite:///")))]
    elif engine == "redis":
        floors = [ByHand(RedisTasks(place("raw"))), ByHandAwaited(RedisTasksAsync(place("pool")))]
    else:
        blocking, pool = PostgresTasks(place("raw")), PostgresTasksAsync(place("pool"))
        floors = [ByHand(blocking), ByHandAwaited(pool)]
    ours: list[Contestant] = [Ours(place("sync")), OursAwaited(place("async"))]
    names = [(BLOCKING, floors[0].name), (STATEWARD, floors[-1].name)]
    return [*floors, *ours], names


@contextlib.contextmanager
def _files(folder: Path) -> Iterator[NewPlace]:
    yield lambda name: f"sqlite:///{folder / f'coordination-{name}.db'}"


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[NewPlace]:
    with ExitStack() as running:

        def start(name: str) -> str:
            server = start_server(folder / f"coordination-{name}", *EVERYSEC)
            running.callback(server.stop)
            return server.url

        yield start


@contextlib.contextmanager
def _databases(_folder: Path) -> Iterator[NewPlace]:
    from bench.databases import PostgresServer

    server = PostgresServer().start()

    def create(name: str) -> str:
        server.run_sql(f"CREATE DATABASE coordination_{name}")
        return server.database(f"coordination_{name}")

    try:
        yield create
    finally:
        server.remove()


_PLACES = {"sqlite": _files, "redis": _servers, "postgres": _databases}


def rows_of_coordination(measured: Measured) -> Iterator[Row]:
    """A task has a target; a hit and a step are there to be read."""
    for what in WHAT:
        for name, floor in measured.pairs:
            ratio = Ratio.of(measured.seconds[name][what], measured.seconds[floor][what])
            limit = MOST if what == "task" else None
            who = f"{name} / {floor}, by hand"
            yield Row(f"{BEFORE[measured.engine]}{TITLES[what]}", who, ratio, at_most=limit)
