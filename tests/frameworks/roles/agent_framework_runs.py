"""Several processes that converse with one session and checkpoint one run: url, processes, runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent_framework import WorkflowCheckpoint

import stateward
from stateward.integrations.agent_framework import (
    StatewardCheckpointStorage,
    StatewardHistoryProvider,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.agent_framework_model import agent
from frameworks.crowd import part


async def converse(number: int) -> None:
    async with stateward.open(url) as store:
        history = StatewardHistoryProvider(store)
        storage = StatewardCheckpointStorage(store, "crowd")
        for run in range(runs):
            name = f"{number}.{run}"
            await agent(history, name).run(name, session=history.session("crowd"))
            await storage.save(WorkflowCheckpoint("crowd", "graph", checkpoint_id=name))


url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
part(count, lambda number: asyncio.run(converse(number)))
