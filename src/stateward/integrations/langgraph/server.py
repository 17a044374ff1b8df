"""LangGraph's server on a Stateward store: `langgraph.json` names these two by their paths.

Both functions open the store of the environment's STATEWARD_URL. LangGraph calls them once for each
event loop, and closes the results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stateward.integrations.langgraph.saver import StatewardSaver
from stateward.integrations.langgraph.store import StatewardStore


@asynccontextmanager
async def checkpointer() -> AsyncIterator[StatewardSaver]:
    """Open a saver: `{"path": "stateward.integrations.langgraph.server.checkpointer"}`."""
    async with StatewardSaver.from_url() as saver:
        yield saver


@asynccontextmanager
async def store() -> AsyncIterator[StatewardStore]:
    """Open a store: `{"path": "stateward.integrations.langgraph.server.store"}`."""
    async with StatewardStore.from_url() as memories:
        yield memories
