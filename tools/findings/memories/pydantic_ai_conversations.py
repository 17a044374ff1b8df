"""Pydantic AI Harness: a conversation is loaded, the turn is added, and it is saved whole.

One that changed meanwhile is refused; then it is loaded again, after a moment, up to thirty times.
"""

from __future__ import annotations

import asyncio
import json
import random

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
    SqliteConversationStore,
)
from shapes import Json, home, newest

ATTEMPTS = 30


class Conversations:
    keys = False

    def __init__(self, namespace: str) -> None:
        self._store = SqliteConversationStore(database=home() / "conversations.db")

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        new = [ModelRequest(parts=[UserPromptPart(json.dumps(each))]) for each in messages]
        for attempt in range(ATTEMPTS):
            summary, said = await self._found(thread)
            try:
                await self._store.save(summary=summary, messages=[*said, *new])
                return
            except ConversationConflict:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0, 0.01 * (attempt + 1)))

    async def load(self, thread: str, last: int | None) -> list[Json]:
        _, said = await self._found(thread)
        return newest([json.loads(each.parts[0].content) for each in said], last)

    async def _found(self, thread: str) -> tuple[ConversationSummary, list[ModelMessage]]:
        try:
            found = await self._store.get(conversation_id=thread)
        except LookupError:
            return ConversationSummary(id=thread, workspace="audit"), []
        return found.summary, list(found.messages)
