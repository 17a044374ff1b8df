"""Haystack: the one chat message store there is, which is in the process by its name."""

from __future__ import annotations

from haystack.dataclasses import ChatMessage
from haystack_experimental.chat_message_stores.in_memory import InMemoryChatMessageStore
from shapes import Json, joined, newest, text_and_rest


class InMemory:
    keys = False

    def __init__(self, namespace: str) -> None:
        self._store = InMemoryChatMessageStore(skip_system_messages=False, last_k=None)

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        said = []
        for each in messages:
            text, rest = text_and_rest(each)
            make = ChatMessage.from_user
            if each.get("role") == "assistant":
                make = ChatMessage.from_assistant
            said.append(make(text, meta={"rest": rest}))
        self._store.write_messages(thread, said)

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = self._store.retrieve_messages(thread)
        return newest([joined(each.text or "", each.meta["rest"]) for each in found], last)
