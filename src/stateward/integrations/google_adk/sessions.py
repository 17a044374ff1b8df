"""ADK's session service over a store: each session is a thread, its events are messages."""

from __future__ import annotations

import json
import uuid
from typing import Any, Literal

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from stateward.codec import Retention, check_span, decode, encode
from stateward.engines.registry import ENGINES
from stateward.errors import ConversationDeletedError
from stateward.integrations.adapter import AnyStore, OnAnyStore
from stateward.integrations.google_adk.events import as_events, raise_unknown
from stateward.integrations.google_adk.state import (
    OPEN,
    Deltas,
    Note,
    SharedState,
    Values,
    document_at,
    merged,
    new_note_name,
    noted,
    notes_in,
    split,
    value_of,
)
from stateward.integrations.kept.adk import STATE, STATUS, address, parts_of, shared_name
from stateward.integrations.kept.statuses import NO_SESSION, joined, status_to_join
from stateward.integrations.recent import Recent
from stateward.integrations.turns import WAIT, AgentRun, Turns, begin
from stateward.kinds import THREAD
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Applied,
    Check,
    Conflict,
    Entity,
    Fenced,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    List,
    Log,
    LogAt,
    Put,
    SetHead,
    StatusIn,
    Write,
)
from stateward.owner import UNSAID, Unsaid
from stateward.records import Cursor
from stateward.state.conversation_life import Life
from stateward.state.refusals import refuse, stored
from stateward.state.users import DEFAULT

REMEMBERED = 1024  # sessions whose life is known: those read or written last


class SessionDeletedError(ConversationDeletedError, SessionNotFoundError):
    """The session was deleted, its user erased, or its retention ended, during the run."""


