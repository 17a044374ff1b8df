"""An unknown effect ends the run, whatever a framework is told to do with errors of tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai.types import Content, FunctionCall, Part
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy

import stateward
from stateward.integrations.google_adk import StatewardSessionService
from stateward.integrations.google_adk import effect_tool as adk_effect_tool
from stateward.integrations.langgraph import StatewardSaver, effect_tool

MOST = 5  # calls of a model that keeps trying

# --- LangGraph --------------------------------------------------------------------------

HANDLE = {
    "default": {},
    "off": {"handle_tool_errors": False},
    "on": {"handle_tool_errors": True},
    "text": {"handle_tool_errors": "Something went wrong, try again."},
    "function": {"handle_tool_errors": lambda error: f"try again: {error}"},
    "class": {"handle_tool_errors": stateward.EffectUnknown},
    "classes": {"handle_tool_errors": (Exception,)},
}


def graph(saver: StatewardSaver, charged: list[str], handle: dict[str, Any]) -> Any:
    """A graph whose model calls the tool again under a new id as long as it may."""

    @tool
    def charge(order: str) -> str:
        """Charge an order."""
        charged.append(order)
        raise TimeoutError("the bank does not answer")

    def model(state: MessagesState) -> Any:
        number = len(state["messages"])
        call: Any = {"name": "charge", "args": {"order": "o-1"}, "id": f"call-{number}"}
        return {"messages": [AIMessage("", tool_calls=[call] if number < 2 * MOST else [])]}

    def again(state: MessagesState) -> str:
        return "tools" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]

    drawn = StateGraph(MessagesState)
    drawn.add_node("model", model)
    retry = RetryPolicy(initial_interval=0.001, max_attempts=3, retry_on=Exception)
    node = ToolNode([effect_tool(saver, charge)], **handle)
    drawn.add_node("tools", node, retry_policy=retry)
    drawn.add_edge(START, "model")
    drawn.add_edge("tools", "model")
    drawn.add_conditional_edges("model", again, ["tools", END])
    return drawn.compile(checkpointer=saver)


@pytest.mark.parametrize("colour", ["async", "blocking"])
@pytest.mark.parametrize("handle", HANDLE)
async def test_a_graph_ends_with_an_unknown_effect(
    handle: str, colour: str, tmp_path: Path
) -> None:
    charged: list[str] = []
    config: Any = {"configurable": {"thread_id": "t"}}
    question = {"messages": [HumanMessage("pay")]}
    async with (
        stateward.open(f"sqlite:///{tmp_path}/store.db") as store,
        StatewardSaver(store) as saver,  # closes what blocking calls have opened
    ):
        app = graph(saver, charged, HANDLE[handle])
        for state in (question, None):  # the run, and one that resumes it
            with pytest.raises(stateward.EffectUnknown) as caught:
                if colour == "async":
                    await app.ainvoke(state, config)
                else:
                    await asyncio.to_thread(app.invoke, state, config)
            assert caught.value.effect.startswith("langgraph-thread/t/call-")
        assert charged == ["o-1"]


# --- ADK --------------------------------------------------------------------------------


class Insistent(BaseLlm):
    """Calls the tool again under a new id as long as it is asked."""

    asked: list[int]

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        self.asked.append(len(self.asked))
        part = Part(text="done")
        if len(self.asked) < MOST:
            call = FunctionCall(id=f"call-{len(self.asked)}", name="charge", args={"order": "o-1"})
            part = Part(function_call=call)
        yield LlmResponse(content=Content(role="model", parts=[part]))


def try_again(**_: Any) -> dict[str, str]:
    return {"result": "try again"}


HANDLERS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "nothing": ([], {}),
    "reflects": ([ReflectAndRetryToolPlugin(max_retries=3)], {}),
    "goes on": (
        [ReflectAndRetryToolPlugin(max_retries=0, throw_exception_if_retry_exceeded=False)],
        {},
    ),
    "callback": ([], {"on_tool_error_callback": try_again}),
}


@pytest.mark.parametrize("service", ["ours", "another"])
@pytest.mark.parametrize("handler", HANDLERS)
async def test_an_agent_of_adk_ends_with_an_unknown_effect(
    handler: str, service: str, tmp_path: Path
) -> None:
    charged: list[str] = []
    asked: list[int] = []

    def charge(order: str) -> dict[str, str]:
        """Charge an order."""
        charged.append(order)
        raise TimeoutError("the bank does not answer")

    plugins, options = HANDLERS[handler]
    async with stateward.open(f"sqlite:///{tmp_path}/store.db") as store:
        ours = StatewardSessionService(store)
        sessions: Any = ours if service == "ours" else InMemorySessionService()
        tools: Any = [adk_effect_tool(ours, charge)]
        agent = LlmAgent(
            name="a", model=Insistent(model="fake", asked=asked), tools=tools, **options
        )
        app = App(name="app", root_agent=agent, plugins=plugins)
        runner = Runner(app=app, session_service=sessions)
        await sessions.create_session(app_name="app", user_id="u", session_id="s")
        ended = "silently"
        try:
            question = Content(role="user", parts=[Part(text="pay")])
            async for _ in runner.run_async(user_id="u", session_id="s", new_message=question):
                pass
        except stateward.EffectUnknown:
            ended = "with the error"
        assert charged == ["o-1"]
        if service == "ours" or handler == "nothing":
            assert ended == "with the error"
        if service == "ours":
            stored = [message async for message in _messages(store)]
            assert "try again" not in str(stored)
            assert "reflection" not in str(stored)


async def _messages(store: stateward.Store) -> AsyncIterator[Any]:
    async for info in store.threads():
        for message in (await store.thread(info.id).load()).messages:
            yield message
