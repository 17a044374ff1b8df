"""What agent frameworks keep is shown as what it is to them, without importing them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core.messages import AIMessage
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import stateward
import stateward.sync
from stateward.cli import main
from stateward.integrations.google_adk import StatewardSessionService
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph import StatewardSaver, StatewardStore
from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage

sys.path.insert(0, str(Path(__file__).parent.parent / "integrations"))

from integrations.graphs import at, support_agent, tool_call


async def run_adk(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store, wait="never")
        session = await service.create_session(
            app_name="bar/grill", user_id="u-1", session_id="one", state={"user:diet": "vegan"}
        )
        content = types.Content(role="user", parts=[types.Part(text="A steak, please.")])
        actions = EventActions(state_delta={"app:open": True, "table": 4})
        event = Event(author="user", invocation_id="e-1", content=content, actions=actions)
        await service.append_event(session, event)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('kept')}/agents.db"
    asyncio.run(run_adk(url))
    with stateward.sync.open(url) as store:
        with StatewardSaver(store) as saver:
            answers = [tool_call("991"), AIMessage("It is on its way."), AIMessage("Yes.")]
            agent = support_agent(saver, answers)
            long = (
                "Where is order 991? " + "It was due yesterday. " * 40
            )  # too long to stand inline
            agent.invoke({"messages": [("user", long)]}, at("g-1", user_id="u-2"))
            agent.invoke({"messages": [("user", "Sure?")]}, at("g-1", user_id="u-2"))
        with StatewardStore(store) as items:
            items.put(("users", "a/b"), "likes=", {"food": "steak"})
        repository = StatewardSessionRepository(store)
        repository.create_session(Session("str-1", SessionType.AGENT))
        repository.create_agent("str-1", SessionAgent("waiter", {}, {}))
        said = {"role": "user", "content": [{"text": "Hello."}]}
        repository.create_message("str-1", "waiter", SessionMessage(said, 0))
        asyncio.run(StatewardStorage(store).write("snapshots/1", b"bytes"))
    return url


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_thread_of_langgraph_has_its_checkpoints_as_rows(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, "inspect", url, "thread", "g-1")
    assert said["about"]["what"] == "LangGraph thread g-1"
    rows = said["rows"]
    ids = [row["checkpoint"] for row in rows]
    assert ids == sorted(ids)
    assert [row["parent"] for row in rows] == [None, *ids[:-1]]
    assert [row["step"] for row in rows] == list(range(-1, len(rows) - 1))
    assert rows[0]["source"] == "input"
    assert "messages (6)" in rows[-1]["channels"]
    whats = {name: each["what"] for name, each in said["about"]["documents"].items()}
    assert whats[names.checkpoint("", ids[0])].startswith("checkpoints from 20")
    assert whats["h/"] == "which checkpoint was put last"
    assert "what checkpoints have in common" in whats.values()
    assert all(whats.values()), whats
    assert main(["inspect", url, "thread", "g-1"]) == 0
    assert "\ncheckpoint " in capsys.readouterr().out


def test_a_thread_of_langgraph_reads_like_any_other(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, "thread", "show", url, "g-1")
    assert [each["role"] for each in said["messages"]] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert said["thread"]["kind"] == "LangGraph thread"
    earlier = told(capsys, "thread", "show", url, "g-1", "--last", "2", "--before", "4")
    assert [each["number"] for each in earlier["messages"]] == [2, 3]
    assert (earlier["before"], earlier["thread"]["messages"]) == (2, 6)
    assert main(["thread", "show", url, "g-1"]) == 0
    text = capsys.readouterr().out
    assert '    ▸ order_status {"order": "991"}\n 3  = order 991 is on its way\n' in text


def test_a_session_of_adk_is_shown_with_its_events(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    what = "session one of the ADK application bar/grill"
    rows = told(capsys, "thread", "list", url, "--user", "u-1")["rows"]
    assert [row["what"] for row in rows] == [what]
    said = told(capsys, "inspect", url, "thread", rows[0]["id"])
    assert said["about"]["what"] == what
    assert [row["what"] for row in said["rows"]] == ["event of user in invocation e-1"]
    assert said["about"]["documents"]["state"]["what"] == "the session's own state"
    user = told(capsys, "inspect", url, "user", "u-1")["about"]["documents"]
    assert user["adk bar/grill"]["what"] == "the user's state in the ADK application bar/grill"
    shared = told(capsys, "inspect", url, "shared", "adk bar/grill")["about"]
    assert shared["what"] == "state of the ADK application bar/grill"
    (message,) = told(capsys, "thread", "show", url, rows[0]["id"])["messages"]
    assert message["role"] == "user"


def test_a_session_of_strands_is_shown_with_its_agents(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, "inspect", url, "thread", "str-1")
    assert said["about"]["what"] == "session str-1 of Strands"
    assert {name: each["what"] for name, each in said["about"]["documents"].items()} == {
        "agent waiter": "state of the agent waiter",
        "session": "the session",
    }
    assert [row["what"] for row in said["rows"]] == ["message 0 of the agent waiter"]
    assert main(["inspect", url, "thread", "str-1"]) == 0
    assert "message 0 of the agent waiter" in capsys.readouterr().out


def test_items_and_blobs_are_listed_and_shown_by_their_own_names(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (item,) = told(capsys, "inspect", url, "langgraph-items")["rows"]
    assert item["what"] == "item likes= in users/a/b of LangGraph's store"
    whole = told(capsys, "inspect", url, "langgraph-item", item["id"])["about"]
    assert whole["documents"]["item"]["value"] == {"food": "steak"}
    (blob,) = told(capsys, "inspect", url, "blobs")["rows"]
    assert (blob["id"], blob["what"]) == ("snapshots/1", "what Strands stores under snapshots/1")
    assert main(["inspect", url, "blob", "nosuch"]) == 2
    assert "stateward inspect URL blobs" in capsys.readouterr().err


def test_looking_imports_no_framework() -> None:
    frameworks = ["langgraph", "langchain_core", "google.adk", "strands", "agents"]
    code = (
        "import sys, stateward.cli.inspect, stateward.cli.thread\n"
        f"print([name for name in {frameworks} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "[]\n", ran.stderr
