"""A pytest plugin: the Claude Agent SDK's tests ask for its store in memory and get Stateward's.

See foreign_suites.py. The tests run under asyncio and under trio, which a blocking store serves.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

import claude_agent_sdk
from claude_agent_sdk._internal import session_store

import stateward.sync
from stateward.integrations.claude_agent_sdk import StatewardSessionStore

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


class InPlaceOfInMemorySessionStore(StatewardSessionStore):
    """Without arguments, each with a namespace of its own, and with what the tests look at."""

    def __init__(self) -> None:
        super().__init__(stateward.sync.open(URL, namespace=uuid.uuid4().hex, spill=False))

    def get_entries(self, key: Any) -> list[Any]:
        entries: list[Any] = self.thread(key).load().messages
        return entries

    @property
    def size(self) -> int:
        return sum(thread.id.count("/") == 1 for thread in self._store.threads())

    def clear(self) -> None:
        for thread in self._store.threads():
            self._store.thread(thread.id).delete()


for module in (claude_agent_sdk, session_store):
    module.InMemorySessionStore = InPlaceOfInMemorySessionStore  # type: ignore[attr-defined]
