"""One conversation, handed on from framework to framework, and to another language.

Every model is scripted and remembers what it was sent: each turn begins with all that was said
before, whoever kept it. At the end the conversation says the same in every shape.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from claude_agent_sdk import project_key_for_directory
from claude_agent_sdk.types import SessionKey
from clients.test_typescript import Service, key, ran
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai.messages import ToolCallPart, UserPromptPart
from shapes.read_back import SHAPES, Told, read

import stateward
import stateward.sync
import typescript
from frameworks.test_claude_agent_sdk import Place
from frameworks.test_pydantic_ai import Scripted
from stateward.integrations.claude_agent_sdk import StatewardSessionStore
from stateward.integrations.langchain import StatewardChatMessageHistory
from stateward.integrations.openai_agents import StatewardSession
from stateward.integrations.pydantic_ai import StatewardConversation
from stateward.shapes import shape_of

NODE = Path(__file__).parent.parent / "clients" / "node" / "relay.mjs"
SESSION = "0c7b3a52-6f0e-4c55-9d0a-0f6b4f5a1c22"
QUIET = RunConfig(tracing_disabled=True)


def look(what: str) -> str:
    """Look something up."""
    return f"{what}: there is some"


def turn(question: str, what: str, answer: str) -> list[Told]:
    """A turn with one call, as `said` tells it."""
    called = [("call", "look", {"what": what}), ("result", f"{what}: there is some")]
    return [("user", question), *called, ("assistant", answer)]


TURNS = {
    "langgraph": turn("A steak, please.", "steak", "A steak it is."),
    "openai": turn("With beans.", "beans", "And beans."),
    "pydantic": turn("And salt.", "salt", "And salt."),
    "claude": [
        ("user", "Please grill it."),
        ("call", "Agent", {"prompt": "grill"}),
        ("result", "done"),
        ("assistant", "I remember: A steak, please.; With beans.; And salt.; Please grill it."),
    ],
    "node": turn("And wine?", "wine", "Red wine."),
    "again": turn("What was it again?", "order", "All of it."),
}
QUESTIONS = [said[0][1] for said in TURNS.values()]


class Waiter:
    """A graph whose model looks something up, and then answers."""

    def __init__(self, what: str, answer: str) -> None:
        call = {"name": "look", "args": {"what": what}, "id": f"call-{what}"}
        self.says = [AIMessage("", tool_calls=[call]), AIMessage(answer)]
        self.seen: list[list[AnyMessage]] = []
        graph = StateGraph(MessagesState)
        graph.add_node("model", self.model)
        graph.add_node("tools", ToolNode([tool(look)]))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        self.graph = graph.compile()

    def model(self, state: MessagesState) -> dict[str, Any]:
        self.seen.append(state["messages"])
        return {"messages": [self.says.pop(0)]}


async def in_langgraph(store: stateward.Store, id: str, turn: list[Told]) -> list[str]:
    (_, question), (_, _, args), _, (_, answer) = turn
    waiter = Waiter(args["what"], answer)
    history = StatewardChatMessageHistory(store, id)
    before = await history.aget_messages()
    done = await waiter.graph.ainvoke({"messages": [*before, HumanMessage(question)]})
    await history.aadd_messages(done["messages"][len(before) :])
    return [str(message.text) for message in waiter.seen[0] if message.type == "human"]


async def in_openai_agents(store: stateward.Store, id: str, turn: list[Told]) -> list[str]:
    (_, question), (_, _, args), _, (_, answer) = turn
    model = ScriptedModel(
        [[function_call("look", args, call_id="call-beans")], [assistant_message(answer)]]
    )
    agent = Agent(name="waiter", model=model, tools=[function_tool(look)])
    await Runner.run(agent, question, session=StatewardSession(store, id), run_config=QUIET)
    given = model.calls[0].input
    return [text_of(item["content"]) for item in given if item.get("role") == "user"]


async def in_pydantic_ai(store: stateward.Store, id: str, turn: list[Told]) -> list[str]:
    (_, question), (_, _, args), _, (_, answer) = turn
    model = Scripted(ToolCallPart("look", args), answer)
    await StatewardConversation(store, id).run(model.agent(tools=[look]), question)
    parts = [part for message in model.seen[0] for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else str(content[0]["text"])


def in_node(service: Service, key: str, id: str, turn: list[Told], folder: Path) -> list[str]:
    (_, question), (_, _, args), (_, told), (_, answer) = turn
    call = {"call_id": "call-wine", "name": "look", "arguments": json.dumps(args)}
    items = [
        {"role": "user", "content": question},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "call-wine", "output": told},
        {"role": "assistant", "content": answer},
    ]
    folder.mkdir()
    (folder / "node_modules").symlink_to(typescript.install() / "node_modules")
    (folder / NODE.name).write_bytes(NODE.read_bytes())
    where = {"baseURL": f"{service.url}/v1", "apiKey": key, "conversation": id, "items": items}
    seen = json.loads(ran(folder, NODE.name, STATEWARD_TESTS=json.dumps(where)))
    asked = [text_of(item["content"]) for item in seen if item.get("role") == "user"]
    return [*asked, question]


def said(told: list[Told]) -> list[Told]:
    """Without the ids of calls, once every result is known to have the id of its call."""
    calls = [each[1] for each in told if each[0] == "call"]
    assert calls == [each[1] for each in told if each[0] == "result"]
    assert len(set(calls)) == len(calls)
    return [each if len(each) == 2 else (each[0], *each[2:]) for each in told]


async def test_a_conversation_goes_through_five_frameworks_and_two_languages(
    file: str, tmp_path: Path
) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        claude = Place(tmp_path / "claude", sessions)
        session: SessionKey = {
            "project_key": project_key_for_directory(claude.work),
            "session_id": SESSION,
        }
        id = sessions.thread(session).id
        assert await in_langgraph(store, id, TURNS["langgraph"]) == QUESTIONS[:1]
        assert await in_openai_agents(store, id, TURNS["openai"]) == QUESTIONS[:2]
        assert await in_pydantic_ai(store, id, TURNS["pydantic"]) == QUESTIONS[:3]
        answered = await claude.ask(QUESTIONS[3], resume=SESSION)
        assert answered.result == TURNS["claude"][-1][1]  # what it remembers is what it was given
    with stateward.sync.open(file, heartbeat=None) as direct:
        permitted = key(direct, "write", ("default",))
    service = Service(file)
    try:
        seen = in_node(service, permitted, id, TURNS["node"], tmp_path / "node")
    finally:
        service.kill()
    assert seen == QUESTIONS[:5]
    async with stateward.open(file) as store:
        assert await in_langgraph(store, id, TURNS["again"]) == QUESTIONS

        everything = [told for turn in TURNS.values() for told in turn]
        thread = store.thread(id)
        for shape in SHAPES:
            translated = await thread.messages_as(shape)
            assert [str(lost) for lost in translated.lost] == [], shape
            assert said(read(translated.messages, shape, translated.system)) == everything, shape
        stored = (await thread.load()).messages
        kinds = {shape_of(message) for message in stored}
        assert kinds == {"langchain", "plain", "openai-responses", "pydantic-ai", "claude"}
