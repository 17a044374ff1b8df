"""A workflow that waits in its second stage to be killed, or goes on from there: url, run, how."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import stateward
from stateward.integrations.agent_framework import StatewardCheckpointStorage

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.agent_framework_model import kitchen


def wait_to_be_killed() -> None:
    print("grilling", flush=True)
    signal.pause()


async def main(url: str, run: str, how: str) -> None:
    async with stateward.open(url) as store:
        storage = StatewardCheckpointStorage(store, run, user="u-42")
        if how == "die":
            workflow = kitchen(before_grill=wait_to_be_killed)
            await workflow.run("steak", checkpoint_storage=storage)
        newest = await storage.get_latest(workflow_name="kitchen")
        assert newest is not None
        result = await kitchen().run(checkpoint_id=newest.checkpoint_id, checkpoint_storage=storage)
        print(json.dumps({"from": newest.iteration_count, "said": result.get_outputs()}))


asyncio.run(main(*sys.argv[1:]))
