"""A pytest plugin: LangChain's tests ask for one of its chat histories and get Stateward's.

See foreign_suites.py. Blocking stores, because one history is asked both ways. With the default
URL, `memory://`, a history with a file gets a SQLite file of Stateward's beside it: the tests open
a file twice and expect to find the same messages.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import langchain_core.chat_history
from langchain_core.messages import BaseMessage

import stateward.sync
from stateward.integrations.langchain import StatewardChatMessageHistory

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


class InPlaceOfInMemory(StatewardChatMessageHistory):
    """Takes the arguments of `InMemoryChatMessageHistory`; equal if it holds the same."""

    __doc__ = langchain_core.chat_history.InMemoryChatMessageHistory.__doc__

    def __init__(self, messages: Sequence[BaseMessage] = ()) -> None:
        store = stateward.sync.open(URL, namespace=uuid.uuid4().hex, spill=False)
        super().__init__(store, "in memory")
        self.add_messages(messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InPlaceOfInMemory) and self.messages == other.messages

    __hash__ = None  # type: ignore[assignment] # as the original


class InPlaceOfFile(StatewardChatMessageHistory):
    """Takes the arguments of `FileChatMessageHistory`."""

    def __init__(self, file_path: str) -> None:
        self.file_path = file_path
        super().__init__(store_at(file_path), "in a file")


class InPlaceOfSQL(StatewardChatMessageHistory):
    """Takes the arguments of `SQLChatMessageHistory`."""

    def __init__(self, session_id: str, connection: str, table_name: str = "", **_: Any) -> None:
        super().__init__(store_at(f"{connection.partition('///')[2]}.{table_name}"), session_id)


def store_at(path: str) -> stateward.sync.Store:
    """A store for what the original would keep at this path."""
    url = f"sqlite:///{path}.stateward" if URL == "memory://" else URL
    return stateward.sync.open(url, namespace=f"at {path}", spill=False)


core = import_module("langchain_core.chat_history")
core.InMemoryChatMessageHistory = InPlaceOfInMemory  # type: ignore[attr-defined]
with suppress(ModuleNotFoundError):
    community = import_module("langchain_community.chat_message_histories")
    community.FileChatMessageHistory = InPlaceOfFile  # type: ignore[attr-defined]
    community.SQLChatMessageHistory = InPlaceOfSQL  # type: ignore[attr-defined]
