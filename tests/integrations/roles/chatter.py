"""A replica that says so many things in one conversation, each again until it is kept."""

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
        conflicts = 0
        while True:
            try:
                text = f"{name}-{number}-{conflicts}"
                graph.invoke({"messages": [HumanMessage(text)]}, at("t"), durability="sync")
                print("kept", text, flush=True)
                break
            except stateward.StateConflictError:
                print("refused", text, flush=True)
                conflicts += 1
