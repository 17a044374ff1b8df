"""Several processes that converse with the same session, each run in its turn: url, processes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

import stateward
from stateward.integrations.openai_agents import StatewardSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part

RUNS = 3


async def converse(url: str, number: int) -> None:
    async with stateward.open(url) as store:
        for run in range(RUNS):
            name = f"{number}.{run}"
            agent = Agent(name="echo", model=ScriptedModel([[assistant_message(name)]]))
            session = StatewardSession(store, "crowd")
            async with session.turn():
                await Runner.run(agent, name, session=session)


set_tracing_disabled(True)
url, count = sys.argv[1], int(sys.argv[2])
warm = Agent(name="echo", model=ScriptedModel([[assistant_message("warm")]]))
asyncio.run(Runner.run(warm, "warm"))  # what a first run imports is imported here, once for all
part(count, lambda number: asyncio.run(converse(url, number)))