class StatewardSessionService(OnAnyStore, BaseSessionService):
    """Sessions of ADK in a store.

    A run has its session to itself from the question to the answer; another one waits for it, for
    up to `wait` seconds (None: as long as it takes), and then gets `LeaseHeld`. Its session has by
    then what the other has added. With `wait="never"` runs take no turns. Any other event is added
    only to the session that it was made for: if events were added since the session was read,
    raises `StaleSessionError`, and nothing was stored.

    If the store fails, an event that changes no state is kept locally, as the store's policy says;
    everything else raises `StoreUnavailable`. `retain` is how long a session is kept after its last
    event; by default what the store was opened with.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        wait: float | Literal["never"] | None = WAIT,
        retain: Retention | Unsaid = UNSAID,
    ) -> None:
        super().__init__(store)
        self._retain = retain
        self._takes_turns = wait != "never"
        self._wait = check_span(wait, "wait") if isinstance(wait, int | float) else None
        self._turns = Turns.of(self._store.sections["threads"])
        self._merge = SharedState(self._store, self._call).merge
        # Lives of sessions by the session and its place, as they were read here.
        self._lives: Recent[tuple[str, str | None], Life | None] = Recent(REMEMBERED)

    # --- what ADK calls -------------------------------------------------------------

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Begin a session; one that exists raises `AlreadyExistsError`.

        A thread that other frameworks have begun is made one, and what they said is its beginning.
        """
        session_id = (session_id or "").strip() or uuid.uuid4().hex
        thread = self.thread(app_name, user_id, session_id)
        deltas, note = split(state or {}), new_note_name()
        put = Put(STATE, encode(deltas.session, "the state"))
        status = NO_SESSION
        while True:
            joins = SetHead(status=joined(status, STATUS))
            writes: tuple[Write, ...] = (put, joins, *noted(note, deltas))
            outcome = await self._call(thread.handle.commit, writes, (StatusIn((status,)),))
            if not isinstance(outcome, Conflict):
                break
            now = status_to_join(outcome, STATUS)
            if now is None:
                raise AlreadyExistsError(f"Session with id {session_id} already exists.")
            status = now
        applied = stored(outcome, thread.handle.entity)
        await self._merge(app_name, user_id, thread, Note(note, applied.at, deltas))
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if session is None:
            raise SessionNotFoundError(f"Session {session_id} was deleted while it began.")
        return session

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session with its events and all its state, or None."""
        thread = self.thread(app_name, user_id, session_id.strip())
        recent = None if config is None else config.num_recent_events
        fetched, user, app = await self._fetch_all(app_name, user_id, thread, recent)
        if left := notes_in(fetched):
            for note in left:  # notes of processes that died right after storing an event
                await self._merge(app_name, user_id, thread, note)
            fetched, user, app = await self._fetch_all(app_name, user_id, thread, recent)
        if STATE not in fetched.documents:
            return None
        entries = list(fetched.entries)
        if recent is None and len(entries) == thread.handle.scope.capabilities.page:
            rest = thread.handle.pages(entries[-1].seq, fetched.head.version)
            async for page in self._each(rest):
                entries += page.entries
        events = as_events(entries, app_name)
        updated = events[-1].timestamp if events else fetched.head.updated
        if recent == 0:
            events = []
        if config is not None and config.after_timestamp is not None:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        own = decode(fetched.documents[STATE].json)
        session = a_session(app_name, user_id, thread.id, fetched.head, merged(own, user, app))
        self._lives[thread.id, session._storage_update_marker] = thread.handle.life(fetched.head)
        session.events, session.last_update_time = events, updated
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Sessions with their state, without their events; the last one to change comes last."""
        prefix = address(app_name) if user_id is None else address(app_name, user_id)
        scope = self._store.sections["threads"]
        wanted = List(
            scope.namespace, kind=THREAD, owner=user_id, prefix=f"{prefix}/", documents=(STATE,)
        )
        pages = self._each(scope.pages(wanted))
        threads = [each async for page in pages for each in page.entities if is_session(each)]
        app = await self._call(self._store.shared(shared_name(app_name)).get)
        users: dict[str, Values] = {}
        for owner in {each.head.owner for each in threads}:
            users[owner] = await self.get_user_state(app_name=app_name, user_id=owner)
        sessions = []
        for each in threads:
            own = decode(each.documents[STATE].json)
            state = merged(own, users[each.head.owner], app.value)
            sessions.append(a_session(app_name, each.head.owner, each.entity.id, each.head, state))
        await self._date(sessions, [each.entity for each in threads])
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session; a missing one is ignored."""
        await self._call(self.thread(app_name, user_id, session_id.strip()).delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state stored under `user:`, without that prefix."""
        document = await self._call(self._store.user(user_id).get, shared_name(app_name))
        value: Values = document.value
        return value

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event and what it changes in the state; a partial one is not stored."""
        if event.partial:
            return event
        raise_unknown(session, event)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        thread = self.thread(session.app_name, session.user_id, session.id)
        deltas = split((event.actions and event.actions.state_delta) or {})
        message = json.loads(event.model_dump_json(exclude_none=True))
        note, life = new_note_name(), self._lives.get((thread.id, session._storage_update_marker))
        try:
            applied = await self._append(thread, session, event, message, deltas, note, life)
        except ConversationDeletedError as error:
            raise SessionDeletedError(f"Session {session.id} not found: {error}") from error
        if applied is None:
            session._storage_update_marker = None
        else:
            session._storage_update_marker = str(Cursor(applied.version, applied.stamp))
            noted_at = Note(note, applied.at, deltas)
            await self._merge(session.app_name, session.user_id, thread, noted_at)
        self._lives[thread.id, session._storage_update_marker] = life
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    # --- writing --------------------------------------------------------------------

    async def _append(
        self,
        thread: Any,
        session: Session,
        event: Event,
        message: Values,
        deltas: Deltas,
        note: str,
        life: Life | None,
    ) -> Applied | None:
        """Commit an event with the session's own state; state is read only to change it.

        Returns None if the store does not answer and the event is stored locally.
        """
        handle, run = thread.handle, AgentRun(session, session)
        asks = self._takes_turns and is_question(session, event)
        ends = event.author != "user" and event.is_final_response()
        keep = not any(deltas)  # a state stored locally would be missing in later reads
        while True:
            writes: tuple[Write, ...] = tuple(noted(note, deltas))
            checks: tuple[Check, ...] = (OPEN,)
            if session._storage_update_marker is not None:
                read = Cursor.of(session._storage_update_marker)
                checks = (OPEN, LogAt(read.version, read.stamp))
            if deltas.session:
                fetched = await self._call(handle.fetch, documents=(STATE,))
                state = value_of(fetched, STATE) | deltas.session
                writes = (*writes, Put(STATE, encode(state, "the state")))
                if STATE in fetched.documents:
                    checks = (*checks, document_at(fetched, STATE))
            turn = self._turns.get(handle.entity, run)
            if asks and turn is None and not self._turns.is_shared(handle.entity):
                writes = (*writes, self._turns.acquire(handle.entity))
            elif turn is not None and ends:
                writes = (*writes, turn.release)
            requested_at = handle.scope.world.monotonic()
            outcome = await self._call(
                handle.append, (message,), event.id, checks, writes, keep=keep, life=life
            )
            if turn is not None and ends and not isinstance(outcome, Conflict):
                self._turns.end(turn)
            if isinstance(outcome, Suppressed):
                return None
            if isinstance(outcome, Fenced):  # the turn was lost, so the checks of the commit decide
                continue
            if asks and (isinstance(outcome, Held) or is_stale(outcome)):
                await self._wait_for_turn(handle, run, self._wait)
                await self._catch_up(session, thread)
                continue
            if not isinstance(outcome, Conflict):
                applied = stored(outcome, handle.entity)
                if asks:
                    begin(run)
                if applied.lease is not None:
                    self._turns.taken(handle.entity, run, applied.lease, requested_at)
                return applied
            if outcome.failed == OPEN:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if is_stale(outcome):
                if turn is not None:
                    await self._give_turn_back(handle, turn)
                raise stale(session)

    async def _catch_up(self, session: Session, thread: Any) -> None:
        """Bring a session up to date before a question."""
        read = Cursor.of(session._storage_update_marker or "")
        new = await self._call(
            thread.handle.fetch, Log(read.version, stamp=read.stamp, details=True)
        )
        app_name, user_id = session.app_name, session.user_id
        fetched, user, app = await self._fetch_all(app_name, user_id, thread, 0)
        if STATE not in fetched.documents:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if new.reset:
            raise stale(session)
        session.events += as_events(new.entries, app_name, session.events)
        temp = {k: v for k, v in session.state.items() if k.startswith(State.TEMP_PREFIX)}
        own = decode(fetched.documents[STATE].json)
        session.state.clear()
        session.state.update(merged(own, user, app) | temp)
        session._storage_update_marker = str(Cursor(new.head.version, new.head.stamp or None))

    # --- reading --------------------------------------------------------------------

    def thread(self, app_name: str, user_id: str, session_id: str) -> Any:
        """Return the thread that stores a session."""
        id = address(app_name, user_id, session_id)
        return self._store.thread(id, user=user_id, retain=self._retain)

    async def _fetch_all(
        self, app_name: str, user_id: str, thread: Any, recent: int | None
    ) -> tuple[Fetched, Values, Values]:
        """Fetch a session, its newest or first events, and shared state in one round trip."""
        session = thread.handle
        log = Log(first=session.scope.capabilities.page, details=True) if recent is None else None
        if recent is not None:
            log = Log(last=recent or 1, details=True)  # the newest has the session's time
        name = shared_name(app_name)
        user, app = self._store.user(user_id).handle, self._store.shared(name).handle
        asked = (
            (session.scope, Fetch(session.entity, session.owner, log, all_documents=True)),
            (user.scope, Fetch(user.entity, user.owner, documents=(name,))),
            (app.scope, Fetch(app.entity, app.owner, documents=(DEFAULT,))),
        )
        fetched, of_user, of_app = await self._call(self._store.sections.execute, asked)
        if not isinstance(fetched, Fetched):
            refuse(fetched, session.entity)
        return fetched, value_of(of_user, name), value_of(of_app, DEFAULT)

    async def _date(self, sessions: list[Session], entities: list[Entity]) -> None:
        """Set the times of sessions to those of their newest events."""
        scope = self._store.sections["threads"]
        size = scope.capabilities.batch
        for start in range(0, len(entities), size):
            log = Log(last=1, details=True)
            ops = [Fetch(each, log=log) for each in entities[start : start + size]]
            outcomes = await self._call(scope.execute, ops)
            for session, newest in zip(sessions[start:], outcomes, strict=False):
                if events := as_events(newest.entries, session.app_name):
                    session.last_update_time = events[-1].timestamp


def is_question(session: Session, event: Event) -> bool:
    """Return whether a run begins with this event: a user's message in a new invocation."""
    return (
        event.author == "user"
        and bool(event.invocation_id)
        and event.content is not None
        and bool(event.content.parts)
        and not event.get_function_responses()
        and session._storage_update_marker is not None
        and all(each.invocation_id != event.invocation_id for each in session.events[-1:])
    )


def is_stale(outcome: Any) -> bool:
    return isinstance(outcome, Conflict) and isinstance(outcome.failed, LogAt)


def stale(session: Session) -> StaleSessionError:
    return StaleSessionError(
        f"Another replica has added events to session {session.id} since it was read; "
        "nothing was stored. Get the session again and repeat the run"
    )


def is_session(found: Found) -> bool:
    return found.head.status in OPEN.statuses and STATE in found.documents


def a_session(app_name: str, user_id: str, id: str, head: Head, state: Values) -> Session:
    own = parts_of(id)[-1]
    session = Session(
        id=own, app_name=app_name, user_id=user_id, state=state, last_update_time=head.updated
    )
    session._storage_update_marker = str(Cursor(head.version, head.stamp or None))
    return session


def register_schemes(registry: Any) -> None:
    """Let ADK's commands take `stateward+redis://…` and the like as a session service's URI.

    Call it in the `services.py` of an agent: `register_schemes(get_service_registry())`.
    """

    def create(uri: str, **_options: Any) -> StatewardSessionService:
        return StatewardSessionService.from_url(uri.removeprefix("stateward+"))

    for scheme in ENGINES:
        registry.register_session_service(f"stateward+{scheme}", create)
