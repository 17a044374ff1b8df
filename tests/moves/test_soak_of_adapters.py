"""100,000 messages of LangGraph, ADK and Strands, killed twenty times on their way."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from backup.conftest import NewStore
from frameworks.adk_model import APP, GRILL, ask, waiter
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from servers.postgres import PostgresServer

import stateward
from moves import test_import_langgraph as langgraph
from moves import test_import_strands as strands
from moves.kills import import_killed
from stateward import sync
from stateward.integrations.google_adk import StatewardSessionService
from stateward.integrations.langgraph import StatewardSaver
from stateward.integrations.strands import StatewardSessionManager
from stateward.transfer.moves.mover import import_from

KILLS = 20
LANGGRAPH = dict.fromkeys(("checkpoints", "writes"), "thread_id")
POSTGRES = {
    "checkpoints": "thread_id",
    "checkpoint_blobs": "thread_id",
    "checkpoint_writes": "thread_id",
}
ADK = {"sessions": "id", "events": "session_id"}


def clones(table: str, columns: list[str], key: str) -> str:
    """A statement that gives the rows of one conversation to another."""
    others = ", ".join(column for column in columns if column != key)
    taken = f"SELECT {{}}, {others} FROM {table} WHERE {key} = {{}}"
    return f"INSERT INTO {table} ({key}, {others}) {taken}"


def clone_file(path: Path, tables: dict[str, str], id: str, count: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, key in tables.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            insert = clones(table, columns, key).format("?", "?")
            connection.executemany(insert, [(f"{id}-{n}", id) for n in range(count)])


def clone_database(server: PostgresServer, id: str, count: int) -> None:
    with server.connect() as connection:
        for table, key in POSTGRES.items():
            found = connection.execute(f"SELECT * FROM {table} LIMIT 0").description or ()
            columns = [column.name for column in found]
            insert = clones(table, columns, key).format("%s", "%s")
            with connection.cursor() as cursor:
                cursor.executemany(insert, [(f"{id}-{n}", id) for n in range(count)])


def talker(saver: Any) -> Any:
    """Answers with nine messages."""

    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])}: word {n}") for n in range(9)]}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


def live_langgraph(saver: Any) -> None:
    """One thread of 1,000 messages, one of 100 to be copied."""
    for thread, turns in (("long", 100), ("short", 10)):
        for turn in range(turns):
            asked = langgraph.asks(f"question {turn}")
            talker(saver).invoke(asked, langgraph.config(thread))


async def make(kind: str, folder: Path, request: pytest.FixtureRequest) -> tuple[str, int, int]:
    """The source, how many conversations it has, and how many messages."""
    if kind == "langgraph-sqlite":
        with langgraph.sqlite_source(folder) as (saver, source):
            live_langgraph(saver)
        clone_file(folder / "old.db", LANGGRAPH, "short", 989)
        return source, 991, 100_000
    if kind == "langgraph-postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with langgraph.postgres_source(server) as (saver, source):
            live_langgraph(saver)
        clone_database(server, "short", 989)
        return source, 991, 100_000
    if kind == "adk":
        service = SqliteSessionService(str(folder / "old.db"))
        await service.create_session(app_name=APP, user_id="u-7", session_id="short")
        for _ in range(10):
            await ask(waiter(service, GRILL, "Enjoy!"), "A steak, please", "short", "u-7")
        clone_file(folder / "old.db", ADK, "short", 2499)
        return f"adk:sqlite:///{folder / 'old.db'}", 2500 + 2, 100_000
    source = strands.live(folder / "sessions", 1, 20)
    for number in range(1, 2500):
        copy = folder / "sessions" / f"session_s-{number}"
        shutil.copytree(folder / "sessions" / "session_s-0", copy)
        session = json.loads((copy / "session.json").read_text("utf-8"))
        text = json.dumps({**session, "session_id": f"s-{number}"})
        (copy / "session.json").write_text(text, "utf-8")
    return source, 2500, 100_000


async def go_on(kind: str, url: str) -> None:
    """The agent's next turn has all that it said before."""
    if kind.startswith("langgraph"):
        with StatewardSaver.from_url(url) as saver:
            for thread, messages in (("long", 1010), ("short-77", 110)):
                state = talker(saver).invoke(langgraph.asks("more"), langgraph.config(thread))
                assert len(state["messages"]) == messages
    elif kind == "adk":
        async with stateward.open(url) as store:
            service = StatewardSessionService(store)
            assert await ask(waiter(service, "Bye!"), "Bye", "short-77", "u-7") == "Bye!"
            session = await service.get_session(app_name=APP, user_id="u-7", session_id="short-77")
            assert session is not None
            assert len(session.events) == 42
    else:
        with sync.open(url) as store:
            manager = StatewardSessionManager(store, "s-77")
            assert len(strands.ask(manager, "waiter", "one more", "yes")) == 41


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["strands", "adk", "langgraph-sqlite", "langgraph-postgres"])
async def test_a_hundred_thousand_messages_survive_twenty_kills(
    kind: str, tmp_path: Path, new_store: NewStore, request: pytest.FixtureRequest
) -> None:
    source, threads, messages = await make(kind, tmp_path, request)
    url, chance = new_store("sqlite"), random.Random(7)
    words = threads if kind.startswith("langgraph") else 3 * threads  # until the end, about
    for kill in range(1, KILLS + 1):
        said = import_killed(source, url, chance.randrange(5, 5 + words * kill // (3 * KILLS)))
        assert said.isdigit()
    began = time.monotonic()
    report = await asyncio.to_thread(import_from, source, url)
    took = time.monotonic() - began
    print(f"\n{kind}: {report.there:,} of {threads:,} were there after {KILLS} kills; {took:.0f} s")
    assert 0 < report.there < threads
    assert (report.moved + report.there, report.refused) == (threads, 0)
    assert report.digest == report.read
    again = await asyncio.to_thread(import_from, source, url)
    assert (again.added, again.there) == (0, threads)
    fresh = new_store("sqlite")
    began = time.monotonic()
    whole = await asyncio.to_thread(import_from, source, fresh)
    took = time.monotonic() - began
    print(f"{kind}: {messages:,} messages in one go: {took:.0f} s, {messages / took:,.0f}/s")
    assert whole.digest == whole.read == report.digest
    await go_on(kind, url)
