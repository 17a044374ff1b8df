"""Google's Agent Development Kit: DatabaseSessionService, with `user:` state for users."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Content, Part
from sqlalchemy.exc import DBAPIError, IntegrityError

from stateward.audit.targets.frameworks.memory import FrameworkMemory
from stateward.audit.targets.memory import UNAVAILABLE, Json
from stateward.audit.targets.target import AuditTarget

APP = "audit"
USER = "user"  # whose conversations are talked about
TRIES = 10  # the service refuses a session that someone else has changed, and says: reload


class DatabaseSessions(FrameworkMemory):
    """A turn is an event a message, as ADK's runner appends them, each in its own transaction.

    An event gets its id from the turn's key, so that a repeat is refused by the table's own key. A
    session that turns out to be stale is loaded again, as the service's error says. There are no
    tasks, workflows, locks, versions of users' state, and no metrics of lookups.
    """

    provides = ("threads", "users", "sizes")
    unavailable = (DBAPIError, *UNAVAILABLE)

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        self._service: Any = None

    async def open(self) -> None:
        url, options = self.sandbox.sqlalchemy()
        self._service = DatabaseSessionService(url, **options)
        await self._service.list_sessions(app_name=APP)  # makes the tables

    async def close(self) -> None:
        await self._service.close()

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        session = await self._session(USER, thread)
        for number, message in enumerate(messages):
            event = Event(
                id=f"{key}/{number}",
                author="user" if message["role"] == "user" else APP,
                invocation_id=key,
                content=Content(role=message["role"], parts=[Part(text=json.dumps(message))]),
            )
            session = await self._store(session, event)

    async def _store(self, session: Session, event: Event) -> Session:
        refused: ValueError | None = None
        for _ in range(TRIES):
            try:
                await self._service.append_event(session, event)
                return session
            except IntegrityError:
                # It was delivered before: this very event is there.
                return await self._session(session.user_id, session.id)
            except ValueError as error:
                if "modified in storage" not in str(error):
                    raise
                refused = error
                session = await self._session(session.user_id, session.id)
        assert refused is not None
        raise refused

    async def _session(self, user: str, id: str) -> Session:
        """Return a session to append to, which needs no past events."""
        address: Json = {"app_name": APP, "user_id": user, "session_id": id}
        bare = GetSessionConfig(num_recent_events=0)
        session = await self._service.get_session(**address, config=bare)
        if session is None:
            try:
                return await self._service.create_session(**address)
            except AlreadyExistsError:
                session = await self._service.get_session(**address, config=bare)
        return session

    async def load(self, thread: str, last: int | None) -> list[Json]:
        config = None if last is None else GetSessionConfig(num_recent_events=last)
        session = await self._service.get_session(
            app_name=APP, user_id=USER, session_id=thread, config=config
        )
        events = [] if session is None else session.events
        return [json.loads(event.content.parts[0].text) for event in events]

    async def get_user(self, user: str) -> Json:
        return dict(await self._service.get_user_state(app_name=APP, user_id=user))

    async def put_user(self, user: str, value: Json) -> None:
        """Store the state by an event of a conversation that this replica has with the user."""
        session = await self._session(user, f"{user}-{self.target.replica}")
        changed = {f"user:{name}": part for name, part in value.items()}
        await self._store(session, Event(author=APP, actions=EventActions(state_delta=changed)))

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        before = await self.get_user(user)
        after = change(dict(before)) or before
        same = before.items()  # a pair that is not there may be a new null
        await self.put_user(
            user, {name: part for name, part in after.items() if (name, part) not in same}
        )
