"""LlamaIndex chat stores: a message by one `add_message`, which is their unit."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.storage.chat_store.postgres import PostgresChatStore
from llama_index.storage.chat_store.redis import RedisChatStore
from llama_index.storage.chat_store.sqlite import SQLiteChatStore
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, home, joined, newest, text_and_rest
from sqlalchemy.exc import DBAPIError


def native(message: Json) -> ChatMessage:
    text, rest = text_and_rest(message)
    role = "assistant" if message.get("role") == "assistant" else "user"
    return ChatMessage(role=role, content=text, additional_kwargs={"rest": rest})


class Stores:
    keys = False
    store: Any

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        for each in messages:
            self.store.add_message(thread, native(each))

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = self.store.get_messages(thread)
        plain = [joined(each.content or "", each.additional_kwargs["rest"]) for each in found]
        return newest(plain, last)


class RedisStore(Stores):
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self.store = RedisChatStore(redis_url=url)


class PostgresStore(Stores):
    unavailable = (DBAPIError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self._url = url

    def open(self) -> None:
        for attempt in range(3):  # replicas that begin at once meet while the table is made
            try:
                self.store = PostgresChatStore.from_uri(uri=self._url)
                return
            except DBAPIError:
                if attempt == 2:
                    raise


class SqliteStore(Stores):
    unavailable = (DBAPIError, OSError)

    def __init__(self, namespace: str) -> None: ...

    def open(self) -> None:
        for attempt in range(3):
            try:
                self.store = SQLiteChatStore.from_uri(uri=f"sqlite:///{home() / 'chat.db'}")
                return
            except DBAPIError:
                if attempt == 2:
                    raise
