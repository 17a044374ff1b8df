"""Pydantic AI: `pip install 'stateward[pydantic-ai]'`.

    conversation = StatewardConversation(store, "s-abc123", user="u-42")
    result = await conversation.run(agent, "Medium rare, please.")

A conversation is a Stateward thread: every `ModelMessage` is one of its messages, kept as it was
given. `StatewardConversationStore` is the framework's own interface to the same threads.
"""

from stateward.integrations.extras import extra

with extra("pydantic-ai", "StatewardConversation needs Pydantic AI"):
    import pydantic_ai as _pydantic_ai  # noqa: F401 (only whether it is there)

from stateward.integrations.pydantic_ai.conversation import ConversationTurn, StatewardConversation
from stateward.integrations.pydantic_ai.store import StatewardConversationStore

__all__ = ["ConversationTurn", "StatewardConversation", "StatewardConversationStore"]
