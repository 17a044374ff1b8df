"""Several processes whose runs are of the same conversation: url, processes, runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stateward
from stateward.integrations.pydantic_ai import StatewardConversation

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part


async def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse([TextPart(str(messages[-1].parts[-1].content))])  # type: ignore[union-attr]


async def converse(number: int) -> None:
    async with stateward.open(url) as store:
        for run in range(runs):
            conversation = StatewardConversation(store, "crowd")
            await conversation.run(Agent(FunctionModel(echo)), f"{number}.{run}")


url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
asyncio.run(Agent(FunctionModel(echo)).run("warm"))  # what a first run imports is imported here
part(count, lambda number: asyncio.run(converse(number)))
