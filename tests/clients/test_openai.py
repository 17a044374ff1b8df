"""OpenAI's Conversations API as `stateward serve` answers it: for Node, for agents, and killed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIConversationsSession, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from docs.pages import blocks
from openai import AsyncOpenAI, OpenAI

import typescript
from clients.test_typescript import PATIENCE, Service, key, ran
from stateward import sync

SCRIPT = Path(__file__).parent / "node" / "conversations.mjs"
BATCH = 40
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/agents.db"


@pytest.fixture(scope="module")
def service(store: str) -> Iterator[Service]:
    service = Service(store)
    yield service
    service.kill()


@pytest.fixture(scope="module")
def where(store: str, service: Service) -> dict[str, Any]:
    """What a client of OpenAI's is told."""
    with sync.open(store, heartbeat=None) as direct:
        return {"base_url": f"{service.url}/v1", "api_key": key(direct, "write", ("default",))}


def test_node_uses_every_method(
    store: str, service: Service, where: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(typescript.install() / "node_modules")
    (tmp_path / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
    given = {"baseURL": where["base_url"], "apiKey": where["api_key"]}
    left = ran(tmp_path, SCRIPT.name, STATEWARD_TESTS=json.dumps(given)).strip()
    page = typescript.ROOT / "docs" / "how-to" / "openai-conversations.md"
    (block,) = blocks(page, "js")
    (tmp_path / "page.mjs").write_text(block.text, "utf-8")
    told = {"STATEWARD_SERVICE": service.url, "STATEWARD_KEY": where["api_key"]}
    assert ran(tmp_path, "page.mjs", **told) == "user\n"
    with sync.open(store, heartbeat=None) as direct:
        assert direct.thread(left).load().messages == [{"role": "user", "content": "from Node"}]


@function_tool
def grill(doneness: str) -> str:
    """Grill a steak."""
    return f"a {doneness} steak"


async def test_an_agents_session_survives_a_restart_of_the_service(
    store: str, service: Service, where: dict[str, Any]
) -> None:
    call = function_call("grill", {"doneness": "rare"}, call_id="call-1")
    model = ScriptedModel([[call], [assistant_message("Here it is.")]])
    async with AsyncOpenAI(**where) as client:
        session = OpenAIConversationsSession(openai_client=client)
        waiter = Agent(name="waiter", model=model, tools=[grill])
        result = await Runner.run(waiter, "A steak, please.", session=session, run_config=QUIET)
        assert result.final_output == "Here it is."
        service.kill()
        await asyncio.to_thread(service.start)
        model = ScriptedModel([[assistant_message("Rare.")]])
        again = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
        await Runner.run(
            Agent(name="waiter", model=model), "How was it done?", session=again, run_config=QUIET
        )
        seen: Any = model.calls[0].input
        assert [item.get("type") for item in seen] == [
            *("message", "function_call", "function_call_output", "message"),
            None,  # the new question, as the runner has it
        ]
        assert (seen[1]["call_id"], seen[2]["output"]) == ("call-1", "a rare steak")
        with sync.open(store, heartbeat=None) as direct:
            assert len(direct.thread(session.session_id).load().messages) == 6
        popped: Any = await again.pop_item()
        assert popped["content"][0]["text"] == "Rare."
        await again.add_items([{"role": "user", "content": f"item {n}"} for n in range(45)])
        assert len(await again.get_items()) == 50
        assert [item["content"][0]["text"] for item in await again.get_items(2)] == [
            *("item 43", "item 44")
        ]
        await again.clear_session()
        with sync.open(store, heartbeat=None) as direct:
            assert not direct.thread(session.session_id).load().exists


def test_forty_items_are_stored_or_none_whenever_it_is_killed(
    service: Service, where: dict[str, Any]
) -> None:
    with OpenAI(**where, max_retries=0) as client:
        id = client.conversations.create().id
        told: list[int] = []  # the turns that were answered
        turn = 0
        for _ in range(3):
            begun, failed = threading.Event(), threading.Event()

            def write(begun: threading.Event = begun, failed: threading.Event = failed) -> None:
                nonlocal turn
                try:
                    while True:
                        turn += 1
                        content = [{"role": "user", "content": f"{turn} {n}"} for n in range(BATCH)]
                        client.conversations.items.create(id, items=content)
                        told.append(turn)
                        begun.set()
                except openai.APIConnectionError:
                    failed.set()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                assert begun.wait(PATIENCE)
                service.kill()
                assert failed.wait(PATIENCE)
            finally:
                writer.join(PATIENCE)
                service.start()
        items: Any = client.conversations.items.list(id, order="asc", limit=100)
        texts = [item.content[0].text for item in items]
    turns = [int(text.split()[0]) for text in texts[::BATCH]]
    assert texts == [f"{each} {n}" for each in turns for n in range(BATCH)]
    assert set(told) <= set(turns)
    assert len(set(turns) - set(told)) <= 3, "one that was under way at each kill, at most"
