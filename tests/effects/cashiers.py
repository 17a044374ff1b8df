"""An agent of each framework that charges an order, with its tool wrapped or as it is.

`turn(framework, url, order, death, wrapped)` is one delivery of the request: what a backend does
for a message, and does again after a crash. Models are offline; each call of them has an id of its
own, as those of a real one have.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import stateward
from effects.deaths import Death
from stateward import sync

TTL = 0.2  # seconds until a process that died is noticed
FRAMEWORKS = ("langgraph", "openai", "strands", "adk", "faststream")
REQUEST = "Charge it, please."


def new_call() -> str:
    return f"call-{uuid.uuid4().hex[:12]}"


def charging(death: Death, order: str) -> Callable[[str], str]:
    """The tool: it passes its key on, whether or not anybody honours it."""

    def charge(order_id: str) -> str:
        """Charge an order."""
        try:
            key = stateward.idempotency_key()
        except stateward.StoreMisused:
            key = new_call()  # as it is, a tool has none that would be the same again
        return death.charge(order_id, key)

    return charge


def key(arguments: dict[str, Any]) -> str:
    """What makes two calls the same act, where the framework forgets the call in a crash."""
    return f"charge {arguments['order_id']}"


async def on_langgraph(url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    from stateward.integrations.langgraph import StatewardSaver, effect_tool

    def think(state: MessagesState) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage(content="charged")]}
        call = {"name": "charge", "args": {"order_id": order}, "id": new_call()}
        return {"messages": [AIMessage(content="", tool_calls=[call])]}

    async with stateward.open(url, heartbeat=None) as store, StatewardSaver(store) as saver:
        charge: Any = tool(charging(death, order))
        if options is not None:
            charge = effect_tool(saver, charge, ttl=TTL, **options)
        builder = StateGraph(MessagesState)
        builder.add_node("think", think)
        builder.add_node("tools", ToolNode([charge]))
        builder.add_edge(START, "think")
        builder.add_conditional_edges("think", tools_condition)
        builder.add_edge("tools", "think")
        graph = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": order}}
        found = await graph.aget_state(config)
        given: Any = None if found.next else {"messages": [HumanMessage(REQUEST)]}
        said = await graph.ainvoke(given, config, durability="sync")
        return str(said["messages"][-1].content)


async def on_openai(url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    from agents import Agent, Model, Runner, function_tool
    from agents.items import ModelResponse
    from agents.testing import assistant_message, function_call
    from agents.usage import Usage

    from stateward.integrations.openai_agents import StatewardSession, effect_tool

    class Thinking(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            items = kwargs.get("input", args[1] if len(args) > 1 else [])
            last = items[-1] if isinstance(items, list) and items else {}
            if last.get("type") == "function_call_output":
                said: Any = assistant_message("charged")
            else:
                arguments = json.dumps({"order_id": order})
                said = function_call("charge", arguments, call_id=new_call())
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            raise NotImplementedError

    async with stateward.open(url, heartbeat=None) as store:
        session = StatewardSession(store, order, conflict="append")
        charge = function_tool(charging(death, order))
        if options is not None:
            charge = effect_tool(session, charge, key=key, ttl=TTL, **options)
        agent = Agent(name="cashier", model=Thinking(), tools=[charge])
        return str((await Runner.run(agent, REQUEST, session=session)).final_output)


def on_strands(url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    from strands import Agent, tool
    from strands.models import Model
    from strands.session import RepositorySessionManager

    from stateward.integrations.strands import StatewardSessionRepository, effect_tool

    class Thinking(Model):
        def get_config(self) -> Any:
            return {}

        def update_config(self, **config: Any) -> None:
            raise NotImplementedError

        async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            answered = any("toolResult" in block for block in messages[-1]["content"])
            yield {"messageStart": {"role": "assistant"}}
            if answered:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": "charged"}}}
            else:
                use = {"name": "charge", "toolUseId": new_call()}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                given = json.dumps({"order_id": order})
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if answered else "tool_use"}}

    with sync.open(url, heartbeat=None) as store:
        manager = RepositorySessionManager(order, StatewardSessionRepository(store))
        charge: Any = tool(charging(death, order))
        if options is not None:
            charge = effect_tool(store.thread(order), charge, key=key, ttl=TTL, **options)
        agent = Agent(
            model=Thinking(),
            agent_id="cashier",
            session_manager=manager,
            tools=[charge],
            callback_handler=None,
        )
        return str(agent(REQUEST)).strip()


async def on_adk(url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from stateward.integrations.google_adk import StatewardSessionService, effect_tool

    class Thinking(BaseLlm):
        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncIterator[LlmResponse]:
            if any(part.function_response for part in llm_request.contents[-1].parts):
                part = types.Part(text="charged")
            else:
                call = types.FunctionCall(name="charge", args={"order_id": order})
                part = types.Part(function_call=call)
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    async with stateward.open(url, heartbeat=None) as store:
        service = StatewardSessionService(store, wait="never")
        where = {"app_name": "shop", "user_id": "u", "session_id": order}
        if await service.get_session(**where) is None:
            await service.create_session(**where)
        charge: Any = charging(death, order)
        if options is not None:
            charge = effect_tool(service, charge, key=key, ttl=TTL, **options)
        agent = LlmAgent(name="cashier", model=Thinking(model="offline"), tools=[charge])
        runner = Runner(app_name="shop", agent=agent, session_service=service)
        asked = types.Content(role="user", parts=[types.Part(text=REQUEST)])
        said = ""
        async for event in runner.run_async(user_id="u", session_id=order, new_message=asked):
            for part in event.content.parts if event.content else ():
                said = part.text or said
        return said


async def on_faststream(url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    from faststream.redis import RedisBroker, TestRedisBroker

    from stateward.integrations.faststream import StatewardMiddleware, effect

    async with stateward.open(url, heartbeat=None) as store:
        once = StatewardMiddleware(store, "cashier", ttl=TTL, attempts=10)
        broker = RedisBroker(middlewares=[once], logger=None)
        charge = charging(death, order)

        @broker.subscriber("orders")
        async def handle(order_id: str) -> str:
            if options is None:
                charge(order_id)
            else:
                await effect("charge", charge, order_id, ttl=TTL, **options)
            return "charged"

        async with TestRedisBroker(broker) as test:
            await test.publish(order, "orders", headers={"message_id": order})
            return "charged"


AGENTS: dict[str, Callable[..., str | Awaitable[str]]] = {
    "langgraph": on_langgraph,
    "openai": on_openai,
    "strands": on_strands,
    "adk": on_adk,
    "faststream": on_faststream,
}


def turn(framework: str, url: str, order: str, death: Death, options: dict[str, Any] | None) -> str:
    """One delivery: what the agent says at the end, or what it raised. None: the tool as it is."""
    agent = AGENTS[framework]
    try:
        if inspect.iscoroutinefunction(agent):
            return str(asyncio.run(agent(url, order, death, options)))
        return str(agent(url, order, death, options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
