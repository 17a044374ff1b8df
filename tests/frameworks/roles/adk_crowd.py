"""Several processes that run one session: once all at once, then in turns: url, count."""

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
from frameworks.crowd import part, tell

TURNS = 1


async def say(store: stateward.Store, name: str) -> None:
    runner = waiter(StatewardSessionService(store), name, tools=())
    await ask(runner, name)
    tell([name, "done"])


async def at_once(number: int) -> None:
    async with stateward.open(url) as store:
        try:
            await say(store, f"{number}.at once")
        except StaleSessionError:
            tell([f"{number}.at once", "refused"])


async def in_turns(number: int) -> None:
    async with stateward.open(url) as store:
        for turn in range(TURNS):
            async with store.lock("session s-1"):
                await say(store, f"{number}.{turn}")


async def warm_up() -> None:
    """What a first run imports is imported here, once for all."""
    service = StatewardSessionService(stateward.open("memory://"), wait="never")
    await service.create_session(app_name=APP, user_id="u-42", session_id="s-1")
    await ask(waiter(service, "warm", tools=()), "warm")


url, count = sys.argv[1], int(sys.argv[2])
logging.disable(logging.CRITICAL)  # refusals are what is expected here
asyncio.run(warm_up())
part(count, lambda number: asyncio.run(at_once(number)))
part(count, lambda number: asyncio.run(in_turns(number)))
