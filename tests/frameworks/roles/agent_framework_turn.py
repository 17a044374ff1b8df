"""A turn of an agent with a tool, in a process of its own: url, session, user, question, answer."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import stateward
from stateward.integrations.agent_framework import StatewardHistoryProvider

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.agent_framework_model import agent, calls


def grill(doneness: str) -> str:
    """Grill a steak."""
    return f"a {doneness} steak"


async def main(url: str, session: str, user: str, question: str, answer: str) -> None:
    async with stateward.open(url) as store:
        history = StatewardHistoryProvider(store)
        waiter = agent(history, calls("grill", doneness="medium rare"), answer, tools=[grill])
        result = await waiter.run(question, session=history.session(session, user=user))
    print(json.dumps({"said": result.text}))


asyncio.run(main(*sys.argv[1:]))
