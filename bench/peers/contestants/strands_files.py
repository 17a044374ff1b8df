"""Strands: a folder a conversation, a file a message.

What an agent writes besides each message, its own state, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from strands.session.file_session_manager import FileSessionManager
from strands.types.session import SessionAgent, SessionMessage

from bench.conversations import Message, Population, Turn
from bench.peers.shape import Peer, conversations

AGENT = "agent"


class FileSessions(Peer):
    name = "Strands FileSessionManager"
    colour = "sync"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._sessions: dict[str, FileSessionManager] = {}
        self._counts: dict[str, int] = {}  # which a session manager keeps, too

    def open(self) -> None: ...

    def close(self) -> None: ...

    def _session(self, thread: str) -> FileSessionManager:
        session = self._sessions.get(thread)
        if session is None:
            session = FileSessionManager(thread, storage_dir=self.place)
            session.create_agent(thread, SessionAgent(AGENT, {}, {}))
            self._sessions[thread], self._counts[thread] = session, 0
        return session

    def fill(self, population: Population) -> None:
        for thread, _user, messages in conversations(population, self.longest):
            self._add(thread, messages)

    def append(self, thread: str, user: str, turn: Turn) -> None:
        self._add(thread, turn)

    def _add(self, thread: str, messages: Sequence[Message]) -> None:
        session = self._session(thread)
        for message in messages:
            native = {"role": message["role"], "content": [{"text": message["content"]}]}
            number = self._counts[thread]
            session.create_message(
                thread,
                AGENT,
                SessionMessage.from_message(native, number),  # type: ignore[arg-type]
            )
            self._counts[thread] = number + 1

    def last(self, thread: str, user: str, count: int) -> list[SessionMessage]:
        session = self._session(thread)
        start = max(0, self._counts[thread] - count)
        return session.list_messages(thread, AGENT, limit=count, offset=start)

    def said(self, found: Sequence[SessionMessage]) -> list[Message]:
        return [
            {"role": each.message["role"], "content": each.message["content"][0]["text"]}
            for each in found
        ]
