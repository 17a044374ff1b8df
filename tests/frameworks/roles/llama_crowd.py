"""Several processes that add messages to the same chat of LlamaIndex: url, processes, messages."""

from __future__ import annotations

import sys
from pathlib import Path

from llama_index.core.llms import ChatMessage

import stateward.sync
from stateward.integrations.llama_index import StatewardChatStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.crowd import part


def talk(number: int) -> None:
    with stateward.sync.open(url) as store:
        kept = StatewardChatStore(store)
        for message in range(messages):
            kept.add_message("crowd", ChatMessage(role="user", content=f"{number}.{message}"))


url, count, messages = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
part(count, talk)
