"""CAMEL: a chat history block over a storage, a turn by one `write_records`."""

from __future__ import annotations

import asyncio
from typing import Any

from camel.memories.blocks.chat_history_block import ChatHistoryBlock
from camel.memories.records import MemoryRecord
from camel.messages import BaseMessage
from camel.storages.key_value_storages import JsonStorage, RedisStorage
from camel.types import OpenAIBackendRole
from shapes import Json, file_of, joined, newest, text_and_rest


def native(message: Json) -> MemoryRecord:
    text, rest = text_and_rest(message)
    if message.get("role") == "assistant":
        said = BaseMessage.make_assistant_message("assistant", text, meta_dict={"rest": rest})
        return MemoryRecord(message=said, role_at_backend=OpenAIBackendRole.ASSISTANT)
    said = BaseMessage.make_user_message("user", text, meta_dict={"rest": rest})
    return MemoryRecord(message=said, role_at_backend=OpenAIBackendRole.USER)


class Blocks:
    keys = False

    def block(self, thread: str) -> Any:
        raise NotImplementedError

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        self.block(thread).write_records([native(each) for each in messages])

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = [each.memory_record.message for each in self.block(thread).retrieve()]
        return newest([joined(each.content, each.meta_dict["rest"]) for each in found], last)


class JsonBlocks(Blocks):
    def __init__(self, namespace: str) -> None: ...

    def block(self, thread: str) -> Any:
        return ChatHistoryBlock(JsonStorage(file_of(thread, ".json")))


class RedisBlocks(Blocks):
    def __init__(self, namespace: str, url: str) -> None:
        self._url = url

    def block(self, thread: str) -> Any:
        return ChatHistoryBlock(RedisStorage(thread, self._url, loop=asyncio.new_event_loop()))
