"""A Pydantic AI agent that remembers its conversation, wherever and however often it is started.

python agent.py "Where is my order?"
"""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import stateward
from stateward.integrations.pydantic_ai import StatewardConversation

URL = "sqlite:///agents.db"


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a model, without a network."""
    return ModelResponse([TextPart(f"I remember {len(messages) - 1} earlier messages.")])


# Your model goes here: name it, as in Agent("openai:…").
agent = Agent(FunctionModel(scripted))


async def main(text: str = "Where is my order?") -> None:
    async with stateward.open(URL) as store:
        conversation = StatewardConversation(store, "s-1", user="u-42", turns=20)
        result = await conversation.run(agent, text)
        print(result.output)


asyncio.run(main(*sys.argv[1:]))
