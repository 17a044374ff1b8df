"""A chat of LlamaIndex in a process of its own: url, key, user, question."""

from __future__ import annotations

import json
import sys

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer

import stateward.sync
from stateward.integrations.llama_index import StatewardChatStore

url, key, user, question = sys.argv[1:]
with stateward.sync.open(url) as store:
    kept = StatewardChatStore(store, user=user)
    memory = ChatMemoryBuffer.from_defaults(
        chat_store=kept, chat_store_key=key, tokenizer_fn=str.split
    )
    SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory).chat(question)
    print(json.dumps({"messages": len(kept.get_messages(key))}))
