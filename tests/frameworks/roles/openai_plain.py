"""Several processes that converse with the same session, set up in one line: url, processes, runs.

A run that is refused is run again.
"""

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


async def converse(number: int) -> None:
    async with stateward.open(url) as store:
        for run in range(runs):
            name = f"{number}.{run}"
            while True:
                agent = Agent(name="echo", model=ScriptedModel([[assistant_message(name)]]))
                try:
                    await Runner.run(agent, name, session=StatewardSession(store, "crowd"))
                    break
                except stateward.StateConflictError:
                    continue


set_tracing_disabled(True)
url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
warm = Agent(name="echo", model=ScriptedModel([[assistant_message("warm")]]))
asyncio.run(Runner.run(warm, "warm"))  # what a first run imports is imported here, once for all
part(count, lambda number: asyncio.run(converse(number)))
