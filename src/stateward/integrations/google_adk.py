"""Google's Agent Development Kit: `pip install 'stateward[adk]'`.

    service = StatewardSessionService(store)
    runner = Runner(app_name="waiter", agent=agent, session_service=service)

A session is a Stateward thread of its user: events are its messages, the session's own state is a
document beside them. What begins with `user:` is a document of that user, what begins with `app:`
one of `store.shared`; both are named after the application. What begins with `temp:` is not stored.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Literal, NamedTuple

from stateward.codec import Retention, check_span, decode, encode, encode_document
from stateward.engines.registry import ENGINES
from stateward.errors import InvalidInput
from stateward.integrations.bridge import AnyStore, OnAnyStore
from stateward.integrations.kept.adk import STATE, STATUS, UNMERGED, address, parts_of, shared_name
from stateward.integrations.tool_effects import CallKey, ToolEffects
from stateward.integrations.turns import WAIT, AgentRun, Turns, begin
from stateward.kinds import ERASED, THREAD, USER, erasure_of
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Absent,
    Applied,
    Check,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
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
    NotDroppedSince,
    Put,
    SetHead,
    StatusIn,
    Value,
    Write,
)
from stateward.options import UNSAID, Unsaid
from stateward.records import Cursor
from stateward.state.effect_record import Reconcile
from stateward.state.refusals import refuse, stored
from stateward.state.users import DEFAULT

try:
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
    from google.adk.tools import BaseTool, FunctionTool, ToolContext
    from pydantic_core import to_jsonable_python

    from stateward.integrations.adk_events import as_events
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "StatewardSessionService needs Google's ADK; install it with: pip install 'stateward[adk]'"
    ) from error

OPEN = StatusIn((STATUS,))
NO_SESSION = StatusIn(("",))

Values = dict[str, Any]


class Deltas(NamedTuple):
    """A change of state, by where it belongs; keys without their prefix."""

    app: Values
    user: Values
    session: Values


class Note(NamedTuple):
    """What an event says about `user:` and `app:`, kept beside it until it is stored there.

    `at` is when the event was stored. What another event said later counts more, whichever of them
    is brought there first: beside each document stands when each of its keys was said.
    """

    name: str
    at: float
    deltas: Deltas

    @classmethod
    def of(cls, name: str, value: Value) -> Note:
        kept = decode(value.json)
        return cls(name, value.updated, Deltas(kept["app"], kept["user"], {}))


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
        thread = self._thread(app_name, user_id, session_id)
        deltas, note = split(state or {}), a_note()
        (status,) = OPEN.statuses
        writes: tuple[Write, ...] = (
            Put(STATE, encode(deltas.session, "the state")),
            SetHead(status=status),
            *noted(note, deltas),
        )
        outcome = await self._call(thread.handle.commit, writes, (NO_SESSION,))
        if isinstance(outcome, Conflict):
            raise AlreadyExistsError(f"Session with id {session_id} already exists.")
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
        thread = self._thread(app_name, user_id, session_id.strip())
        recent = None if config is None else config.num_recent_events
        fetched, user, app = await self._fetch_all(app_name, user_id, thread, recent)
        if left := notes_in(fetched):
            for note in left:  # of processes that died right after they had stored an event
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
        found = [each async for page in pages for each in page.entities if is_session(each)]
        app = await self._call(self._store.shared(shared_name(app_name)).get)
        users: dict[str, Values] = {}
        for owner in {each.head.owner for each in found}:
            users[owner] = await self.get_user_state(app_name=app_name, user_id=owner)
        sessions = []
        for each in found:
            own = decode(each.documents[STATE].json)
            state = merged(own, users[each.head.owner], app.value)
            sessions.append(a_session(app_name, each.head.owner, each.entity.id, each.head, state))
        await self._date(sessions, [each.entity for each in found])
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session; nothing happens if there is none."""
        await self._call(self._thread(app_name, user_id, session_id.strip()).delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What was stored under `user:`, without that prefix."""
        kept = await self._call(self._store.user(user_id).get, shared_name(app_name))
        value: Values = kept.value
        return value

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event and what it changes in the state; a partial one is not stored."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        thread = self._thread(session.app_name, session.user_id, session.id)
        deltas = split((event.actions and event.actions.state_delta) or {})
        message = json.loads(event.model_dump_json(exclude_none=True))
        note = a_note()
        applied = await self._append(thread, session, event, message, deltas, note)
        if applied is None:
            session._storage_update_marker = None
        else:
            session._storage_update_marker = str(Cursor(applied.version, applied.stamp))
            noted_at = Note(note, applied.at, deltas)
            await self._merge(session.app_name, session.user_id, thread, noted_at)
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
    ) -> Applied | None:
        """The event and the session's own state in one commit; state is read only to change it.

        None: the store did not answer, and the event is kept until it does.
        """
        handle, run = thread.handle, AgentRun(session, session)
        asks = self._takes_turns and is_question(session, event)
        ends = event.author != "user" and event.is_final_response()
        keep = not any(deltas)  # a state that was kept elsewhere would be read as it was before
        while True:
            writes: tuple[Write, ...] = tuple(noted(note, deltas))
            checks: tuple[Check, ...] = (OPEN,)
            if session._storage_update_marker is not None:
                read = Cursor.of(session._storage_update_marker)
                checks = (OPEN, LogAt(read.version, read.stamp))
            if deltas.session:
                fetched = await self._call(handle.fetch, documents=(STATE,))
                kept = fetched.documents.get(STATE)
                state = decode(kept.json) if kept is not None else {}
                writes = (*writes, Put(STATE, encode(state | deltas.session, "the state")))
                if kept is not None:
                    checks = (*checks, DocumentAt(STATE, kept.version, kept.stamp))
            turn = self._turns.get(handle.entity, run)
            if asks and turn is None and not self._turns.is_shared(handle.entity):
                writes = (*writes, self._turns.acquire(handle.entity))
            elif turn is not None and ends:
                writes = (*writes, turn.release)
            asked = handle.scope.world.monotonic()
            outcome = await self._call(
                handle.append, (message,), event.id, checks, writes, keep=keep
            )
            if turn is not None and ends and not isinstance(outcome, Conflict):
                self._turns.end(turn)
            if isinstance(outcome, Suppressed):
                return None
            if isinstance(outcome, Fenced):  # the turn was lost: the checks decide
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
                    self._turns.taken(handle.entity, run, applied.lease, asked)
                return applied
            if outcome.failed == OPEN:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if is_stale(outcome):
                if turn is not None:
                    await self._give_turn_back(handle, turn)
                raise stale(session)

    async def _catch_up(self, session: Session, thread: Any) -> None:
        """Bring a session that is to be asked something to where it is now."""
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

    async def _merge(self, app_name: str, user_id: str, thread: Any, note: Note) -> None:
        """Bring what belongs to the user and the application there."""
        name, deltas = shared_name(app_name), note.deltas
        if deltas.user:
            user = self._store.user(user_id).handle
            names = (name, f"adk-times {app_name}")
            if await self._merge_into(user, names, deltas.user, note.at):
                await self._take_back(user, names, deltas.user, note.at)
        if deltas.app:
            app = self._store.shared(name).handle
            await self._merge_into(app, (DEFAULT, "adk-times"), deltas.app, note.at)
        if deltas.user or deltas.app:
            outcome = await self._call(thread.handle.commit, (Delete(note.name),), (OPEN,))
            if not isinstance(outcome, Conflict):  # else it was deleted in the meantime
                stored(outcome, thread.handle.entity)

    async def _merge_into(
        self, handle: Any, names: tuple[str, str], said: Values, at: float
    ) -> bool:
        """Store what was said `at` that time, but for what was said since; True: all is new.

        `names` are of the document and of when each of its keys was said. What was dropped since
        is not brought back.
        """
        while True:
            fetched = await self._call(handle.fetch, documents=names)
            value, times = (value_of(fetched, name) for name in names)
            new = {key: each for key, each in said.items() if times.get(key, 0.0) <= at}
            if not new:
                return False
            # Of who had nothing here nothing was dropped: what is there now may have begun anew.
            begun = fetched.head.exists and fetched.head.created >= at
            if begun and handle.entity.kind == USER and await self._erased_since(handle, at):
                return False
            writes = (
                Put(names[0], encode_document(value | new, handle.scope.limits)),
                Put(names[1], encode(times | dict.fromkeys(new, at), "the times")),
            )
            there: tuple[Check, ...] = () if fetched.head.exists else (Absent(),)
            documents = (document_at(fetched, name) for name in names)
            checks = (NotDroppedSince(at), *there, *documents)
            outcome = await self._call(handle.commit, writes, checks)
            if not isinstance(outcome, Conflict):
                return stored(outcome, handle.entity).created
            if isinstance(outcome.failed, NotDroppedSince):
                return False

    async def _take_back(self, user: Any, names: tuple[str, str], said: Values, at: float) -> None:
        """Remove what was stored of a user who has been erased since: nothing there said so."""
        if not await self._erased_since(user, at):
            return
        while True:
            fetched = await self._call(user.fetch, all_documents=True)
            value, times = (value_of(fetched, name) for name in names)
            ours = {key for key in said if times.get(key) == at}
            if not ours:
                return
            rest = [{k: v for k, v in each.items() if k not in ours} for each in (value, times)]
            writes: tuple[Write, ...] = (Drop(),)
            if rest[0] or not fetched.documents.keys() <= set(names):  # the user began anew
                puts = zip(names, rest, strict=True)
                writes = tuple(
                    Put(name, encode(each, "the state")) if each else Delete(name)
                    for name, each in puts
                )
            unchanged = (CommitsAt(fetched.head.commits),)
            outcome = await self._call(user.commit, writes, unchanged)
            if not isinstance(outcome, Conflict):
                stored(outcome, user.entity)
                return

    async def _erased_since(self, user: Any, at: float) -> bool:
        mark = type(user)(user.scope, erasure_of(user.scope.namespace, user.entity.id))
        erased = (await self._call(mark.fetch, documents=(ERASED,))).documents.get(ERASED)
        return erased is not None and erased.updated >= at

    # --- reading --------------------------------------------------------------------

    def thread(self, app_name: str, user_id: str, session_id: str) -> Any:
        """The thread that keeps a session."""
        return self._thread(app_name, user_id, session_id)

    def _thread(self, app_name: str, user_id: str, session_id: str) -> Any:
        id = address(app_name, user_id, session_id)
        return self._store.thread(id, user=user_id, retain=self._retain)

    async def _fetch_all(
        self, app_name: str, user_id: str, thread: Any, recent: int | None
    ) -> tuple[Fetched, Values, Values]:
        """The session, its newest or first events, and what is shared, in one round trip."""
        session = thread.handle
        log = Log(first=session.scope.capabilities.page, details=True) if recent is None else None
        if recent is not None:
            log = Log(last=recent or 1, details=True)  # the newest says when it was
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
        """Tell sessions when their newest event was."""
        scope = self._store.sections["threads"]
        size = scope.capabilities.batch
        for start in range(0, len(entities), size):
            ops = [Fetch(each, log=Log(last=1)) for each in entities[start : start + size]]
            outcomes = await self._call(scope.execute, ops)
            for session, newest in zip(sessions[start:], outcomes, strict=False):
                if newest.lines:
                    session.last_update_time = decode(newest.lines)["timestamp"]


def register_schemes(registry: Any) -> None:
    """Let ADK's commands take `stateward+redis://…` and the like as a session service's URI.

    Call it in the `services.py` of an agent: `register_schemes(get_service_registry())`.
    """

    def create(uri: str, **_options: Any) -> StatewardSessionService:
        return StatewardSessionService.from_url(uri.removeprefix("stateward+"))

    for scheme in ENGINES:
        registry.register_session_service(f"stateward+{scheme}", create)


def split(state: Values) -> Deltas:
    """What belongs to the application, the user and the session; `temp:` belongs to no one."""
    state = to_jsonable_python(state)
    prefixes = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
    app, user = (
        {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        for prefix in prefixes[:2]
    )
    own = {key: value for key, value in state.items() if not key.startswith(prefixes)}
    return Deltas(app, user, own)


def merged(own: Values, user: Values, app: Values) -> Values:
    """All that a session shows as its state."""
    state = dict(own)
    state.update({State.APP_PREFIX + key: value for key, value in app.items()})
    state.update({State.USER_PREFIX + key: value for key, value in user.items()})
    return state


def is_question(session: Session, event: Event) -> bool:
    """Whether a run begins with this event: what a user says, in its own invocation."""
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


def a_note() -> str:
    return UNMERGED + uuid.uuid4().hex


def noted(name: str, deltas: Deltas) -> Iterable[Write]:
    """A note, stored with the event, of what is to be brought elsewhere."""
    if deltas.app or deltas.user:
        yield Put(name, encode({"app": deltas.app, "user": deltas.user}, "the state"))


def notes_in(fetched: Fetched) -> list[Note]:
    found = fetched.documents.items()
    return [Note.of(name, value) for name, value in found if name.startswith(UNMERGED)]


def document_at(fetched: Fetched, name: str) -> DocumentAt:
    value = fetched.documents.get(name)
    return DocumentAt(name, 0) if value is None else DocumentAt(name, value.version, value.stamp)


def value_of(outcome: Any, name: str) -> Values:
    assert isinstance(outcome, Fetched)
    value = outcome.documents.get(name)
    return {} if value is None else decode(value.json)


def is_session(found: Found) -> bool:
    return found.head.status in OPEN.statuses and STATE in found.documents


def a_session(app_name: str, user_id: str, id: str, head: Head, state: Values) -> Session:
    own = parts_of(id)[-1]
    session = Session(
        id=own, app_name=app_name, user_id=user_id, state=state, last_update_time=head.updated
    )
    session._storage_update_marker = str(Cursor(head.version, head.stamp or None))
    return session


# --- tools that act -----------------------------------------------------------------------------


def effect_tool(
    service: StatewardSessionService | AnyStore,
    tool: BaseTool | Callable[..., Any],
    *,
    key: CallKey | None = None,
    reconcile: Reconcile | None = None,
    keyed: bool = False,
    attempts: int = 1,
    ttl: float = 30.0,
) -> BaseTool:
    """The same tool, each call of which is carried out once for its session: see `Thread.effect`.

    `LlmAgent(tools=[effect_tool(service, charge)])`. The call is the id of the function call, or
    what `key` makes of its arguments: give one where a run is repeated after a crash by asking the
    same question again, because then the model makes another call. An exception of the tool is
    recorded, and raised again by further calls; what it changes in the state of the session is not.
    """
    sessions = (
        service
        if isinstance(service, StatewardSessionService)
        else StatewardSessionService(service)
    )
    inner = tool if isinstance(tool, BaseTool) else FunctionTool(tool)
    acts = ToolEffects(inner.name, key, reconcile, keyed, attempts, ttl)

    async def acting(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async def act(**_: Any) -> Any:
            answer = await inner.run_async(args=args, tool_context=tool_context)
            return to_jsonable_python(answer)

        if getattr(inner, "_require_confirmation", False) and not tool_context.tool_confirmation:
            return await inner.run_async(args=args, tool_context=tool_context)  # it only asks
        session = tool_context.session
        thread = sessions.thread(session.app_name, session.user_id, session.id)
        return await acts.carry_out(thread.handle, tool_context.function_call_id, act, args)

    outer = copy(inner)
    object.__setattr__(outer, "run_async", acting)
    return outer
