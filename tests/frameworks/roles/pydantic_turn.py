"""A run of an agent with a tool, in its own process: url, conversation, user, question, answer."""

from __future__ import annotations

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stateward
from stateward.integrations.pydantic_ai import StatewardConversation


async def main(url: str, conversation: str, user: str, question: str, answer: str) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("grill", {"doneness": "medium rare"}, "call-1")])
        return ModelResponse([TextPart(answer)])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def grill(doneness: str) -> str:
        """Grill a steak."""
        return f"a {doneness} steak"

    async with stateward.open(url) as store:
        kept = StatewardConversation(store, conversation, user=user)
        result = await kept.run(agent, question)
    print(json.dumps({"said": result.output}))


asyncio.run(main(*sys.argv[1:]))
