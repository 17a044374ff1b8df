"""Real processes and a store that goes away."""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from graphs import at, checkpoint, echo, said, support_agent, tool_call
from langchain_core.messages import AIMessage, HumanMessage
from servers.redis import RedisServer, running

import stateward
from stateward.integrations.langgraph import StatewardSaver

ROLES = Path(__file__).parent / "roles"


def finished(url: str, names: Sequence[str], count: int, role: str = "chatter.py") -> list[str]:
    """Run a process for each name at once, and return the lines that they have printed."""
    command = [sys.executable, "-W", "error", str(ROLES / role), url, str(count), *names]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout.splitlines()


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_conversation_goes_on_in_a_new_process(url: str) -> None:
    for name in ("first", "second"):
        assert finished(url, [name], 1) == [f"kept {name}-0-0"]
    with StatewardSaver.from_url(url) as saver:
        state = echo(saver).get_state(at("t")).values
    assert said(state) == ["first-0-0", "you said: first-0-0", "second-0-0", "you said: second-0-0"]


def test_eight_processes_on_one_conversation_lose_or_split_no_turn_without_raising(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    lines = finished(url, [f"p{number}" for number in range(8)], 3)
    kept = [line.removeprefix("kept ") for line in lines if line.startswith("kept ")]
    assert len(kept) == 24
    with StatewardSaver.from_url(url) as saver:
        state = said(echo(saver).get_state(at("t")).values)
    for text in kept:
        assert state.count(text) == 1
        assert state[state.index(text) + 1] == f"you said: {text}"
    refused = {line.removeprefix("refused ") for line in lines if line.startswith("refused ")}
    assert {text for text in state if text.startswith("p")} <= {*kept, *refused}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_three_processes_on_one_thread_double_no_question(url: str) -> None:
    three_processes(url, 4)


@pytest.mark.soak
def test_three_processes_on_one_thread_double_no_question_for_long(url: str) -> None:
    three_processes(url, 30)


def three_processes(url: str, count: int) -> None:
    finished(url, [f"p{number}" for number in range(3)], count, "plain.py")
    with StatewardSaver.from_url(url) as saver:
        state = said(echo(saver).get_state(at("t")).values)
    assert [f"you said: {question}" for question in state[::2]] == state[1::2]
    assert sorted(state[::2]) == sorted(f"p{n}-{run}" for n in range(3) for run in range(count))


async def test_a_store_that_is_gone_raises_and_nothing_is_kept_locally(tmp_path: Path) -> None:
    with running(tmp_path / "server") as server:
        policy = stateward.Policy(read_timeout=1.0, write_timeout=1.0, breaker_failures=1000)
        async with StatewardSaver.from_url(server.url, policy=policy) as saver:
            await echo(saver).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
            await meet_an_outage(saver, server)
            server.start()
            state = await echo(saver).ainvoke({"messages": [HumanMessage("two")]}, at("t"))
            assert said(state)[-1] == "you said: two"
            assert "lost" not in said(state)


async def meet_an_outage(saver: StatewardSaver, server: RedisServer) -> None:
    found = await saver.aget_tuple(at("t"))
    assert found is not None
    server.kill()
    with pytest.raises(stateward.StoreUnavailable):
        await echo(saver).ainvoke({"messages": [HumanMessage("lost")]}, at("t"))
    new = checkpoint(9, {"messages": [HumanMessage("lost")]}, {"messages": "9"})
    with pytest.raises(stateward.StoreUnavailable):
        await saver.aput(found.config, new, {"source": "loop"}, {"messages": "9"})
    with pytest.raises(stateward.StoreUnavailable):
        await saver.aput_writes(found.config, [("messages", "lost")], "task")
    store = saver._bridge._store
    assert (await store.health()).spill_depth == 0  # type: ignore[misc]


class Conversation:
    """A thread that gets one message of 1 KB at each put."""

    def __init__(self, saver: StatewardSaver, name: str) -> None:
        self.saver, self.config = saver, at(name)
        self.messages: list[Any] = []
        self.version: str | None = None

    async def put(self, count: int = 1) -> None:
        for _ in range(count):
            kind = AIMessage if len(self.messages) % 2 else HumanMessage
            message = kind("x" * 1000, id=f"message-{len(self.messages)}")
            self.messages = [*self.messages, message]
        self.version = self.saver.get_next_version(self.version, None)
        versions = {"messages": self.version}
        new = checkpoint(len(self.messages), {"messages": self.messages}, versions)
        metadata: Any = {"source": "loop", "step": len(self.messages), "parents": {}}
        self.config = await self.saver.aput(self.config, new, metadata, versions)


async def test_a_put_takes_as_many_steps_at_a_thousand_messages_as_at_ten(tmp_path: Path) -> None:
    """Calls are counted, not seconds: what is left is one comparison in C, of 0.3 µs a message."""
    async with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        short, long = Conversation(saver, "short"), Conversation(saver, "long")
        await short.put(10)
        await long.put(1000)
        assert await calls(long) <= 1.2 * await calls(short)


async def calls(conversation: Conversation, puts: int = 20) -> int:
    profile = cProfile.Profile()
    with profile:
        for _ in range(puts):
            await conversation.put()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


async def test_a_message_of_1_kb_costs_less_than_2_kb(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    async with StatewardSaver.from_url(f"sqlite:///{path}") as saver:
        growing = Conversation(saver, "t")
        for _ in range(200):
            await growing.put()
    with closing(apsw.Connection(str(path))) as connection:
        query = "SELECT sum(length(name) + length(value)) FROM documents"
        ((total,),) = connection.execute(query).fetchall()
    assert total <= 2 * 1000 * 200, f"{total / 200:.0f} bytes a message"


async def stored_by_a_turn(url: str, graph: Any, thread: str, messages: int) -> float:
    """Bytes that a turn adds to a conversation of so many messages of 1 KB."""

    def stored() -> int:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            query = "SELECT sum(length(name) + length(value)) FROM documents"
            ((total,),) = connection.execute(query).fetchall()
        return int(total)

    before = [HumanMessage("x" * 1000, id=f"m{number}") for number in range(messages)]
    await graph.aupdate_state(at(thread), {"messages": before}, as_node="__start__")
    await graph.ainvoke({"messages": [HumanMessage("x" * 500)]}, at(thread))
    then = stored()
    for _ in range(5):
        await graph.ainvoke({"messages": [HumanMessage("x" * 500)]}, at(thread))
    return (stored() - then) / 5


async def test_a_turn_of_a_graph_stores_as_much_as_the_page_says(tmp_path: Path) -> None:
    """The page on LangGraph names these figures: 6 KB, and 10 KB with a tool call."""
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    async with StatewardSaver.from_url(url) as saver:
        plain, with_tool = [], []
        for messages in (10, 1000):
            graph = support_agent(saver, [AIMessage("y" * 500) for _ in range(6)])
            plain.append(await stored_by_a_turn(url, graph, f"plain {messages}", messages))
            steps = [(tool_call(str(turn)), AIMessage("y" * 500)) for turn in range(6)]
            graph = support_agent(saver, [step for turn in steps for step in turn])
            with_tool.append(await stored_by_a_turn(url, graph, f"tool {messages}", messages))
    assert max(plain) <= 6_500, plain
    assert max(with_tool) <= 10_000, with_tool
    assert plain[1] <= 1.05 * plain[0], plain
    assert with_tool[1] <= 1.05 * with_tool[0], with_tool
