"""LangGraph's checkpoints: what a `put` costs at 10 and at 1,000 messages, and what a turn stores.

The graphs are real. For the growth, one adds a message of 1 KB a step and waits for each checkpoint
before its next step; what is counted is the processor time of this process during `aput` alone:
LangGraph's own work grows with the conversation, and is the same with every saver. For the bytes,
one answers a question of 500 bytes with an answer of 500, from 10 messages to 1,000; all that is
stored counts, and `bench.graph_turns` shows it part by part.
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
from time import process_time
from typing import Any

import apsw

from bench.homes import EVERYSEC, TESTS, start_server
from bench.rounds import Ratio
from bench.storage import memory
from bench.targets import Row

SHORT, LONG = 10, 1_000  # messages: growth is from the one to the other
QUICK = 100  # instead of LONG
TURNS, STEPS = 4, 5  # a round: the conversations take turns, some steps each
MESSAGE = "x" * 1_000
LIMITS = {"sqlite": 2.0, "redis": 2.0, "postgres": 2.5}  # KB for each of a turn
TITLES = {"sqlite": "SQLite", "redis": "Valkey", "postgres": "PostgreSQL"}

Step = Callable[[str, int], Awaitable[list[float]]]  # thread, messages → seconds of each put

available = find_spec("langgraph") is not None


@dataclass
class Measured:
    """Of one engine: seconds of a put, round by round, and bytes that each turn of 1 KB added."""

    engine: str
    messages: int  # of the long conversation
    short: list[float] = field(default_factory=list)
    long: list[float] = field(default_factory=list)
    by_turn: float = 0.0  # bytes


def measure(engine: str, folder: Path, *, rounds: int, messages: int = LONG) -> Measured:
    """One conversation grows to so many messages; then it and short ones take turns."""
    with HOMES[engine](folder) as (url, size):
        return asyncio.run(_measure(Measured(engine, messages), url, size, rounds))


async def _measure(measured: Measured, url: str, size: Callable[[], int], rounds: int) -> Measured:
    measured.by_turn = await _added(url, size, measured.messages)
    async with _graph(url) as step:
        await step("long", measured.messages)
        for number in range(rounds):
            await step(f"short {number}", SHORT)
            short, long = list[float](), list[float]()
            for _ in range(TURNS):
                short += await step(f"short {number}", STEPS)
                long += await step("long", STEPS)
            measured.short.append(median(short))
            measured.long.append(median(long))
    return measured


async def _added(url: str, size: Callable[[], int], messages: int) -> float:
    """Bytes that each turn added to the store while a thread grew."""
    from stateward.integrations.langgraph import StatewardSaver

    async with StatewardSaver.from_url(url) as saver:
        await converse(saver, "turns", SHORT // 2)
        before, turns = size(), (messages - SHORT) // 2
        await converse(saver, "turns", turns)
        return (size() - before) / turns


async def converse(saver: Any, thread: str, turns: int) -> None:
    """Questions and answers, of half a message each."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    half = MESSAGE[: len(MESSAGE) // 2]
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(half)]})
    builder.add_edge(START, "answer")
    graph: Any = builder.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": thread, "user_id": "u-1"}}
    for _ in range(turns):
        await graph.ainvoke({"messages": [HumanMessage(half)]}, config)


@asynccontextmanager
async def _graph(url: str) -> AsyncIterator[Step]:
    """Gives what adds messages to a thread, one a step, and says what each put took."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    from stateward.integrations.langgraph import StatewardSaver

    took: list[float] = []

    class Timed(StatewardSaver):
        async def aput(self, *arguments: Any) -> Any:
            begun = process_time()
            config = await super().aput(*arguments)
            took.append(process_time() - begun)
            return config

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
    growth, long = Ratio.of(measured.long, measured.short), measured.messages
    yield Row(f"{title}: put, {SHORT} → {long:,} messages", "StatewardSaver", growth, at_most=1.3)
    kept = Ratio.of([measured.by_turn], [len(MESSAGE)])
    limit = LIMITS[measured.engine]
    yield Row(f"{title}: stored per KB of a turn", "StatewardSaver", kept, "KB", at_most=limit)
