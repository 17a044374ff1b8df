"""A run with a tool in a process of its own: url."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import stateward
from stateward.integrations.google_adk import StatewardSessionService

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.adk_model import APP, GRILL, ask, waiter


async def main(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        await service.create_session(app_name=APP, user_id="u-42", session_id="s-1")
        runner = waiter(service, GRILL, "Here it is.")
        print(json.dumps(await ask(runner, "A steak, please.")))


asyncio.run(main(sys.argv[1]))
