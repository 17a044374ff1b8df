"""Several processes that run one session, set up in one line: url, processes, runs."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from google.adk.errors._stale_session_error import StaleSessionError

import stateward
from stateward.integrations.google_adk import StatewardSessionService

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.adk_model import APP, ask, waiter
from frameworks.crowd import part


async def converse(number: int) -> None:
    async with stateward.open(url) as store:
        for run in range(runs):
            name = f"{number}.{run}"
            while True:
                try:
                    await ask(waiter(StatewardSessionService(store), name, tools=()), name)
                    break
                except StaleSessionError:
                    continue


async def warm_up() -> None:
    """What a first run imports is imported here, once for all."""
    service = StatewardSessionService(stateward.open("memory://"), wait="never")
    await service.create_session(app_name=APP, user_id="u-42", session_id="s-1")
    await ask(waiter(service, "warm", tools=()), "warm")


url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
logging.disable(logging.CRITICAL)  # refusals are what is expected here
asyncio.run(warm_up())
part(count, lambda number: asyncio.run(converse(number)))
