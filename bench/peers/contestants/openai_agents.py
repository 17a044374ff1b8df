"""Sessions of the OpenAI Agents SDK: one object a conversation, kept while it is open."""

from __future__ import annotations

from typing import Any

from agents.memory import SQLiteSession

from bench.conversations import Message, Population, Turn
from bench.peers.shape import Peer, conversations


class Sessions(Peer):
    """They hold items, which are plain dictionaries."""

    colour = "async"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._sessions: dict[str, Any] = {}

    def _open(self, thread: str) -> Any:
        raise NotImplementedError

    def _session(self, thread: str) -> Any:
        session = self._sessions.get(thread)
        if session is None:
            session = self._sessions[thread] = self._open(thread)
        return session

    async def open(self) -> None: ...

    async def fill(self, population: Population) -> None:
        for thread, _user, messages in conversations(population, self.longest):
            await self._session(thread).add_items(messages)

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._session(thread).add_items(list(turn))

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        return await self._session(thread).get_items(limit=count)  # type: ignore[no-any-return]


class SQLiteSessions(Sessions):
    name = "OpenAI Agents SQLiteSession"

    def _open(self, thread: str) -> SQLiteSession:
        return SQLiteSession(thread, self.place)

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()
