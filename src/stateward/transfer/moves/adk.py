"""ADK: `adk:sqlite:///sessions.db`, `adk:postgresql://…`, of its session services.

Of a `SqliteSessionService` or a `DatabaseSessionService`, whichever made the tables. A session
becomes the thread that `StatewardSessionService` keeps; what a user and an application have in
common becomes their documents. Tables are asked what there is; the rest ADK itself reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, TypeVar

from stateward.codec import encode, encode_document
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.kinds import SHARED, USER
from stateward.state.users import DEFAULT
from stateward.transfer.moves.foreign import (
    LIMITS,
    ForeignItem,
    ForeignThread,
    message_body,
    time_of,
)
from stateward.transfer.moves.foreign_database import SCHEMES, ForeignDatabase, database_url

try:
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.adk.sessions.session import Session
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    from stateward.integrations.google_adk.state import split
    from stateward.integrations.kept.adk import STATE, STATUS, address, parts_of, shared_name
except ImportError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "importing from ADK needs it; install it with: pip install 'stateward[adk]'"
    ) from error

T = TypeVar("T")


def open_source(text: str) -> AdkSessions:
    url = database_url(text)
    if url.scheme not in SCHEMES:
        raise InvalidInput(
            f"{url.scheme} has no sessions of ADK that can be read: use adk:sqlite:///FILE, or "
            "adk:postgresql://…"
        )
    return AdkSessions(url)


class AdkSessions:
    """Sessions, events and states, read by the session service that wrote them."""

    lost: tuple[str, ...] = ()

    def __init__(self, url: EngineURL) -> None:
        self.name = f"adk:{url.safe}"
        self._last: Session | None = None  # as ADK read it: a session is requested more than once
        with ExitStack() as stack:
            self._base = stack.enter_context(closing(ForeignDatabase(url)))
            if not self._base.has_table("sessions") or not self._base.has_table("user_states"):
                raise InvalidInput(f"{url.safe} has no sessions of ADK")
            self._loop = stack.enter_context(asyncio.Runner())
            self._service = their_service(url, self._base)
            states = "SELECT app_name, state FROM app_states ORDER BY app_name"
            self._apps = {app: _dict(state) for app, state in self._base.query(states)}
            self._users: dict[str, list[str]] = {}  # user id → applications with state of the user
            users = "SELECT user_id, app_name FROM user_states ORDER BY user_id, app_name"
            for user, app in self._base.query(users):
                self._users.setdefault(user, []).append(app)
            self._open = stack.pop_all()

    def size(self) -> int:
        ((count,),) = self._base.query("SELECT count(*) FROM events")
        return int(count)

    def threads(self) -> Iterator[ForeignThread]:
        for app in self._apps:
            yield ForeignThread(id=shared_name(app), kind=SHARED)
        for user in self._users:
            yield ForeignThread(id=user, owner=user, kind=USER)
        for app, user, id, created, updated in self._base.query(
            "SELECT app_name, user_id, id, create_time, update_time FROM sessions "
            "ORDER BY app_name, user_id, id"
        ):
            yield ForeignThread(
                id=address(app, user, id),
                owner=user,
                status=STATUS,
                created=time_of(created),
                updated=time_of(updated),
            )

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        if thread.kind in (SHARED, USER):
            return
        for event in self._session(thread).events:
            message = json.loads(event.model_dump_json(exclude_none=True))
            yield ForeignItem(message_body(message), event.timestamp)

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        if thread.kind == SHARED:
            (shared,) = (s for app, s in self._apps.items() if shared_name(app) == thread.id)
            return {DEFAULT: encode_document(shared, LIMITS)} if shared else {}
        if thread.kind == USER:
            states = {app: self._state_of_user(app, thread.id) for app in self._users[thread.id]}
            return {
                shared_name(app): encode_document(state, LIMITS)
                for app, state in states.items()
                if state
            }
        return {STATE: encode(split(self._session(thread).state).session, "the state")}

    def close(self) -> None:
        self._run(self._service.close())
        self._open.close()

    # --- asking ADK -----------------------------------------------------------------

    def _state_of_user(self, app: str, user: str) -> dict[str, Any]:
        return self._run(self._service.get_user_state(app_name=app, user_id=user))

    def _session(self, thread: ForeignThread) -> Session:
        app, user, id = parts_of(thread.id)
        last = self._last
        if last is not None and (last.app_name, last.user_id, last.id) == (app, user, id):
            return last
        try:
            asked = self._service.get_session(app_name=app, user_id=user, session_id=id)
            self._last = self._run(asked)
        except ValueError as error:  # an event that ADK does not understand
            raise InvalidInput(f"ADK cannot read it: {error}") from error
        if self._last is None:
            raise InvalidInput("it is gone from the source")
        return self._last

    def _run(self, asked: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(asked)


def their_service(
    url: EngineURL, base: ForeignDatabase
) -> SqliteSessionService | DatabaseSessionService:
    """Return the session service that made these tables."""
    if base.is_file:
        path = url.rest.removeprefix("/")
        columns = base.query("SELECT name FROM pragma_table_info('events')")
        if not base.has_table("adk_internal_metadata") and ("event_data",) in columns:
            return SqliteSessionService(path)
        where = f"sqlite+aiosqlite:///{path}"
    else:
        where = f"postgresql+asyncpg://{url.text.partition('://')[2]}"
    try:
        return DatabaseSessionService(where)
    except (ImportError, ValueError) as error:
        raise InvalidInput(
            f"ADK cannot open {url.safe}: {error}. It needs the packages sqlalchemy and greenlet, "
            "and aiosqlite or asyncpg"
        ) from error


def _dict(state: Any) -> dict[str, Any]:
    """Return the value of a JSON column, which is text in some databases."""
    try:
        fields: dict[str, Any] = json.loads(state) if isinstance(state, str) else state
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"ADK's database holds a state that is not JSON: {error}") from error
    return fields
