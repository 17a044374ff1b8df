"""A replica that asks so many questions in one conversation, each again until it is answered."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from graphs import at, echo
from langchain_core.messages import HumanMessage

import stateward
from stateward.integrations.langgraph import StatewardSaver

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

with StatewardSaver.from_url(url) as saver:
    graph = echo(saver, name="chat")
    for number in range(count):
        while True:
            try:
                graph.invoke({"messages": [HumanMessage(f"{name}-{number}")]}, at("t"))
                break
            except stateward.StateConflictError:
                continue
