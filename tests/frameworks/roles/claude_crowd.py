"""Several processes that write the same session at once: url, processes, batches of each."""

from __future__ import annotations

import asyncio
import sys
from multiprocessing import Barrier
from pathlib import Path

import stateward
from stateward.integrations.claude_agent_sdk import StatewardSessionStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part

KEY = {"project_key": "crowd", "session_id": "s-1"}
PATIENCE = 60.0


async def write(url: str, number: int) -> None:
    # No deadline ends a call on a busy machine: lines would be kept without a look at what is
    # stored, and this is about races.
    policy = stateward.Policy(read_timeout=PATIENCE, write_timeout=PATIENCE)
    async with stateward.open(url, policy=policy) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        await sessions.load(KEY)  # connected, before anybody begins
        line.wait(PATIENCE)
        for batch in range(batches):
            name = f"{number}.{batch}"
            await sessions.append(
                KEY,
                [
                    {"type": "user", "uuid": f"{name}.a", "customTitle": name},
                    {"type": "user", "uuid": f"shared.{batch}"},  # every process brings this one
                    {"type": "assistant", "uuid": f"{name}.b", "n": batch},
                ],
            )
        await sessions.append(KEY, [{"type": "tag", "tag": f"by {number}"}])  # has no uuid


url, count, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
line = Barrier(count)
part(count, lambda number: asyncio.run(write(url, number)))
