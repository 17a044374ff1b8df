"""LangChain: a history object a request, a turn by one `add_messages`."""

from __future__ import annotations

from typing import Any

import psycopg
from langchain_community.chat_message_histories import (
    FileChatMessageHistory,
    RedisChatMessageHistory,
    SQLChatMessageHistory,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_postgres import PostgresChatMessageHistory
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, file_of, home, joined, newest, text_and_rest, uuid_of
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError


def native(message: Json) -> BaseMessage:
    text, rest = text_and_rest(message)
    kind = AIMessage if message.get("role") == "assistant" else HumanMessage
    return kind(content=text, additional_kwargs={"rest": rest})


class Histories:
    keys = False

    def history(self, thread: str) -> Any:
        raise NotImplementedError

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        self.history(thread).add_messages([native(each) for each in messages])

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = self.history(thread).messages
        plain = [joined(each.content, each.additional_kwargs["rest"]) for each in found]
        return newest(plain, last)


class FileHistories(Histories):
    def __init__(self, namespace: str) -> None: ...

    def history(self, thread: str) -> Any:
        return FileChatMessageHistory(str(file_of(thread, ".json")))


class SqlHistories(Histories):
    unavailable = (DBAPIError, OSError)

    def __init__(self, namespace: str) -> None:
        self._engine = create_engine(f"sqlite:///{home() / 'chat.db'}")

    def open(self) -> None:
        for _ in range(2):  # replicas that begin at once meet while the table is made
            try:
                self.history("first")
            except DBAPIError:
                continue

    def history(self, thread: str) -> Any:
        return SQLChatMessageHistory(thread, connection=self._engine)


class RedisHistories(Histories):
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self._url = url

    def history(self, thread: str) -> Any:
        return RedisChatMessageHistory(thread, url=self._url)


class PostgresHistories(Histories):
    """One connection a replica, as its documentation shows; opened again when it is lost."""

    unavailable = (psycopg.OperationalError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self._url = url
        self._connection: Any = None

    def open(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute("SELECT pg_advisory_lock(1)")  # one replica makes the table
            PostgresChatMessageHistory.create_tables(connection, "chat_history")
            connection.execute("SELECT pg_advisory_unlock(1)")

    def history(self, thread: str) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, connect_timeout=5)
        return PostgresChatMessageHistory(
            "chat_history", uuid_of(thread), sync_connection=self._connection
        )
