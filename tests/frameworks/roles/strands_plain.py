"""Several processes that speak in one session, set up in one line: url, processes, runs."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import stateward.sync
from stateward.integrations.strands import StatewardSessionManager

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part
from frameworks.strands_model import waiter


def converse(number: int) -> None:
    with stateward.sync.open(url) as store:
        names = [f"{number}.{run}" for run in range(runs)]
        kept = waiter(StatewardSessionManager(store, "crowd"), *names[::2])
        for run, name in enumerate(names):  # one agent for all of them, and one for each
            agent = kept if run % 2 == 0 else waiter(StatewardSessionManager(store, "crowd"), name)
            agent(name)


url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
logging.disable(logging.CRITICAL)
part(count, converse)
