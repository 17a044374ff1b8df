"""Replicas that ask so many questions in one conversation, each again until it is answered."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from frameworks.crowd import part
from graphs import at, echo
from langchain_core.messages import HumanMessage

import stateward
from stateward.integrations.langgraph import StatewardSaver

url, count, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def talk(number: int) -> None:
    name = names[number]
    with StatewardSaver.from_url(url) as saver:
        graph = echo(saver, name="chat")
        for turn in range(count):
            while True:
                try:
                    graph.invoke({"messages": [HumanMessage(f"{name}-{turn}")]}, at("t"))
                    break
                except stateward.StateConflictError:
                    continue


part(len(names), talk)
