"""Google ADK: a session a conversation, an event a message, and the state of a user beside them.

Sessions stay in memory between appends, as a runner has them during a turn: reading one again would
come on top. State of users is written by events alone: an update appends one to a session that
serves for nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent
from google.genai.types import Content, Part

from bench.contestants.raw import BUSY_SECONDS
from bench.conversations import Change, Message, Population, Turn, profile
from bench.peers.shape import Peer, conversations

APP = "bench"
PROFILE = "profile"
STATE = "user:profile"
ONE = GetSessionConfig(num_recent_events=1)


class Events(Peer):
    colour = "async"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._sessions: dict[tuple[str, str], Session] = {}

    def _service_at(self, place: str) -> DatabaseSessionService:
        raise NotImplementedError

    async def open(self) -> None:
        self._service = self._service_at(self.place)
        await self._service.prepare_tables()

    async def close(self) -> None:
        await self._service.close()

    async def _session(self, thread: str, user: str) -> Session:
        session = self._sessions.get((thread, user))
        if session is None:
            about = {"app_name": APP, "user_id": user, "session_id": thread}
            session = await self._service.get_session(**about, config=ONE)
            session = session or await self._service.create_session(**about)
            self._sessions[thread, user] = session
        return session

    async def fill(self, population: Population) -> None:
        """Rows of its own classes, in one transaction a conversation: an event costs it some ms."""
        begun = time.time() - 100_000
        for thread, user, messages in conversations(population, self.longest):
            session = await self._service.create_session(
                app_name=APP, user_id=user, session_id=thread
            )
            events = [_event(m, begun + n) for n, m in enumerate(messages)]
            rows = [StorageEvent.from_event(session, event) for event in events]
            async with self._service.database_session_factory() as database:
                database.add_all(rows)
                await database.commit()
        for number in range(population.users if population.profiles else 0):
            await self._put(population.user(number), profile(number))

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        session = await self._session(thread, user)
        for message in turn:
            await self._service.append_event(session, _event(message, time.time()))
        session.events.clear()  # what was said before is in the database

    async def last(self, thread: str, user: str, count: int) -> list[Event]:
        return (await self._read(thread, user, count)).events

    async def _read(self, thread: str, user: str, count: int) -> Session:
        config = GetSessionConfig(num_recent_events=count)
        session = await self._service.get_session(
            app_name=APP, user_id=user, session_id=thread, config=config
        )
        assert session is not None
        return session

    async def get(self, user: str) -> dict[str, Any]:
        state = await self._service.get_user_state(app_name=APP, user_id=user)
        return state[PROFILE]  # type: ignore[no-any-return]

    async def update(self, user: str, change: Change) -> None:
        value = dict(await self.get(user))
        change(value)
        await self._put(user, value)

    async def _put(self, user: str, value: dict[str, Any]) -> None:
        session = await self._session(f"profile of {user}", user)
        actions = EventActions(state_delta={STATE: value})
        event = Event(invocation_id="bench", author="user", actions=actions)
        await self._service.append_event(session, event)
        session.events.clear()

    async def context(self, thread: str, user: str, count: int) -> Any:
        """A session comes with the state of its user."""
        session = await self._read(thread, user, count)
        return session.events, session.state[STATE]

    def said(self, found: Sequence[Event]) -> list[Message]:
        return [{"role": e.author, "content": e.content.parts[0].text} for e in found]  # type: ignore[union-attr,index]


class SqliteEvents(Events):
    name = "Google ADK DatabaseSessionService"

    def _service_at(self, place: str) -> DatabaseSessionService:
        """With more patience than the five seconds of its driver: a hundred wait for one lock."""
        url = f"sqlite+aiosqlite:///{place}"
        return DatabaseSessionService(url, connect_args={"timeout": BUSY_SECONDS})


class PostgresEvents(Events):
    name = "Google ADK DatabaseSessionService"

    def _service_at(self, place: str) -> DatabaseSessionService:
        return DatabaseSessionService(place.replace("postgresql://", "postgresql+asyncpg://"))


def _event(message: Message, at: float) -> Event:
    content = Content(role=message["role"], parts=[Part(text=message["content"])])
    return Event(invocation_id="bench", author=message["role"], content=content, timestamp=at)
