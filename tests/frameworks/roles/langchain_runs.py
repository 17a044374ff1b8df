"""Processes that converse with the same session: url, processes, runs."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

import stateward.sync
from stateward.integrations.langchain import StatewardChatMessageHistory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part

warnings.simplefilter("ignore")


def converse(number: int) -> None:
    with stateward.sync.open(url) as store:
        echo: Any = RunnableLambda(lambda messages: f"answer to {messages[-1].content}")
        chain = RunnableWithMessageHistory(
            echo, lambda session_id: StatewardChatMessageHistory(store, session_id)
        )
        for run in range(runs):
            config: Any = {"configurable": {"session_id": "crowd"}}
            chain.invoke(f"{number}.{run}", config)


url, count, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
part(count, converse)
