"""Pydantic AI Harness: a conversation is one row, which each save writes anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationSummary,
    SqliteConversationStore,
)

from bench.conversations import Message, Population, Turn
from bench.peers.shape import Peer, conversations


class SqliteConversations(Peer):
    name = "Pydantic AI Harness SqliteConversationStore"
    colour = "async"
    longest = 1_000  # messages: each save writes all of them

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._open: dict[str, tuple[ConversationSummary, list[ModelMessage]]] = {}

    async def open(self) -> None:
        self._store = SqliteConversationStore(database=Path(self.place))

    async def close(self) -> None: ...

    async def fill(self, population: Population) -> None:
        for thread, _user, messages in conversations(population, self.longest):
            await self._save(thread, messages)

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._save(thread, turn)

    async def _save(self, thread: str, messages: Sequence[Message]) -> None:
        summary, said = self._open.get(thread) or (
            ConversationSummary(id=thread, workspace="bench"),
            [],
        )
        said += map(_native, messages)
        self._open[thread] = await self._store.save(summary=summary, messages=said), said

    async def last(self, thread: str, user: str, count: int) -> list[ModelMessage]:
        return (await self._store.get(conversation_id=thread)).messages[-count:]

    def said(self, found: Sequence[ModelMessage]) -> list[Message]:
        roles = {"request": "user", "response": "assistant"}
        return [{"role": roles[each.kind], "content": each.parts[0].content} for each in found]  # type: ignore[union-attr]


def _native(message: Message) -> ModelMessage:
    if message["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(message["content"])])
    return ModelResponse(parts=[TextPart(message["content"])])
