"""LangGraph's own server, on a Stateward store by its configuration, asked by its own SDK."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs.pages import BY_LANGGRAPH, DOCS, blocks
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from servers.ports import free_port

import langgraph_server
import stateward
from stateward.integrations.langgraph import StatewardSaver, StatewardStore

PATIENCE = 120.0
PAGE = DOCS / "how-to" / "langgraph-server.md"
AGENT, CLIENT, STATE = (
    block.text for block in blocks(PAGE, "python") if block.mark == BY_LANGGRAPH
)
(CONFIGURATION,) = (block.text for block in blocks(PAGE, "json") if block.mark == BY_LANGGRAPH)
(QUIET,) = (b.text for b in blocks(PAGE, "sh") if b.text.startswith("export "))
OFFLINE = dict(word.split("=") for word in QUIET.splitlines()[0].split()[1:])
NOTES = ("notes", "u-1")

PAIR = ("checkpointer", "store")
FILES = {
    "agent.py": AGENT,
    "state.py": STATE,
    "tickets.py": """
from dataclasses import dataclass

@dataclass
class Ticket:
    number: int
""",
    # stops for a person
    "approval.py": """
from dataclasses import dataclass
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from tickets import Ticket

@dataclass
class Claim:
    sum: int = 0
    ticket: Ticket | None = None
    approved: str = ""

def decide(state: Claim) -> dict:
    return {"approved": interrupt({"sum": state.sum}), "ticket": Ticket(state.sum)}

graph = StateGraph(Claim).add_node(decide).add_edge(START, "decide").compile()
""",
    # does not end, if it is asked to stay
    "stuck.py": """
import asyncio
from langgraph.graph import START, MessagesState, StateGraph

async def first(state: MessagesState) -> dict:
    return {"messages": [("ai", "begun")]}

async def endless(state: MessagesState) -> dict:
    if state["messages"][0].content == "stay":
        await asyncio.Event().wait()
    return {"messages": [("ai", "done")]}

