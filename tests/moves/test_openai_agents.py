"""Sessions that the OpenAI Agents SDK has made itself, and the same agent in the new store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from agents import Agent, Runner, SQLiteSession, set_tracing_disabled
from agents.extensions.memory import (
    AdvancedSQLiteSession,
    AsyncSQLiteSession,
    RedisSession,
    SQLAlchemySession,
)
from agents.testing import ScriptedModel, assistant_message
from backup.conftest import NewStore
from servers.postgres import PostgresServer
from servers.redis import RedisServer
from sqlalchemy.ext.asyncio import create_async_engine

import stateward
from moves.kills import import_killed
from stateward.integrations.openai_agents import StatewardSession
from stateward.transfer.moves.mover import import_from

Item = dict[str, Any]
Sessions = Callable[[str], Any]
KINDS = ("sqlite", "async", "advanced", "sqlalchemy", "postgres", "redis")


@pytest.fixture(autouse=True)
def _offline() -> None:
    set_tracing_disabled(True)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


class Origin:
    """Where the SDK keeps its sessions, and the URL to import them from."""

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self.path = folder / "conversations.db"
        self.url = f"openai-agents:sqlite:///{self.path}"
        if kind == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            plain = server.url_of("origin").partition("?")[0]
            with psycopg.connect(plain) as connection:
                connection.execute("DROP TABLE IF EXISTS agent_messages, agent_sessions")
            self.url = f"openai-agents:{plain.replace('://', '+asyncpg://')}"
        elif kind == "redis":
            redis: RedisServer = request.getfixturevalue("redis_server")
            assert redis.ask("FLUSHALL") == b"+OK\r\n"
            self.url = f"openai-agents:{redis.url}"

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[Sessions]:
        """What makes a session of an id."""
        made: list[Any] = []
        engine = None
        if self.kind in ("sqlalchemy", "postgres"):
            text = self.url.removeprefix("openai-agents:")
            engine = create_async_engine(text.replace("sqlite://", "sqlite+aiosqlite://"))

        def session(id: str) -> Any:
            if engine is not None:
                return SQLAlchemySession(id, engine=engine, create_tables=True)
            if self.kind == "redis":
                made.append(RedisSession.from_url(id, url=self.url.removeprefix("openai-agents:")))
            elif self.kind == "advanced":
                made.append(
                    AdvancedSQLiteSession(session_id=id, db_path=self.path, create_tables=True)
                )
            else:
                kind = AsyncSQLiteSession if self.kind == "async" else SQLiteSession
                made.append(kind(id, self.path))
            return made[-1]

        try:
            yield session
        finally:
            for one in made:
                closed = one.close()
                if closed is not None:
                    await closed
            if engine is not None:
                await engine.dispose()


@pytest.fixture(params=KINDS)
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Origin:
    return Origin(request.param, tmp_path, request)


def items(number: int) -> list[Item]:
    """A question, a tool call with its result, a thought, and the answer."""
    id = f"call-{number}"
    return [
        {"role": "user", "content": f'question {number}: 🥩 " \\ \u2028 grüße'},
        {"type": "function_call", "call_id": id, "name": "look", "arguments": '{"a": 1.50}'},
        {"type": "function_call_output", "call_id": id, "output": "x" * (number * 7 % 300)},
        {"type": "reasoning", "id": f"r{number}", "summary": [], "z": 1, "a": {"b": [1.5, None]}},
        {"role": "assistant", "content": f"answer {number}", "type": "message"},
    ]


def says(text: str) -> Agent[Any]:
    return Agent(name="echo", model=ScriptedModel([[assistant_message(text)]]))


async def test_the_same_agent_goes_on_where_it_was(origin: Origin, new_store: NewStore) -> None:
    url = new_store("sqlite")
    kept: dict[str, list[Item]] = {}
    async with origin.sessions() as session:
        for number, id in enumerate(("u-1:first", "u-2:second:messages", "ü %_'\"")):
            one = session(id)
            for turn in range(30 + number * 10):
                await one.add_items(items(turn))
            await Runner.run(says("In the old store."), "Where am I?", session=one)
            kept[id] = await one.get_items()
        report = import_from(origin.url, url, user_pattern="^(u-[0-9]+):", user="u-3")
        assert (report.moved, report.refused) == (3, 0)
        assert report.added == sum(map(len, kept.values())) == 606
        assert report.digest == report.read != ""
        async with stateward.open(url) as store:
            for number, (id, before) in enumerate(kept.items(), 1):
                mine = StatewardSession(store, id, user=f"u-{number}")
                assert json.dumps(await mine.get_items()) == json.dumps(before)
                agent = says("In the new store.")
                await Runner.run(agent, "And now?", session=mine)
                assert isinstance(agent.model, ScriptedModel)
                assert agent.model.calls[-1].input[:-1] == before
                assert len(await mine.get_items()) == len(before) + 2
            infos = [info async for info in store.threads()]
            assert all(info.created_at.timestamp() > 1.7e9 for info in infos)
        # Both have gone on in the new store: what the old one gets now is refused.
        await session("u-1:first").add_items(items(99))
        await session("new").add_items(items(1))
        report = import_from(origin.url, url, user="u-3")
        assert (report.moved, report.added, report.there) == (1, 5, 2)
        assert [refused.id for refused in report.refusals] == ["u-1:first"]


@pytest.mark.parametrize("origin", ["sqlite", "sqlalchemy", "postgres", "redis"], indirect=True)
async def test_killed_and_run_again_everything_is_there_once(
    origin: Origin, new_store: NewStore
) -> None:
    url = new_store("sqlite")
    async with origin.sessions() as session:
        for number in range(3):
            await session(f"s-{number}").add_items(
                [item for turn in range(60) for item in items(turn)]
            )
        for words in (3, 20, 35):
            assert import_killed(origin.url, url, words).isdigit()
        report = import_from(origin.url, url)
        assert (report.moved + report.there, report.refused) == (3, 0)
        assert report.is_equal
        assert import_from(origin.url, url).added == 0
        async with stateward.open(url) as store:
            for number in range(3):
                before = await session(f"s-{number}").get_items()
                assert await StatewardSession(store, f"s-{number}").get_items() == before


async def test_what_the_sdk_leaves_out_is_left_out_and_named(
    tmp_path: Path, new_store: NewStore
) -> None:
    path = tmp_path / "conversations.db"
    session = SQLiteSession("s-1", path, sessions_table="mine", messages_table="said")
    await session.add_items(items(1))
    session.close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO said (session_id, message_data) VALUES ('s-1', '{')")
        connection.execute("INSERT INTO mine (session_id) VALUES ('s-2')")
        nan = '{"role": "user", "content": NaN}'
        connection.execute("INSERT INTO said (session_id, message_data) VALUES ('s-2', ?)", (nan,))
    connection.close()
    source = f"openai-agents:sqlite:///{path}?sessions_table=mine&messages_table=said"
    report = import_from(source, new_store("sqlite"))
    assert report.added == 5
    assert report.lost == (
        "item 6 of the session 's-1', which is not JSON: the SDK leaves it out, too",
    )
    assert [(one.id, one.why[:25]) for one in report.refusals] == [
        ("s-2", "item 7 of the session 's-2"[:25])
    ]


async def test_branches_other_than_main_are_named(tmp_path: Path, new_store: NewStore) -> None:
    origin = tmp_path / "conversations.db"
    session = AdvancedSQLiteSession(session_id="s-1", db_path=origin, create_tables=True)
    for turn in range(3):
        await session.add_items([{"role": "user", "content": f"{turn}"}])
    await session.create_branch_from_turn(2)
    await session.add_items([{"role": "user", "content": "elsewhere"}])
    session.close()
    report = import_from(f"openai-agents:sqlite:///{origin}", new_store("sqlite"))
    assert (report.added, report.refused) == (3, 0)
    assert report.lost == ("branches of the session 's-1' other than main",)


def test_a_source_that_cannot_be_read_is_an_error_in_words(
    tmp_path: Path, new_store: NewStore
) -> None:
    url, empty = new_store("sqlite"), tmp_path / "empty.db"
    sqlite3.connect(empty).close()
    for source, words in {
        f"openai-agents:sqlite:///{tmp_path}/none.db": "no file",
        f"openai-agents:sqlite:///{empty}": "no table 'agent_sessions'",
        f"openai-agents:sqlite:///{empty}?messages_table=a;b": "not the name of a table",
        "openai-agents:mysql://127.0.0.1/x": "'mysql'",
        "openai-agents:": "nothing to import",
    }.items():
        with pytest.raises(stateward.InvalidInput, match=words):
            import_from(source, url)
    for source in (
        "openai-agents:postgresql://ann:secret@127.0.0.1:1/x",
        "openai-agents:redis://ann:secret@127.0.0.1:1",
    ):
        with pytest.raises(stateward.StoreUnavailable, match="cannot be read") as caught:
            import_from(source, url)
        assert "secret" not in str(caught.value)
