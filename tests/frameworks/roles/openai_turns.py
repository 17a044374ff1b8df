"""Turns of an agent with a tool, in a process of its own: url, session, user, question, answers."""

from __future__ import annotations

import asyncio
import json
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import stateward
from stateward.integrations.openai_agents import StatewardSession


@function_tool
def grill(doneness: str) -> str:
    """Grill a steak."""
    return f"a {doneness} steak"


async def main(url: str, session: str, user: str, question: str, answer: str) -> None:
    set_tracing_disabled(True)
    model = ScriptedModel(
        [
            [function_call("grill", {"doneness": "medium rare"}, call_id="call-1")],
            [assistant_message(answer)],
        ]
    )
    agent = Agent(name="waiter", model=model, tools=[grill])
    async with stateward.open(url) as store:
        kept = StatewardSession(store, session, user=user)
        result = await Runner.run(agent, question, session=kept)
    print(json.dumps({"said": result.final_output}))


asyncio.run(main(*sys.argv[1:]))
