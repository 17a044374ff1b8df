"""An agent of the OpenAI Agents SDK that remembers, wherever and however often it is started.

python agent.py "Where is my order?"
"""

import asyncio
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

import stateward
from stateward.integrations.openai_agents import StatewardSession

URL = "sqlite:///agents.db"


def scripted(said: str) -> ScriptedModel:
    """Stands for a model, without a network."""
    set_tracing_disabled(True)
    return ScriptedModel([[assistant_message(said)]])


async def main(text: str = "Where is my order?") -> None:
    async with stateward.open(URL) as store:
        session = StatewardSession(store, "s-1", user="u-42", turns=20)
        earlier = len(await session.get_items())
        # Your model goes here: leave `model=` out for OpenAI's own.
        agent = Agent(name="support", model=scripted(f"I remember {earlier} earlier messages."))
        result = await Runner.run(agent, text, session=session)
        print(result.final_output)


asyncio.run(main(*sys.argv[1:]))
