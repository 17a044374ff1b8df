"""LlamaIndex: `pip install 'stateward[llama-index]'`.

    memory = Memory.from_defaults(session_id="s-1", chat_store=StatewardMemoryStore(store))
    buffer = ChatMemoryBuffer.from_defaults(chat_store=StatewardChatStore(store))

A key is a Stateward thread: every `ChatMessage` is one of its messages, kept as it was given.
"""

from stateward.integrations.extras import extra

with extra("llama-index", "StatewardChatStore needs LlamaIndex"):
    import llama_index.core as _llama_index  # noqa: F401 (only whether it is there)

from stateward.integrations.llama_index.chat_store import StatewardChatStore
from stateward.integrations.llama_index.memory_store import StatewardMemoryStore

__all__ = ["StatewardChatStore", "StatewardMemoryStore"]