graph = StateGraph(MessagesState).add_node(first).add_node(endless)
graph = graph.add_edge(START, "first").add_edge("first", "endless").compile()
""",
}


class DevServer:
    """`langgraph dev` in a folder with the files of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.store = f"sqlite:///{folder / 'agents.db'}"
        # Whatever it would tell the world goes here, and is noticed.
        self.world = socket.create_server(("127.0.0.1", 0))
        self.world.setblocking(False)
        self._process: subprocess.Popen[bytes] | None = None
        for name, text in FILES.items():
            (folder / name).write_text(text, "utf-8")
        self.configure()

    def configure(self, module: str = "stateward.integrations.langgraph.server.") -> None:
        """As the page does, with more graphs."""
        said = json.loads(CONFIGURATION)
        said["graphs"] |= {name: f"./{name}.py:graph" for name in ("approval", "stuck")}
        shown = (said["checkpointer"]["path"], said["store"]["path"])
        assert shown == tuple(f"stateward.integrations.langgraph.server.{n}" for n in PAIR)
        said["checkpointer"]["path"], said["store"]["path"] = (module + name for name in PAIR)
        (self.folder / "langgraph.json").write_text(json.dumps(said), "utf-8")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LangGraphClient]:
        """Started, and asked by a client."""
        await asyncio.to_thread(self._start)
        async with get_client(url=self.url) as client:
            yield client

    def _start(self) -> None:
        proxy = f"http://127.0.0.1:{self.world.getsockname()[1]}"
        foreign = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "STATEWARD_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        env |= OFFLINE
        env |= {"PYTHONPATH": str(langgraph_server.install()), "NO_PROXY": "127.0.0.1,localhost"}
        env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy)
        command = (sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload")
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                (*command, "--port", str(self.port)),
                cwd=self.folder,
                env=env,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if httpx.get(f"{self.url}/ok").is_success:
                    return
            except httpx.TransportError:
                pass
            if self._process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no server: {self.said()}")
            time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """As Ctrl-C does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    def said(self) -> str:
        return (self.folder / "server.log").read_text("utf-8", "replace")

    def called(self) -> list[bytes]:
        """What it has said to proxies; empty: it has called nobody."""
        found = []
        while True:
            try:
                caller, _ = self.world.accept()
            except BlockingIOError:
                return found
            with caller:
                found.append(caller.recv(1_000))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DevServer]:
    server = DevServer(tmp_path)
    yield server
    server.kill()
    server.world.close()


def contents(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def waiting(client: LangGraphClient, thread: str) -> list[Any]:
    """What a thread waits for."""
    state = await client.threads.get_state(thread)
    return [task["interrupts"][0]["value"] for task in state["tasks"]]


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def begun(client: LangGraphClient, thread: str) -> bool:
    state = await client.threads.get_state(thread)
    return len(dict(state["values"]).get("messages", ())) > 1


async def test_the_server_keeps_its_threads_and_memories_in_the_store(server: DevServer) -> None:
    page = server.folder / "client.py"
    page.write_text(CLIENT.replace("http://127.0.0.1:2024", server.url), "utf-8")
    ask = (sys.executable, str(page))
    thread = CLIENT.partition('THREAD = "')[2].partition('"')[0]

    async with asyncio.timeout(PATIENCE), server.running() as client:
        printed = await asyncio.to_thread(subprocess.check_output, ask, text=True)
        assert printed == "You have asked 1 times.\n{'question': 'Where is my order?'}\n"
        before = await client.threads.get_history(thread, limit=100)
        asked = (await client.threads.create(graph_id="approval"))["thread_id"]
        await client.runs.wait(asked, "approval", input={"sum": 7})
        assert await waiting(client, asked) == [{"sum": 7}]
    server.kill()
    shutil.rmtree(server.folder / ".langgraph_api", ignore_errors=True)  # what it kept itself
    server.configure("./state.py:")  # the functions of the page, with options

    async with asyncio.timeout(PATIENCE), server.running() as client:
        # A conversation goes on.
        printed = await asyncio.to_thread(subprocess.check_output, ask, text=True)
        assert printed.startswith("You have asked 2 times.")
        state = await client.threads.get_state(thread)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"] * 2
        after = await client.threads.get_history(thread, limit=100)
        assert after[-len(before) :] == before
        assert len(after) == 2 * len(before)

        # A run that waits for a person does too.
        await client.threads.create(thread_id=asked, graph_id="approval", if_exists="do_nothing")
        assert await waiting(client, asked) == [{"sum": 7}]
        done = await client.runs.wait(asked, "approval", command={"resume": "yes"})
        assert done == {"sum": 7, "ticket": {"number": 7}, "approved": "yes"}

        # State is changed, a thread is copied, time is travelled, and the thread is deleted.
        talk = (await client.threads.create(graph_id="agent"))["thread_id"]
        for question in "ab":
            await client.runs.wait(talk, "agent", input=says(question))
        past = (await client.threads.get_history(talk, limit=2))[1]  # "b" is not answered yet
        await client.threads.update_state(talk, says("c"), as_node="answer")
        copy = (await client.threads.copy(talk))["thread_id"]
        travelled = await client.runs.wait(
            talk, "agent", checkpoint_id=past["checkpoint"]["checkpoint_id"]
        )
        assert contents(travelled) == [
            "a",
            "You have asked 1 times.",
            "b",
            "You have asked 2 times.",
        ]
        await client.threads.delete(talk)
        copied = await client.threads.get_state(copy)
        assert contents(copied["values"])[::2] == ["a", "b", "c"]

        # A run that is rolled back leaves nothing, and the next one has the thread to itself.
        busy = (await client.threads.create(graph_id="stuck"))["thread_id"]
        await client.runs.create(busy, "stuck", input=says("stay"))
        while not await begun(client, busy):  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.05)
        freed = await client.runs.wait(
            busy, "stuck", input=says("go"), multitask_strategy="rollback"
        )
        assert contents(freed) == ["go", "begun", "done"]

        # Memories: put, searched by a field, listed, deleted.
        for key, size in (("a", 1), ("b", 2)):
            await client.store.put_item(NOTES, key, {"size": size})
        found = await client.store.search_items(NOTES, filter={"size": 2})
        assert [item["key"] for item in found["items"]] == ["b"]
        assert list(NOTES) in (await client.store.list_namespaces())["namespaces"]
        await client.store.delete_item(NOTES, "a")
        left = await client.store.search_items(NOTES)
        assert [item["key"] for item in left["items"]] == ["b"]
    server.stop()
    assert "Traceback" not in server.said()
    assert server.called() == []

    # What the server has stored is what a process without it reads.
    async with stateward.open(server.store) as store:
        saver = StatewardSaver(store)
        kept = await saver.aget_tuple({"configurable": {"thread_id": thread}})
        assert kept is not None
        assert len(kept.checkpoint["channel_values"]["messages"]) == 4
        assert await saver.aget_tuple({"configurable": {"thread_id": talk}}) is None
        item = await StatewardStore(store).aget(("asked", "u-42"), "last")
        assert item is not None
        assert item.value == {"question": "b"}
