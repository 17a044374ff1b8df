"""LangGraph's checkpoints: a graph that adds one message of 1 KB a step, at 10 and 1,000 messages.

The graph is real, and waits for each checkpoint before its next step. What is timed is `aput`
alone: LangGraph's own work grows with the conversation, and is the same with every saver. So it is
with the bytes that have a target; those of `aput_writes`, with which LangGraph stores each message
once more before the step that adds it is complete, are shown beside it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import apsw

from bench.homes import EVERYSEC, TESTS, start_server
from bench.rounds import Ratio
from bench.storage import memory
from bench.targets import Row

SHORT, LONG = 10, 1_000  # messages: growth is from the one to the other
TURNS, STEPS = 4, 5  # a round: the conversations take turns, some steps each
MESSAGE = "x" * 1_000
TITLES = {"sqlite": "SQLite", "redis": "Valkey", "postgres": "PostgreSQL"}

Step = Callable[[str, int], Awaitable[list[float]]]  # thread, messages → seconds of each put

available = find_spec("langgraph") is not None


@dataclass
class Measured:
    """Of one engine: seconds of a put, round by round, and bytes that each message added."""

    engine: str
    short: list[float] = field(default_factory=list)
    long: list[float] = field(default_factory=list)
    by_puts: float = 0.0  # bytes
    by_all: float = 0.0


def measure(engine: str, folder: Path, *, rounds: int) -> Measured:
    """One conversation grows to 1,000 messages; then it and short ones take turns."""
    with HOMES[engine](folder) as (url, size):
        return asyncio.run(_measure(Measured(engine), url, size, rounds))


async def _measure(measured: Measured, url: str, size: Callable[[], int], rounds: int) -> Measured:
    async with _graph(url, writes=False) as step:
        measured.by_puts = await _added("puts", step, size)
    async with _graph(url) as step:
        measured.by_all = await _added("long", step, size)
        for number in range(rounds):
            await step(f"short {number}", SHORT)
            short, long = list[float](), list[float]()
            for _ in range(TURNS):
                short += await step(f"short {number}", STEPS)
                long += await step("long", STEPS)
            measured.short.append(median(short))
            measured.long.append(median(long))
    return measured


async def _added(thread: str, step: Step, size: Callable[[], int]) -> float:
    """Bytes that each message added to the store while the thread grew."""
    await step(thread, SHORT)
    before = size()
    await step(thread, LONG - SHORT)
    return (size() - before) / (LONG - SHORT)


@asynccontextmanager
async def _graph(url: str, *, writes: bool = True) -> AsyncIterator[Step]:
    """Gives what adds messages to a thread, one a step, and says how long each put took."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    from stateward.integrations.langgraph import StatewardSaver

    took: list[float] = []

    class Timed(StatewardSaver):
        async def aput(self, *arguments: Any) -> Any:
            begun = perf_counter()
            config = await super().aput(*arguments)
            took.append(perf_counter() - begun)
            return config

        async def aput_writes(self, *arguments: Any) -> None:
            if writes:
                await super().aput_writes(*arguments)

    class State(MessagesState):
        left: int

    def add(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(MESSAGE)], "left": state["left"] - 1}

    graph = StateGraph(State)
    graph.add_node("add", add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: "add" if state["left"] else END)
    async with Timed.from_url(url) as saver:
        compiled = graph.compile(checkpointer=saver)

        async def step(thread: str, count: int) -> list[float]:
            took.clear()
            config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": count + 1}
            await compiled.ainvoke({"left": count}, config, durability="sync")
            return took[1:]  # the first is that of the input, which adds no message

        yield step


@contextmanager
def _file(folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    path = folder / "langgraph.db"

    def size() -> int:
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        return os.path.getsize(path)

    yield f"sqlite:///{path}", size


@contextmanager
def _valkey(folder: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    server = start_server(folder / "redis-langgraph", *EVERYSEC)
    try:
        yield server.url, lambda: memory(server)
    finally:
        server.stop()


@contextmanager
def _postgres(_: Path) -> Iterator[tuple[str, Callable[[], int]]]:
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from servers.postgres import PostgresServer

    server = PostgresServer(shared_buffers="256MB").start()
    try:
        size = "SELECT pg_database_size(current_database())"
        yield server.url, lambda: int(server.run_sql(size)[0][0])
    finally:
        server.remove()


HOMES = {"sqlite": _file, "redis": _valkey, "postgres": _postgres}


def rows_of_graphs(measured: Measured) -> Iterator[Row]:
    title = f"LangGraph on {TITLES[measured.engine]}"
    growth = Ratio.of(measured.long, measured.short)
    yield Row(f"{title}: put, {SHORT} → {LONG:,} messages", "StatewardSaver", growth, at_most=1.5)
    for bytes_, by, limit in (
        (measured.by_puts, "put", 2.0),
        (measured.by_all, "put and put_writes", None),
    ):
        kept = Ratio.of([bytes_], [len(MESSAGE)])
        yield Row(f"{title}: stored per KB by {by}", "StatewardSaver", kept, "KB", at_most=limit)
